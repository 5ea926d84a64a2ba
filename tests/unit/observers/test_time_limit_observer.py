"""A job is warned before its ``time_limit`` ends it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.gang.play import Play, job
from yarnam.am.probes.gang_observers import view_of
from yarnam.am.status_report import time_limit_status
from yarnam.core.gang import describe
from yarnam.core.model.events import ConditionChanged
from yarnam.core.observers.observer_registry import status_lines
from yarnam.core.observers.time_limit_observer import TIME_LIMIT

STOP_S = job().am.stop_grace_s + 5.0


def warnings(play: Play, state: int = 0) -> tuple[int, list[str]]:
    state, found = TIME_LIMIT.observe(state, view_of(play.gang, play.spec, play.now_s))
    events = [event for event in found.events if isinstance(event, ConditionChanged)]
    for event in events:
        play.send(event)
    return state, [event.message for event in events]


@pytest.mark.parametrize(
    ("limit_s", "before_s"), [(100.0, 60.0), (10_000.0, 1000.0), (1e6, 3600.0)]
)
def test_it_is_warned_once_while_something_can_be_done(limit_s: float, before_s: float) -> None:
    play = Play(replace(job(), time_limit_s=limit_s)).to_running()
    ran_s = limit_s - STOP_S - before_s
    assert warnings(play.after(ran_s - 1.0))[1] == []
    state, messages = warnings(play.after(2.0))
    assert "with 10s for a checkpoint (am.stop_grace)" in messages[0]
    assert warnings(play.after(10.0), state)[1] == []
    shown = [line.text for line in status_lines(describe(play.gang, play.now_s), play.now_s)]
    assert shown == [f"time-limit: {messages[0]}"]


def test_without_a_limit_and_while_it_does_not_run_there_is_nothing_to_say() -> None:
    assert warnings(Play().to_running().after(1e7))[1] == []
    waiting = Play(replace(job(), time_limit_s=60.0))
    waiting.start()
    assert warnings(waiting.after(1e7))[1] == []


def test_the_status_says_when_it_stops() -> None:
    play = Play(replace(job(), time_limit_s=7200.0))
    play.start()
    shown = time_limit_status(play.gang, play.spec)
    assert shown is not None
    assert shown.words(play.now_s) == "2h00m, of which it has run 0s"
    play = Play(play.spec).to_running().after(3600.0)
    shown = time_limit_status(play.gang, play.spec)
    assert shown is not None
    assert shown.words(play.now_s) == "2h00m, stops in 59m45s"
    assert time_limit_status(play.gang, job()) is None
