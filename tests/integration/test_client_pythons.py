"""A job submitted from each Python that this machine has, with the built wheel and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.submit_world import SubmitWorld

ROOT = Path(__file__).parents[2]
INSTALL_S = 400
VERSIONS = [(3, minor) for minor in range(10, 15)]

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs, pytest.mark.long, pytest.mark.timeout(900)]


def pythons() -> list[str]:
    """Those of the supported versions on PATH, and those of pyenv, which keeps them elsewhere."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = {}
    for major, minor in VERSIONS:
        name = f"python{major}.{minor}"
        places = [
            shutil.which(name),
            *sorted(map(str, versions.glob(f"{major}.{minor}.*/bin/{name}"))),
        ]
        for place in filter(None, places):
            done = subprocess.run([place, "-c", "import venv"], capture_output=True, check=False)
            if done.returncode == 0:
                found[name] = place
    return [*found.values()]


def checked(*command: str | Path) -> str:
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, timeout=INSTALL_S, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    checked(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT)
    [built] = folder.glob("*.whl")
    return built


@pytest.mark.parametrize("python", pythons(), ids=lambda path: Path(path).name)
def test_the_wheel_submits_from_it_and_the_job_runs_on_it(
    python: str, wheel: Path, submit_world: SubmitWorld, unique_name: Callable[[str], str]
) -> None:
    venv = submit_world.folder / "venv"
    checked(python, "-m", "venv", venv)
    checked(venv / "bin/pip", "install", "-q", wheel)
    checked(venv / "bin/pip", "check")
    version = checked(venv / "bin/python", "-c", "import sys; print(sys.version_info[:3])").strip()
    command = ["python3", "-c", "import sys, yarnam.train; print('on', sys.version_info[:3])"]
    spec = submit_world.spec(unique_name("python"), command, environment={"python": "bundled"})
    environ = {**submit_world.environ, "PATH": f"{venv / 'bin'}:{submit_world.environ['PATH']}"}
    environ.pop("PYTHONPATH", None)

    def yarnam(*arguments: str) -> str:
        done = subprocess.run(
            [venv / "bin/yarnam", *arguments],
            env=environ, cwd=submit_world.folder,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert yarnam("docs", "kerberos").startswith("# ")
    yarnam("submit", str(spec), "--watch")
    application = submit_world.rm.applications(user=submit_world.user)[0].application
    assert f"on {version}" in yarnam("logs", application, "--rank", "0")
