"""A container close to its memory limit is reported before YARN kills it."""

from __future__ import annotations

import pytest

from tests.unit.gang.play import Play, job
from yarnam.am.probes.gang_observers import view_of
from yarnam.cli.rendering.event_text import event_text
from yarnam.core.gang import Gang
from yarnam.core.gang.gang_status import describe
from yarnam.core.model.events import ConditionChanged
from yarnam.core.model.metrics import MEMORY_BYTES, AgentMetrics, Measured
from yarnam.core.observers.memory_observer import AGENT_BYTES, MEMORY
from yarnam.core.observers.observer_registry import past_findings, status_lines

SPEC = job(processes=1)
LIMIT = SPEC.roles[0].resources.memory_mib * 2**20


class World:
    """Two workers of one process each."""

    def __init__(self) -> None:
        self.play = Play(SPEC).to_running()
        self.state = MEMORY.initial

    @property
    def gang(self) -> Gang:
        return self.play.gang

    def use(self, *shares: float | None) -> list[ConditionChanged]:
        """One look; a share is of the container's limit, the agent included."""
        metrics = [
            AgentMetrics(
                ask, rank, 1.0, None, None,
                ((MEMORY_BYTES, Measured(share * LIMIT - AGENT_BYTES)),), self.gang.attempt,
            )
            for rank, (ask, share) in enumerate(zip(self.play.asks(), shares, strict=True))
            if share is not None
        ]  # fmt: skip
        view = view_of(self.gang, SPEC, self.play.now_s, metrics)
        self.state, found = MEMORY.observe(self.state, view)
        events = [event for event in found.events if isinstance(event, ConditionChanged)]
        for event in events:
            self.play.send(event)
        return events


def test_a_task_close_to_its_limit_is_named_once_with_its_figures_and_the_key() -> None:
    world = World()
    assert world.use(0.5, 0.89) == []
    (event,) = world.use(0.5, 0.93)
    assert event.type == "memory"
    assert "worker-1 on n2 uses" in event.message
    assert "(93%)" in event.message
    assert "roles.worker.memory" in event.message
    assert world.use(0.5, 0.97) == [], "one report is enough"
    status = describe(world.gang, world.play.now_s)
    (line,) = [line for line in status_lines(status, 0.0) if line.text.startswith("memory: ")]
    assert line.is_warning
    assert event_text(event) == line.text
    assert list(past_findings(status.history[-1])) == [line.text]


def test_it_ends_only_well_below_the_limit_and_stays_in_the_attempts_record() -> None:
    world = World()
    world.use(0.95, 0.2)
    assert world.use(0.85, 0.2) == []
    (event,) = world.use(0.7, 0.2)
    assert event.message == ""
    assert event_text(event) == "memory: no longer"
    status = describe(world.gang, world.play.now_s)
    assert status.conditions == ()
    (condition,) = status.history[-1].conditions
    assert condition.ended_at_s is not None


def test_another_task_is_another_report() -> None:
    world = World()
    world.use(0.95, 0.2)
    (event,) = world.use(0.2, 0.95)
    assert "worker-1" in event.message
    world = World()
    (event,) = world.use(0.95, 0.96)
    assert event.message.endswith("; 1 more task is as close")


@pytest.mark.parametrize("share", [None, float("nan"), float("inf"), -5.0])
def test_what_is_not_measured_or_cannot_be_does_not_count(share: float | None) -> None:
    world = World()
    assert world.use(share, share) == []


def test_a_new_attempt_and_an_ended_task_begin_anew() -> None:
    world = World()
    world.use(0.95, 0.2)
    world.play.ok(world.play.asks()[0])
    (event,) = world.use(None, 0.2)
    assert event.message == "", "the task that was close has ended"
