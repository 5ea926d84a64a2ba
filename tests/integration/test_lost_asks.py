"""Every container that a gang asks for comes, whatever else is outstanding: on a real cluster."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import AGENT, MARKS, is_shell, waiting_for
from yarnam.core.model.events import ContainerEnded
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import VerdictKind

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld

pytestmark = [*MARKS, pytest.mark.long]

HALF: dict[str, Any] = {"gpus": 4, "memory": "256MiB", "processes_per_task": 1}
"""A task that takes half a node, of which there are four."""


def test_an_ask_beside_others_is_not_lost(world: FaultWorld, tmp_path: Path) -> None:
    """Four of eight are granted when one of these ends. Skein would give the next ask the number of
    one that is outstanding, and give back what YARN grants for one of them."""
    first, second = tmp_path / "first-ends", tmp_path / "second-ends"
    holder = world.submit("holder", waiting_for(first), worker={**HALF, "tasks": 4})
    world.until_phase(holder, Phase.RUNNING)
    gang = {"look_before_ask": False, "hold_timeout": "10min"}
    job = world.submit("half", waiting_for(second), worker={**HALF, "tasks": 8}, gang=gang)
    world.until(job, lambda s: sum(t.state == "ready" for t in s.tasks) == 4, "half of it")
    victim = next(pid for pid in world.pids(job, AGENT) if not is_shell(pid))
    os.kill(victim, signal.SIGKILL)
    world.until(job, lambda _: bool(world.events(job, ContainerEnded)), "its end")
    first.touch()
    assert world.end_of(holder).kind is VerdictKind.SUCCEEDED
    status = world.until_phase(job, Phase.RUNNING)
    assert status.attempt == 1
    second.touch()
    assert world.end_of(job).kind is VerdictKind.SUCCEEDED


def test_two_halves_of_the_cluster_start_together(world: FaultWorld, tmp_path: Path) -> None:
    """Each fits into either rack, and neither has its containers when the other plans."""
    flag = tmp_path / "both-end"

    def submit(name: str) -> Any:
        return world.submit(name, waiting_for(flag), worker={**HALF, "tasks": 4})

    with ThreadPoolExecutor(2) as pool:
        jobs = list(pool.map(submit, ("left", "right")))
    try:
        statuses = [world.until_phase(job, Phase.RUNNING) for job in jobs]
    finally:
        flag.touch()  # else they keep half of the cluster each from the tests after this one
    assert [status.attempt for status in statuses] == [1, 1]
    for job in jobs:
        assert world.end_of(job).kind is VerdictKind.SUCCEEDED
