"""Jobs of TonY, as its own end-to-end cases have them, from its command line to their end."""

from __future__ import annotations

import io
import shlex
import sys
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import MARKS
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.fault_world import FaultWorld

pytestmark = [*MARKS, pytest.mark.long, pytest.mark.timeout(400)]

SMALL = " ".join(f"--conf tony.{role}.memory=512m" for role in ("am", "worker", "ps", "chief"))
CHECK = "import os; assert os.path.isfile('venv/Python/123.xml'); assert os.environ['JOB_NAME']"
VENV = "--python_venv venv.tar.gz"
WORKER = "--conf tony.worker.instances=1"
PS_FAILS = (
    f"{WORKER} --conf tony.ps.instances=1 --conf tony.worker.command='sleep 200' "
    "--conf tony.ps.command='exit 1'"
)
DEPENDENTS = (
    "--executes true --conf tony.chief.instances=1 --conf tony.worker.instances=2 "
    "--conf tony.worker.command='sleep 300' --conf tony.application.group.A=chief "
    "--conf tony.application.dependency.worker.timeout.after.A=10 "
    "--conf tony.application.dependency.worker.timeout.after.A.ignored=true"
)
PASSES, FAILS = VerdictKind.SUCCEEDED, VerdictKind.FAILED
CASES = {
    "interpreter": (
        f"{VENV} --python_binary_path Python/bin/python --executes check.py {WORKER}",
        PASSES,
    ),
    "archive": (f"{VENV} --executes 'python3 check.py' {WORKER}", PASSES),
    "single-node": (f"{VENV} --executes 'python3 check.py'", PASSES),
    "ps-fails": (PS_FAILS, FAILS),
    "dependents": (DEPENDENTS, PASSES),
}


def pack(archive: Path) -> None:
    python = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n'.encode()
    files = {"Python/123.xml": b"x", "Python/bin/python": python}
    with tarfile.open(archive, "w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))


@pytest.mark.parametrize("name", CASES)
def test_a_job_ends_as_in_tony(
    name: str,
    world: FaultWorld,
    unique_name: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line, kind = CASES[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "check.py").write_text(CHECK)
    (tmp_path / "tony.xml").write_text("<configuration/>")
    pack(tmp_path / "venv.tar.gz")
    own = f"{SMALL} --conf tony.yarn.queue=dl --conf tony.application.name={unique_name(name)}"
    words = shlex.split(f"import tony.xml --src_dir src {line} {own} -o job.yaml")
    done = world.yarnam(*words).wait()
    assert done.code == ExitCode.OK, done
    job = world.client.submit(tmp_path / "job.yaml")
    world.jobs.append(job)
    verdict = world.end_of(job)
    assert verdict.kind is kind, verdict
