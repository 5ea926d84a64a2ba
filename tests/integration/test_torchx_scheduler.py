"""``torchx run -s yarnam``. TorchX wants older packages than others here: they are in a Python
of their own, and come before those of this one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.framework_venvs import framework_python
from tests.integration.submit_world import SubmitWorld

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]

COMPONENT = """\
import torchx.specs as specs


def shown(name: str, text: str = "replica", seconds: int = 0) -> specs.AppDef:
    \"\"\"Shows which replica it is.

    Args:
        name: of the app
        text: what it says first
        seconds: how long it stays
    \"\"\"
    line = f"echo {text} {specs.macros.replica_id} of $YARNAM_ROLE_WORLD_SIZE; sleep {seconds}"
    small = specs.Resource(cpu=1, gpu=0, memMB=512)
    one = specs.Role("one", "", entrypoint="sh", args=["-c", line], num_replicas=2, resource=small)
    return specs.AppDef(name, roles=[one])
"""


Torchx = Callable[..., subprocess.CompletedProcess[str]]


def torchx_in(folder: Path, environ: dict[str, str]) -> Torchx:
    packages = framework_python("torchx").parent.parent
    (site,) = packages.glob("lib/python*/site-packages")

    def torchx(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "torchx.cli.main", *arguments],
            cwd=folder,
            env={**environ, "PYTHONPATH": f"{ROOT}:{site}"},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    return torchx


def test_torchxs_own_components_become_specs(tmp_path: Path) -> None:
    for name, key, value in (
        ("core-site.xml", "fs.defaultFS", "hdfs://127.0.0.1:1"),
        ("yarn-site.xml", "yarn.resourcemanager.hostname", "127.0.0.1"),
    ):
        property_ = f"<property><name>{key}</name><value>{value}</value></property>"
        (tmp_path / name).write_text(f"<configuration>{property_}</configuration>")
    (tmp_path / "more.yaml").write_text("placement: {strategy: spread}\n")
    torchx = torchx_in(tmp_path, {"HADOOP_CONF_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"})
    done = torchx(
        *("run", "-s", "yarnam", "--dryrun", "-cfg", "queue=root.dl,code=.,spec=more.yaml"),
        *("dist.ddp", "-j", "2:4x2", "--gpu", "2", "--script", "code/train.py"),
    )
    assert done.returncode == 0, done.stderr
    spec = yaml.safe_load((done.stdout + done.stderr).split("=== SCHEDULER REQUEST ===")[1])
    role = spec["roles"]["train"]
    assert (spec["queue"], spec["code"]) == ("root.dl", ".")
    assert spec["placement"] == {"strategy": "spread"}
    assert (role["tasks"], role["gpus"]) == ({"min": 2, "max": 4}, 2)
    assert (role["processes"], role["memory"]) == ("per-task", "1024 MiB")
    assert "--rdzv_endpoint ${YARNAM_COORDINATOR_HOST:=localhost}:29500" in role["command"][2]
    wrong = {"list.yaml": b"- a", "bytes.yaml": b"\xff", "open.yaml": b"a: [", "none.yaml": None}
    for name, content in wrong.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
        refused = torchx(
            *("run", "-s", "yarnam", "--dryrun", "-cfg", f"queue=root.dl,spec={name}"),
            *("dist.ddp", "-j", "1x1", "--script", "code/train.py"),
        )
        (said,) = [line for line in refused.stderr.splitlines() if line.startswith("ValueError: ")]
        assert name in said


@pytest.mark.yarn
@pytest.mark.hdfs
def test_an_app_runs_is_shown_and_is_cancelled(submit_world: SubmitWorld, unique_name: Any) -> None:
    here = submit_world.folder
    (here / "component.py").write_text(COMPONENT)
    torchx = torchx_in(
        here, {**submit_world.environ, "HADOOP_CONF_DIR": str(submit_world.conf_dir)}
    )
    run = ("run", "-s", "yarnam", "-cfg", f"queue={submit_world.queue}")
    done = torchx(*run, "--wait", "component.py:shown", "--name", unique_name("app"))
    assert done.returncode == 0, done.stderr
    handle = next(word for word in done.stdout.split() if word.startswith("yarnam://torchx/"))
    assert "SUCCEEDED" in torchx("status", handle).stdout
    logs = torchx("log", handle)
    for number in range(2):
        assert f"one/{number} replica {number} of 2" in logs.stdout + logs.stderr
    long = torchx(*run, "component.py:shown", "--name", unique_name("app"), "--seconds", "300")
    handle = next(word for word in long.stdout.split() if word.startswith("yarnam://torchx/"))
    application = handle.rpartition("/")[2]
    submit_world.await_state(application, "RUNNING", limit_s=150)
    assert "RUNNING" in torchx("status", handle).stdout
    assert torchx("cancel", handle).returncode == 0
    submit_world.await_state(application, "CANCELLED", limit_s=150)
    assert "CANCELLED" in torchx("status", handle).stdout
