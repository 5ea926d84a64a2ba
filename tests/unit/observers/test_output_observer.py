"""A process that prints too much is reported."""

from __future__ import annotations

from tests.unit.gang.play import Play, job
from yarnam.am.probes.gang_observers import view_of
from yarnam.core.gang.gang_status import describe
from yarnam.core.model.events import ConditionChanged
from yarnam.core.model.metrics import LOG_BYTES, MAX_LOG_BYTES, AgentMetrics, Measured
from yarnam.core.observers.observer_registry import OBSERVERS, status_lines
from yarnam.core.observers.output_observer import OUTPUT

SPEC = job(processes=1)


class World:
    """Two workers of one process each."""

    def __init__(self) -> None:
        self.play = Play(SPEC).to_running()
        self.state = OUTPUT.initial

    def write(self, *sizes: float) -> list[str]:
        """One look; what it reports."""
        gang = self.play.gang
        metrics = [
            AgentMetrics(ask, rank, 1.0, None, None, ((LOG_BYTES, Measured(size)),), gang.attempt)
            for rank, (ask, size) in enumerate(zip(self.play.asks(), sizes, strict=True))
        ]
        view = view_of(gang, SPEC, self.play.now_s, metrics)
        self.state, found = OUTPUT.observe(self.state, view)
        events = [event for event in found.events if isinstance(event, ConditionChanged)]
        for event in events:
            self.play.send(event)
        return [event.message for event in events]


def test_the_largest_log_is_reported_once() -> None:
    assert OUTPUT in OBSERVERS
    world = World()
    assert world.write(0, MAX_LOG_BYTES) == []
    (message,) = world.write(2 * MAX_LOG_BYTES, 4 * MAX_LOG_BYTES)
    assert message.startswith("worker-1 (rank 1) on n2 has written 1 GiB of output; logs of more")
    assert world.write(2 * MAX_LOG_BYTES, 5 * MAX_LOG_BYTES) == []
    texts = [line.text for line in status_lines(describe(world.play.gang, 0.0), 0.0)]
    assert f"output: {message}" in texts


def test_a_size_that_is_no_size_is_not_reported() -> None:
    assert World().write(float("inf"), float("nan")) == []
