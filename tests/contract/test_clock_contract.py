"""One contract for the clock: the one moved by hand, and the real one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.fakes.clock import FakeClock
from yarnam.adapters.clock import SystemClock
from yarnam.core.model.events import Event, TimerFired, TimerId, TimerKind
from yarnam.ports import Clock

HOLD, ASK = TimerId(TimerKind.HOLD, 1), TimerId(TimerKind.ASK, 1)


@dataclass
class Timed:
    clock: Clock
    events: list[Event]
    live: Callable[[float], None]

    @property
    def fired(self) -> list[TimerId]:
        return [event.timer for event in self.events if isinstance(event, TimerFired)]


@pytest.fixture(params=["fake", "system"])
def timed(request: pytest.FixtureRequest) -> Iterator[Timed]:
    events: list[Event] = []
    if request.param == "fake":
        fake = FakeClock(events.append)
        yield Timed(fake, events, fake.advance)
        return
    system = SystemClock(events.append)
    yield Timed(system, events, time.sleep)
    system.close()


def test_a_timer_fires_once_and_not_before_its_time(timed: Timed) -> None:
    started_s = timed.clock.now_s()
    timed.clock.start_timer(HOLD, 0.1)
    timed.live(0.02)
    assert timed.fired == []
    timed.live(0.4)
    assert timed.fired == [HOLD]
    assert timed.events[0].at_s >= started_s + 0.1


def test_starting_again_moves_it(timed: Timed) -> None:
    timed.clock.start_timer(HOLD, 0.1)
    timed.clock.start_timer(HOLD, 0.5)
    timed.live(0.3)
    assert timed.fired == []
    timed.live(0.5)
    assert timed.fired == [HOLD]


def test_starting_again_can_bring_it_forward(timed: Timed) -> None:
    timed.clock.start_timer(HOLD, 60.0)
    timed.clock.start_timer(HOLD, 0.05)
    timed.live(0.3)
    assert timed.fired == [HOLD]


def test_a_cancelled_timer_does_not_fire(timed: Timed) -> None:
    timed.clock.start_timer(HOLD, 0.05)
    timed.clock.start_timer(ASK, 0.05)
    timed.clock.cancel_timer(HOLD)
    timed.clock.cancel_timer(TimerId(TimerKind.WAIT, 9))
    timed.live(0.3)
    assert timed.fired == [ASK]


def test_timers_fire_in_the_order_of_their_deadlines(timed: Timed) -> None:
    timed.clock.start_timer(ASK, 0.2)
    timed.clock.start_timer(HOLD, 0.1)
    timed.live(0.5)
    assert timed.fired == [HOLD, ASK]


def test_a_delay_of_nothing_or_less_fires_at_once(timed: Timed) -> None:
    timed.clock.start_timer(HOLD, -5.0)
    timed.live(0.2)
    assert timed.fired == [HOLD]


def test_time_goes_on(timed: Timed) -> None:
    before = timed.clock.now_s()
    timed.live(0.05)
    assert timed.clock.now_s() >= before + 0.05
