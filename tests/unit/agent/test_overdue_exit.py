"""Which process should have exited after an exception."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from yarnam.agent.launch import overdue_exit
from yarnam.agent.launch.overdue_exit import BUSY_LIMIT_S, IDLE_LIMIT_S, OverdueExit

ME = os.getpid()


class Clock:
    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def time(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(overdue_exit, "time", clock)
    return clock


def test_one_that_does_nothing_more_is_overdue_after_some_seconds(clock: Clock) -> None:
    due = OverdueExit(ME, None)
    assert not due.poll(0, 3600.0), "it may be idle for as long as it likes"
    assert not due.poll(ME, 3600.0), "the exception was a moment ago"
    clock.now_s += IDLE_LIMIT_S
    assert not due.poll(ME, IDLE_LIMIT_S - 1), "it does something"
    assert not due.poll(ME, 3600.0, is_paused=True), "it says what it does"
    assert due.poll(ME, IDLE_LIMIT_S)


def test_one_that_does_something_has_longer(clock: Clock) -> None:
    due = OverdueExit(ME, None)
    due.poll(ME, 0.0)
    clock.now_s += BUSY_LIMIT_S - 1
    assert not due.poll(ME, 0.0)
    clock.now_s += 1
    assert due.poll(ME, 0.0)


def test_one_that_goes_on_starts_anew(clock: Clock) -> None:
    due = OverdueExit(ME, None)
    due.poll(ME, 0.0)
    clock.now_s += BUSY_LIMIT_S
    assert not due.poll(0, 0.0), "it has made a step since"
    assert not due.poll(ME, 3600.0)


def test_a_child_that_has_ended_was_not_the_program(clock: Clock) -> None:
    with subprocess.Popen(["true"]) as child:
        child.wait()
    due = OverdueExit(ME, None)
    assert not due.poll(child.pid, 0.0)
    clock.now_s += BUSY_LIMIT_S
    assert not due.poll(child.pid, 3600.0)


def test_the_error_file_of_a_framework_tells_of_an_exception_too(
    clock: Clock, tmp_path: Path
) -> None:
    file = tmp_path / "error.json"
    due = OverdueExit(ME, file)
    assert not due.poll(0, 0.0)
    file.write_text("{}")
    for written_s, stepped_s, is_due in (
        (900.0, 0.0, False),  # another attempt's
        (1010.0, 1011.0, False),  # it was caught, and the training went on
        (1010.0, 1009.0, True),
    ):
        os.utime(file, (written_s, written_s))
        due.poll(0, 0.0, stepped_at_s=stepped_s)
        clock.now_s += IDLE_LIMIT_S
        assert due.poll(0, IDLE_LIMIT_S, stepped_at_s=stepped_s) is is_due
