"""Where a new ApplicationMaster attempt starts from."""

from __future__ import annotations

from collections.abc import Iterable

from yarnam.gang import Gang, initial, policy_for, step
from yarnam.model.events import AmRestarted, Event, JobStarted
from yarnam.model.job import JobSpec


def replayed(job: JobSpec, events: Iterable[Event]) -> Gang:
    """The gang after these events. The actions were performed when they were first stepped; what
    they built (containers, timers) went with the AM attempt that did it."""
    gang = initial(job)
    policy = policy_for(job)
    for event in events:
        gang, _ = step(gang, event, policy)
    return gang


def first_event(am_attempt: int, at_s: float) -> Event:
    """What this AM attempt begins with."""
    if am_attempt == 1:
        return JobStarted(at_s)
    return AmRestarted(at_s, am_attempt)
