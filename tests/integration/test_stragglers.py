"""A node that is slow slows its gang: the rank is named, and moves where the job asks for it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.fault_world import MARKS
from tests.integration.ring_program import JOIN_RING
from yarnam.core.model.events import StragglersFound
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import SlownessCause

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld

pytestmark = MARKS

# Every rank needs a byte of its left one in each step, as in a ring; on a node, or with a share of
# the input, that is named in the folder it computes five times as long.
RING = """
import os, socket, sys, time
from yarnam import train
rank, size = train.rank(), train.world_size()
base = {base} + 10 * train.attempt()
{ring}
step = 0
while not os.path.exists("{folder}/enough") and not train.should_stop():
    step += 1
    with train.compute():
        names = os.environ["NM_HOST"], f"share-{{rank}}"
        is_slow = any(os.path.exists("{folder}/" + name) for name in names)
        time.sleep(0.5 if is_slow else 0.1)
    for _ in range(size):
        right.sendall(b"x")
        if not left.recv(1):
            sys.exit(0)
    train.report(step=step)
"""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_slow_node_is_named_and_left(world: FaultWorld, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    code = RING.format(ring=JOIN_RING, base=27500, folder=tmp_path)
    job = world.submit(
        "stragglers", ["python3", "-c", code], worker={"tasks": 3, "gpus": 1}, framework="command",
        stragglers={"replace": True}, placement={"strategy": "spread"},
    )  # fmt: skip
    status = world.until_phase(job, Phase.RUNNING)
    slow = status.tasks[1]
    (tmp_path / slow.node).touch()
    slow_at_s = time.time()
    world.until(job, lambda s: bool(s.history[0].stragglers), "the straggler", 180.0)
    event = world.events(job, StragglersFound)[0]
    (found,) = event.stragglers
    assert (found.rank, found.node) == (slow.ranks[0], slow.node)
    assert found.slowdown > 1.5
    status = world.until(
        job, lambda s: s.phase == Phase.RUNNING.value and s.attempt == 2, "the move", 180.0
    )
    named_s, moved_s = event.at_s - slow_at_s, time.time() - event.at_s
    print(f"named after {named_s:.1f} s, runs elsewhere {moved_s:.1f} s later")
    print(world.yarnam("events", job.id).wait().out)
    assert slow.node not in {task.node for task in status.tasks}
    assert status.restarts == 0
    # None is slow there: it was the node.
    status = world.until(
        job,
        lambda s: any(one.cause is SlownessCause.NODE for one in s.history[0].stragglers),
        "that it was the node",
        180.0,
    )
    (tmp_path / "enough").touch()
    assert world.end_of(job).exit_code == 0
    done = world.yarnam("explain", job.id).wait()
    assert "the node is slow" in done.out, done


@pytest.mark.long
@pytest.mark.timeout(900)
def test_slow_data_is_slow_on_another_node_too(world: FaultWorld, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    code = RING.format(ring=JOIN_RING, base=27600, folder=tmp_path)
    job = world.submit(
        "slow-data", ["python3", "-c", code], worker={"tasks": 3, "gpus": 1}, framework="command",
        stragglers={"replace": True}, placement={"strategy": "spread"},
    )  # fmt: skip
    world.until_phase(job, Phase.RUNNING)
    (tmp_path / "share-1").touch()
    status = world.until(
        job,
        lambda s: any(one.cause is SlownessCause.DATA for at in s.history for one in at.stragglers),
        "that it is the data",
        300.0,
    )
    found = [one for at in status.history for one in at.stragglers]
    assert {one.rank for one in found} == {1}
    nodes = {one.node for one in found}
    print(f"rank 1 was slow on {sorted(nodes)}")
    # One move has shown that moving does not help.
    assert status.attempt == 2
    (tmp_path / "enough").touch()
    assert world.end_of(job).exit_code == 0
    done = world.yarnam("explain", job.id).wait()
    assert "moves with the rank and its data" in done.out, done
