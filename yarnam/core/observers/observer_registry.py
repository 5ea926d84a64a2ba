"""All observers of a running gang. The ApplicationMaster's loop, the status, the job's page and the
command line go through this table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from yarnam.core.model.events import Event
from yarnam.core.model.job_status import AttemptRecord, JobStatus
from yarnam.core.observers.hang_observer import HANG
from yarnam.core.observers.idle_gpu_observer import IDLE_GPUS
from yarnam.core.observers.loss_observer import LOSS
from yarnam.core.observers.memory_observer import MEMORY
from yarnam.core.observers.notebook_observer import NOTEBOOK
from yarnam.core.observers.observer import Observer, StatusLine
from yarnam.core.observers.output_observer import OUTPUT
from yarnam.core.observers.silence_observer import SILENCE
from yarnam.core.observers.size_observer import PROGRAM_SIZE
from yarnam.core.observers.straggler_observer import STRAGGLERS
from yarnam.core.observers.time_limit_observer import TIME_LIMIT

OBSERVERS: tuple[Observer[Any], ...] = (
    HANG, SILENCE, LOSS, STRAGGLERS, IDLE_GPUS, MEMORY, OUTPUT, PROGRAM_SIZE, TIME_LIMIT,
    NOTEBOOK,
)  # fmt: skip


def status_lines(status: JobStatus, now_s: float) -> Iterator[StatusLine]:
    """The present findings about a job."""
    for observer in OBSERVERS:
        yield from observer.lines(status, now_s)


def past_findings(record: AttemptRecord) -> Iterator[str]:
    """The findings about one attempt."""
    for observer in OBSERVERS:
        yield from observer.past(record)


def observed_text(event: Event) -> str:
    """The event of an observer in one line; empty for another event."""
    for observer in OBSERVERS:
        if isinstance(event, observer.event) and (text := observer.event_text(event)):
            return text
    return ""
