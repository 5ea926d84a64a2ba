"""The ApplicationMaster on a disk that is full from its n-th write on, each n in turn, in every
attempt: the job succeeds without what could not be written, or it fails and says that the disk is
full; nothing of it stays on the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import MARKS
from yarnam.core.model.outcomes import VerdictKind

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld

pytestmark = [*MARKS, pytest.mark.long, pytest.mark.timeout(1500)]

ROOT = Path(__file__).parents[2]
FULL = "No space left on device"
STARTS = "sys.path.insert(0, sys.argv.pop(1))\n"
"""In the script of the ApplicationMaster: then its own code can be imported."""

SHIM = """
import os, sys
sys.path.append({root!r})
from pathlib import Path
from tests.fakes.full_disk import FullDisk

class Written(list):
    log = os.open({log!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    write = os.write
    def append(self, operation):
        super().append(operation)
        Written.write(self.log, (" ".join(operation) + chr(10)).encode())

disk = FullDisk(Path.cwd(), {number})
disk.operations = Written()
installed = disk.installed()
installed.__enter__()
"""


@dataclass
class ShimmedLauncher:
    """Starts the ApplicationMaster's Python with a module that is loaded before its own code."""

    inner: Any
    shim: Path

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def submit(self, application_spec: Any, am: Any, **options: Any) -> Any:
        script = application_spec.master.script
        assert script.count(STARTS) == 1
        shimmed = f'{STARTS}exec(open("{self.shim}").read())\n'
        application_spec.master.script = script.replace(STARTS, shimmed)
        return self.inner.submit(application_spec, am, **options)

    def close(self) -> None:
        pass


def play(world: FaultWorld, folder: Path, number: int) -> tuple[str, list[str]]:
    """How the job ended, and what its ApplicationMasters have written, in order."""
    folder.mkdir()
    log, shim = folder / "written", folder / "shim.py"
    shim.write_text(SHIM.format(root=str(ROOT), log=str(log), number=number))
    launcher = ShimmedLauncher(world.site.open_launcher(), shim)
    spec = world.write(world.document(f"am-disk-{number}", ["true"], worker={"tasks": 2}))
    job = world.client.submit(spec, launcher=launcher)
    world.jobs.append(job)
    verdict = world.end_of(job)
    world.assert_cleared(job)
    found = "ran" if verdict.kind is VerdictKind.SUCCEEDED else f"{verdict.message} {verdict.hint}"
    return found, log.read_text().splitlines() if log.exists() else []


def test_at_each_write_of_the_application_master(world: FaultWorld, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    found, written = play(world, tmp_path / "0", 0)
    assert found == "ran"
    print("\n".join(written))
    assert written
    for number in range(1, len(written) + 1):
        found, operations = play(world, tmp_path / f"{number}", number)
        print(number, written[number - 1], "->", found[:300])
        assert found == "ran" or FULL in found, (operations, found)
