"""A program that only writes files, as ``torch.save`` does, is killed in the midst of a save and
goes on from the save before."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hdfs_utils import checkpoints, connect
from hdfs_utils.checkpoints import catalog
from tests.integration.fault_world import MARKS
from yarnam.core.model.events import CheckpointMirrored
from yarnam.core.model.outcomes import VerdictKind

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job
    from yarnam.core.model.job_status import JobStatus

pytestmark = [*MARKS, pytest.mark.long, pytest.mark.timeout(600)]

PROGRAM = '''
"""Saves a file per epoch. It dies once in the midst of a save: when the flag is there."""

import os, signal, sys, time, zipfile
from pathlib import Path

steps, dies_at, flag, starts = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
saved = sorted(Path("ckpt").glob("epoch-*.pt"))
start = 0
if saved:
    with zipfile.ZipFile(saved[-1]) as archive:
        assert archive.testzip() is None
        start = int(archive.read("archive/data.pkl"))
with open(starts, "a") as file:
    print(start, file=file)
for step in range(start + 1, steps + 1):
    dies = step == dies_at and start == 0
    while dies and not flag.exists():
        time.sleep(0.1)
    with open(f"ckpt/epoch-{step}.pt", "wb") as file:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("archive/data.pkl", str(step))
            archive.writestr("archive/data/0", os.urandom(3 << 20))
            if dies:
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)
'''


def test_killed_in_the_midst_of_a_save_it_goes_on_from_the_one_before(
    world: FaultWorld, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    name = unique_name("mirror")
    home, code = f"/tmp/{name}", tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(PROGRAM)
    flag, starts = tmp_path / "flag", tmp_path / "starts"
    fs = connect(conf_dir=str(world.cluster.conf_dir))

    def submit(steps: int) -> Job:
        return world.submit(
            name,
            ["python3", "train.py", str(steps), "4", str(flag), str(starts)],
            code=str(code),
            worker={"tasks": 1, "gpus": 0},
            checkpoint={"directory": home, "mirror": "ckpt/", "keep": 2},
            retry={"max_restarts": 2, "on_user_failure": 2},
        )

    try:
        job = submit(5)
        status = world.until(job, lambda status: is_kept(status, 3), "set of three epochs")
        assert status.mirror is not None
        assert status.mirror.trouble == ""
        shown = world.yarnam("status", job.id).wait().out
        assert "of 3 files" in shown
        flag.write_text("")
        assert world.end_of(job).kind is VerdictKind.SUCCEEDED
        assert starts.read_text().split() == ["0", "3"]
        kept = [event.files for event in world.events(job, CheckpointMirrored)]
        assert kept[-1] == 5, "the last save is kept before the end is reported"
        # Another job begins where this one has ended.
        assert world.end_of(submit(6)).kind is VerdictKind.SUCCEEDED
        assert starts.read_text().split() == ["0", "3", "5"]
        newest = checkpoints.latest(home, fs=fs)
        assert newest is not None
        assert newest.names == tuple(f"epoch-{step}.pt" for step in range(1, 7))
        assert len(catalog.candidates(fs, home)) == 2
        listed = json.loads(world.yarnam("ckpt", "ls", home, "--json").wait().out)
        assert listed[0]["state"] == "whole"
    finally:
        fs.delete(home, recursive=True)


def is_kept(status: JobStatus, files: int) -> bool:
    """Whether a set of this many files is kept."""
    return status.mirror is not None and status.mirror.files == files
