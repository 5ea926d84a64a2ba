"""Finds the ranks that slow the gang, by the steps that the processes report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite

from yarnam.core.failures.straggler_detection import (
    RankPace,
    StragglerWatch,
    watch_stragglers,
)
from yarnam.core.model.events import StragglersFound
from yarnam.core.model.job_status import AttemptRecord, JobStatus, Phase
from yarnam.core.model.metrics import COMPUTE_S, MEASURED_STEPS, STEP_S, AgentMetrics
from yarnam.core.observers.observer import NOTHING, Observation, Observer, StatusLine, View

MAX_STEPS = 1 << 53
"""A metric is a float of the program's own: beyond this it does not count."""


@dataclass(frozen=True, slots=True)
class AttemptStragglers:
    attempt: int = 0
    watch: StragglerWatch = field(default_factory=StragglerWatch)


def observe(state: AttemptStragglers, view: View) -> tuple[AttemptStragglers, Observation]:
    gang, spec = view.gang, view.job.stragglers
    if gang.phase is not Phase.RUNNING or not spec.detect or not view.is_whole:
        return state, NOTHING
    watch = state.watch if state.attempt == gang.attempt else StragglerWatch()
    had_some = any(record.stragglers for record in gang.history)
    watch, stragglers = watch_stragglers(
        watch, _paces(view), spec, view.now_s, is_none_news=had_some
    )
    state = AttemptStragglers(gang.attempt, watch)
    if stragglers is None:
        return state, NOTHING
    event = StragglersFound(view.now_s, gang.attempt, stragglers)
    return state, Observation((event,), tuple(straggler.words for straggler in stragglers))


def _paces(view: View) -> list[RankPace]:
    """The paces of all ranks; empty while some have not reported theirs."""
    members = view.gang.members
    nodes = {member.ask: str(member.grant.node) for member in members if member.grant is not None}
    paces = [
        pace
        for metrics in view.metrics
        if metrics.ask in nodes and (pace := pace_of(metrics, nodes[metrics.ask])) is not None
    ]
    processes = sum(member.target.processes_per_task for member in members)
    return paces if len(paces) == processes else []


def pace_of(metrics: AgentMetrics, node: str) -> RankPace | None:
    """``None`` if the process has measured no step, or reports what cannot be."""
    values = dict(metrics.values)
    steps, step_s = values.get(MEASURED_STEPS, 0.0), values.get(STEP_S, 0.0)
    if not (isfinite(step_s) and step_s > 0 and 1 <= steps < MAX_STEPS):
        return None
    compute_s = values.get(COMPUTE_S)
    if compute_s is not None and not (isfinite(compute_s) and compute_s >= 0):
        return None
    return RankPace(metrics.rank, node, int(steps), float(step_s), compute_s)


def _event_text(event: StragglersFound) -> str:
    words = "; ".join(straggler.words for straggler in event.stragglers)
    return f"stragglers: {words}" if words else "no straggler slows the gang any more"


def _lines(status: JobStatus, now_s: float) -> Iterator[StatusLine]:
    yield from (StatusLine(f"straggler: {straggler.words}") for straggler in status.stragglers)


def _past(record: AttemptRecord) -> Iterator[str]:
    yield from (f"straggler: {straggler.words}" for straggler in record.stragglers)


STRAGGLERS = Observer(
    "stragglers", "stragglers", AttemptStragglers(), observe, StragglersFound, _event_text,
    _lines, _past,
)  # fmt: skip
