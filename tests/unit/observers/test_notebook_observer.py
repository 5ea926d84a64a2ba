"""A notebook that nobody uses is warned, and ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tests.unit.gang.play import Play, job
from yarnam.am.probes.gang_observers import view_of
from yarnam.core.gang import describe
from yarnam.core.model.events import ConditionChanged, NotebookIdle
from yarnam.core.model.job_spec import NotebookSpec
from yarnam.core.model.metrics import GPU_PERCENT, NOTEBOOK_IDLE_S, AgentMetrics, Measured
from yarnam.core.observers.notebook_observer import NOTEBOOK, NotebookWatch
from yarnam.core.observers.observer_registry import status_lines

HOUR = 3600.0


@dataclass
class Watched:
    """A notebook with a timeout of two hours, and its observer."""

    play: Play
    state: NotebookWatch = NOTEBOOK.initial

    def look(self, after_s: float, **values: float) -> list[ConditionChanged | NotebookIdle]:
        self.play.after(after_s)
        gang, now_s = self.play.gang, self.play.now_s
        reported = tuple((name, Measured(value)) for name, value in values.items())
        metrics = [AgentMetrics(self.play.asks()[0], 0, 0.0, None, None, reported, gang.attempt)]
        view = view_of(gang, self.play.spec, now_s, metrics if values else ())
        self.state, found = NOTEBOOK.observe(self.state, view)
        events = [e for e in found.events if isinstance(e, (ConditionChanged, NotebookIdle))]
        for event in events:
            self.play.send(event)
        return events


@pytest.fixture
def watched() -> Watched:
    spec = replace(job(workers=1), notebook=NotebookSpec(idle_timeout_s=2 * HOUR))
    found = Watched(Play(spec).to_running())
    assert found.look(0.0, **idle(0.0)) == []
    return found


def idle(idle_s: float, gpu_percent: float = 0.0) -> dict[str, float]:
    return {NOTEBOOK_IDLE_S: idle_s, GPU_PERCENT: gpu_percent}


def test_it_is_warned_and_then_ends(watched: Watched) -> None:
    assert watched.look(1.7 * HOUR, **idle(1.7 * HOUR)) == []
    [warning] = watched.look(0.1 * HOUR, **idle(1.8 * HOUR))
    assert isinstance(warning, ConditionChanged)
    assert warning.message.startswith("unused for 1h48m: the job ends, with its files saved, when")
    assert watched.look(60.0, **idle(1.8 * HOUR + 60.0)) == [], "once"
    status = describe(watched.play.gang, watched.play.now_s)
    shown = [line.text for line in status_lines(status, watched.play.now_s)]
    assert shown == [f"notebook: {warning.message}"]
    [end] = watched.look(0.2 * HOUR, **idle(2 * HOUR))
    assert isinstance(end, NotebookIdle)
    assert end.text == (
        "for 2h00m no kernel was busy, no client was connected and no GPU was used "
        "(notebook.idle_timeout)"
    )


def test_any_use_takes_the_warning_back(watched: Watched) -> None:
    for use in (idle(0.0), idle(9 * HOUR, gpu_percent=50.0)):
        assert len(watched.look(1.9 * HOUR, **idle(1.9 * HOUR))) == 1
        [over] = watched.look(1.0, **use)
        assert isinstance(over, ConditionChanged)
        assert over.message == ""
        assert watched.look(1.7 * HOUR, **idle(1.7 * HOUR)) == []
        watched.look(1.0, **idle(0.0))


@pytest.mark.parametrize(
    "values", [{}, idle(float("nan")), idle(float("inf")), idle(-5.0), {GPU_PERCENT: 0.0}]
)
def test_nothing_follows_from_reports_that_say_nothing(
    watched: Watched, values: dict[str, float]
) -> None:
    assert watched.look(9 * HOUR, **values) == []


def test_what_was_used_after_an_old_report_counts(watched: Watched) -> None:
    """A report that says more idle time than the last one is not the newest."""
    watched.look(1.0 * HOUR, **idle(0.0))
    assert watched.look(1.0, **idle(5 * HOUR)) == []


def test_other_jobs_are_left_alone() -> None:
    other = Watched(Play(job(workers=1)).to_running())
    assert other.look(9 * HOUR, **idle(9 * HOUR)) == []
