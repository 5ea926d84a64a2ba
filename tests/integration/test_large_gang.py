"""A gang of more tasks than polls may wait at its ApplicationMaster, on a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.fault_world import MARKS
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import VerdictKind
from yarnam.wire.protocol import HELD_CALLS

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld

pytestmark = [*MARKS, pytest.mark.long, pytest.mark.timeout(900)]

START_S = 480.0
"""On two cores, which start some three agents a second."""


def test_agents_of_a_large_gang_are_woken(world: FaultWorld) -> None:
    """All start together, each hears the AM's datagrams, and a cancelled gang leaves nothing."""
    tasks = HELD_CALLS + 5
    worker = {"tasks": tasks, "gpus": 0, "memory": "256MiB", "processes_per_task": 1}
    gang = {"hold_timeout": "10min", "launch_timeout": "5min"}
    # 205 agents that start on one machine keep each other waiting: none is lost for that.
    am = {"agent_silence": "60s"}
    job = world.submit("large", "exec sleep 1200", worker=worker, gang=gang, am=am)
    status = world.until_phase(job, Phase.RUNNING, START_S)
    assert len(status.tasks) == tasks
    job.kill("its test is over")
    assert world.end_of(job).kind is VerdictKind.CANCELLED
    world.assert_cleared(job)
    said = world.yarnam("logs", job.id, "--agent").wait().out
    # On a busy machine an agent may fall silent and be replaced: its successor says so too.
    assert said.count("the AM's datagrams arrive") >= tasks
    assert "without a datagram" not in said
