"""A job that is killed in all its parts goes on from its checkpoint with the same losses."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hdfs_utils import checkpoints, connect
from tests.integration.fault_world import LIMIT_S, MARKS
from tests.integration.row_training import ROWS, SCRIPT, losses_of, references
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import VerdictKind

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.slow, pytest.mark.chaos, pytest.mark.timeout(900)]

STEPS = 12


def wait_for_step(world: FaultWorld, job: Job, home: str, step: int) -> None:
    """Until a checkpoint of this step or a later one is whole."""
    fs = connect(conf_dir=str(world.cluster.conf_dir))
    deadline = time.monotonic() + LIMIT_S
    while True:
        found = checkpoints.latest(home, fs=fs, report=lambda _skipped: None)
        if found is not None and found.step >= step:
            return
        assert job.status().verdict is None, job.status().verdict
        assert time.monotonic() < deadline, f"no checkpoint of step {step}"
        time.sleep(0.2)


def test_killed_in_all_its_parts_it_has_the_losses_of_one_run(
    world: FaultWorld, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    name = unique_name("ckpt-kill")
    home = f"/tmp/{name}"
    code = tmp_path / "code"
    code.mkdir()
    (code / "go_on.py").write_text(SCRIPT)
    result = tmp_path / "result"
    job = world.submit(
        name,
        ["python3", "code/go_on.py", str(ROWS), str(STEPS), str(result)],
        code=str(code),
        checkpoint={"directory": home, "keep": 2},
        retry={"max_restarts": 9, "on_user_failure": 9},
        am={"agent_silence": "5s", "attempts": 3},
    )
    try:
        for number, victim in enumerate(("rank", "agent", "am", "rank"), start=1):
            wait_for_step(world, job, home, 2 * number)
            world.until_phase(job, Phase.RUNNING)
            time.sleep(random.uniform(0.0, 1.5))
            kill(world, job, victim)
        assert world.end_of(job).kind is VerdictKind.SUCCEEDED
        assert losses_of(result, 2) == references(STEPS, 2)
        fs = connect(conf_dir=str(world.cluster.conf_dir))
        listed = [status.path.rpartition("/")[2] for status in fs.list(home)]
        assert not [entry for entry in listed if entry.startswith("corrupt-")]
        newest = checkpoints.latest(home, fs=fs)
        assert newest is not None
        assert (newest.step, newest.writer["owner"]) == (STEPS, job.id)
        assert int(newest.writer["attempt"]) > 1
    finally:
        connect(conf_dir=str(world.cluster.conf_dir)).delete(home, recursive=True)


def kill(world: FaultWorld, job: Job, victim: str) -> None:
    if victim == "am":
        os.kill(world.am_pid(job), signal.SIGKILL)
        return
    ranks = world.pids(job, "go_on.py")
    ranks = [
        pid
        for pid in ranks
        if b"python3\0code/go_on.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    if not ranks:
        return  # between two attempts: nobody to kill just now
    if victim == "rank":
        os.kill(random.choice(ranks), signal.SIGKILL)
    else:
        world.signal_agent(job, world.container_of(ranks[0]), signal.SIGKILL)
