"""Environments that submit makes, used and checked in containers of a real cluster."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.integration.framework_venvs import framework_python
from tests.integration.submit_world import SubmitWorld
from tests.unit.client.environments.test_packed_environment import wheel
from yarnam.client.environments.environment_layers import LEAST_LAYER_BYTES

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs, pytest.mark.timeout(900)]

PRINT = """
import sys, tiny
print('prefix', sys.prefix)
tiny.main()
try:
    import large, os
    print(os.listdir(os.path.dirname(large.__file__)))
except ImportError:
    pass
"""


def requirements(folder: Path) -> dict[str, str]:
    path = folder / "requirements.txt"
    path.write_text(f"./{wheel(folder).name}\n")
    return {"requirements": str(path)}


def with_layer(folder: Path) -> dict[str, str]:
    large = wheel(folder, "large", more={"large_data/x.bin": "x" * LEAST_LAYER_BYTES})
    path = folder / "requirements.txt"
    path.write_text(f"./{wheel(folder).name}\n./{large.name}\n")
    return {"requirements": str(path)}


def venv(folder: Path) -> dict[str, str]:
    made = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True)
    [site] = (made / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(wheel(folder)) as archive:
        archive.extractall(site)
    return {"venv": str(made)}


def pex(folder: Path) -> dict[str, str]:
    path = folder / "tiny.pex"
    command = [framework_python("pex"), "-m", "pex", wheel(folder), "-o", path]
    subprocess.run(command, check=True, timeout=300)
    return {"pex": str(path)}


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(requirements, id="requirements", marks=pytest.mark.long),
        pytest.param(with_layer, id="layer", marks=pytest.mark.long),
        pytest.param(venv, id="venv", marks=pytest.mark.long),
        pytest.param(pex, id="pex", marks=pytest.mark.frameworks),
    ],
)
def test_a_job_runs_in_it_and_the_next_one_finds_it(
    make: Any, submit_world: SubmitWorld, unique_name: Any
) -> None:
    name = unique_name("packed")
    spec = submit_world.spec(name, ["python3", "-c", PRINT], environment=make(submit_world.folder))
    first = submit_world.submit(spec)
    stored = names_of(submit_world)
    second = submit_world.submit(spec)
    assert names_of(submit_world) == stored, "the second submit has made nothing"
    for application in (first, second):
        submit_world.await_state(application, "SUCCEEDED", limit_s=150)
        logs = submit_world.run("logs", application, "--rank", "0").out
        # Beside the container, and not where it was made.
        assert "prefix" in logs
        assert "/environment" in logs
        assert ("large_data" in logs) == (make is with_layer)
        assert str(submit_world.folder) not in logs


def names_of(submit_world: SubmitWorld) -> set[str]:
    """Of the archives on HDFS."""
    return {row["name"] for row in submit_world.run("env", "ls", "--json").json}


@pytest.mark.long
def test_what_is_missing_is_named_from_a_real_container(
    submit_world: SubmitWorld, unique_name: Any
) -> None:
    code = submit_world.folder / "code"
    code.mkdir()
    (code / "train.py").write_text("import json\nimport tiny\nimport no_such_module\n")
    spec = submit_world.spec(
        unique_name("check"),
        ["python3", "code/train.py"],
        code=str(code),
        environment=requirements(submit_world.folder),
    )
    done = submit_world.run("env", "check", spec, "--import", "sqlite3", "--json")
    assert done.code == 90, done.err
    report = done.json
    assert {"tiny", "sqlite3"} <= set(report["modules"])
    assert list(report["missing"]) == ["no_such_module"]
    assert "cannot be imported: no_such_module" in done.err
    assert "environment" in report["executable"]
