"""What the processes report of their steps becomes an event."""

from __future__ import annotations

import math

import pytest

from tests.fakes.clock import FakeClock
from tests.unit.gang.play import Play, job
from yarnam.am.probes.gang_observers import view_of
from yarnam.core.model.events import Event, StragglersFound
from yarnam.core.model.ids import AskId
from yarnam.core.model.metrics import COMPUTE_S, MEASURED_STEPS, STEP_S, AgentMetrics, Measured
from yarnam.core.observers.straggler_observer import STRAGGLERS, pace_of


def metrics(
    ask: AskId, rank: int, compute_s: float, steps: float, step_s: float = 0.8, attempt: int = 1
) -> AgentMetrics:
    values = {COMPUTE_S: compute_s, STEP_S: step_s, MEASURED_STEPS: steps}
    told = tuple((name, Measured(value)) for name, value in values.items())
    return AgentMetrics(ask, rank, 1.0, 9, None, told, attempt)


class World:
    """Two workers of one process each; rank 1 computes twice as long."""

    def __init__(self) -> None:
        self.play = Play(job(processes=1)).to_running()
        self.clock = FakeClock()
        self.events: list[Event] = []
        self.state = STRAGGLERS.initial

    def windows(self, count: int = 6, *, attempt: int = 1) -> None:
        one, two = self.play.asks()
        for number in range(1, count + 1):
            measured = [
                metrics(one, 0, 0.4, 16.0 * number, attempt=attempt),
                metrics(two, 1, 0.8, 16.0 * number, attempt=attempt),
            ]
            view = view_of(self.play.gang, job(), self.clock.now_s(), measured)
            self.state, found = STRAGGLERS.observe(self.state, view)
            self.events += found.events
            self.clock.advance(1.0)


def test_a_rank_that_is_slow_for_long_is_reported_once() -> None:
    world = World()
    world.windows()
    (event,) = world.events
    assert isinstance(event, StragglersFound)
    assert event.attempt == 1
    assert [(one.rank, one.node) for one in event.stragglers] == [(1, "n2")]


def test_not_before_all_run_nor_after_some_have_ended_nor_by_old_reports() -> None:
    world = World()
    world.windows(attempt=7)
    world.play.ok(world.play.asks()[0])
    world.windows()
    world.play = Play(job(processes=1)).to_launching()
    world.windows()
    assert world.events == []


@pytest.mark.parametrize(
    ("compute_s", "steps", "step_s"),
    [
        (math.nan, 16.0, 1.0),
        (math.inf, 16.0, 1.0),
        (-1.0, 16.0, 1.0),
        (0.4, math.nan, 1.0),
        (0.4, math.inf, 1.0),
        (0.4, 1e300, 1.0),
        (0.4, 0.0, 1.0),
        (0.4, 16.0, math.nan),
        (0.4, 16.0, 0.0),
        (0.4, 16.0, math.inf),
    ],
)
def test_what_cannot_be_does_not_count(compute_s: float, steps: float, step_s: float) -> None:
    assert pace_of(metrics(AskId(1, "worker", 0), 0, compute_s, steps, step_s), "n1") is None
