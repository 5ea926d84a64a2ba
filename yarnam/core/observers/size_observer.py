"""Follows the size that the job's own program requests, by its reports or by
``elastic.schedule``. Each request becomes one event, as ``yarnam scale`` sends it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from yarnam.core.model.events import ScaleRequested
from yarnam.core.model.metrics import EPOCH, REQUESTED_GPUS
from yarnam.core.observers.observer import NOTHING, Observation, Observer, View

MAX_COUNT = 1 << 53
"""A metric is a float of the program's own: beyond this it does not count."""


@dataclass(frozen=True, slots=True)
class SizeWatch:
    requested: tuple[int, int] | None = None
    """The attempt whose program made the last request, and its number of GPUs."""
    scheduled: int = 0
    """Entries of ``elastic.schedule`` that have been requested."""


def observe(state: SizeWatch, view: View) -> tuple[SizeWatch, Observation]:
    if not view.is_training:
        return state, NOTHING
    state, by_program = _by_program(state, view)
    state, by_schedule = _by_schedule(state, view)
    return state, Observation(
        by_program.events + by_schedule.events, by_program.warnings + by_schedule.warnings
    )


def _by_program(state: SizeWatch, view: View) -> tuple[SizeWatch, Observation]:
    requests = (_count(dict(metrics.values).get(REQUESTED_GPUS)) for metrics in view.metrics)
    gpus = next((count for count in requests if count >= 0), None)
    if gpus is None or state.requested == (view.gang.attempt, gpus):
        return state, NOTHING
    state = replace(state, requested=(view.gang.attempt, gpus))
    if view.tasks_for is None:
        text = f"the program requests {gpus} GPUs, but the job has one size"
        return state, Observation(warnings=(text,))
    tasks = view.tasks_for(gpus) if gpus else None
    if tasks == view.gang.size_request.program_tasks:
        return state, NOTHING
    by = f"the program ({gpus} GPUs)" if gpus else "the program"
    return state, Observation((ScaleRequested(view.now_s, by, tasks, is_program=True),))


def _by_schedule(state: SizeWatch, view: View) -> tuple[SizeWatch, Observation]:
    job = view.job
    if not job.elastic.schedule:
        return state, NOTHING
    steps = (metrics.step for metrics in view.metrics if metrics.step is not None)
    epochs = (_count(dict(metrics.values).get(EPOCH)) for metrics in view.metrics)
    epoch = next((count for count in epochs if count >= 0), -1)
    reached = job.elastic.reached(next(steps, -1), epoch)
    if reached <= max(view.gang.size_request.scheduled, state.scheduled):
        return state, NOTHING
    by = f"elastic.schedule ({job.elastic.schedule[reached - 1].words})"
    tasks = job.scheduled_tasks(reached)
    event = ScaleRequested(view.now_s, by, tasks, is_program=True, scheduled=reached)
    return replace(state, scheduled=reached), Observation((event,))


def _count(value: float | None) -> int:
    """-1 if the program does not report it, or reports something that is not a count."""
    return int(value) if value is not None and 0 <= value < MAX_COUNT else -1


PROGRAM_SIZE = Observer("program-size", "elastic", SizeWatch(), observe, ScaleRequested)
"""``status`` shows the size and its requester already."""
