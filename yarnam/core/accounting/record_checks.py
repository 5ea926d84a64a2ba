"""Decide which history records count: those whose figures are possible.

Users can write anything into their own history, and others read it. A type does not limit the
range: a time of 1e300 s is a number too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Union, cast

from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.accounting.job_summary import (
    NUMBER_COLUMNS,
    TEXT_COLUMNS,
    WHOLE_COLUMNS,
    summary_of,
)
from yarnam.core.model.job_spec import MAX_TASKS

MOST_TIME_S = 2.0**32
"""The latest time since the epoch: the year 2106. The limit is our own choice."""

MOST_AMOUNT = 1e15
"""The largest duration, size or count. Sums of smaller amounts are finite and exact to the
second."""

MOST_GPUS = 1024
"""The most GPUs of one node, since an export names each. The limit is our own choice."""

MOST_TEXT = 16_384
"""The most characters of any text: a path on HDFS has up to 8,000."""

MOST_NAME = 1_000
"""The most characters of a text in a list of jobs. The limit is our own choice."""


def believed_record(record: HistoryRecord) -> Union[HistoryRecord, str]:
    """The record; else why it does not count."""
    for name, value in _leaves("", record):
        if isinstance(value, str):
            if len(value) > MOST_TEXT:
                return f"{name} has {len(value)} characters"
        elif not abs(value) <= MOST_AMOUNT:  # true of NaN as well
            return f"{name} is out of range"
        elif not is_time_within(name, value):
            return f"{name} is not a time"
    shares = (node for run in record.placements for node in run.nodes)
    counts = (
        *((role.tasks, role.resources.gpus) for role in record.roles),
        *((node.tasks, node.gpus) for node in shares),
    )
    if not all(0 <= tasks <= MAX_TASKS and 0 <= gpus <= MOST_GPUS for tasks, gpus in counts):
        return "it has more tasks or GPUs than there can be"
    row = summary_of(record)
    for name in (*WHOLE_COLUMNS, *NUMBER_COLUMNS):
        if not 0 <= getattr(row, name) < MOST_AMOUNT:
            return f"{name} is out of range"
    long = [name for name in TEXT_COLUMNS if len(getattr(row, name)) > MOST_NAME]
    return f"{long[0]} is too long" if long else record


def is_time_within(name: str, value: float) -> bool:
    """True as well of what is not a point in time by its name."""
    return not f"_{name}".endswith("_at_s") or 0 <= value <= MOST_TIME_S


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Texts and numbers, with the name of the field that they are in."""
    if isinstance(value, (str, int, float)):
        yield name, value
    elif isinstance(value, tuple):
        for part in cast("Sequence[object]", value):
            yield from _leaves(name, part)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _leaves(field.name, getattr(value, field.name))
