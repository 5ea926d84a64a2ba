"""A trace of past jobs in the format of Microsoft's Philly trace: ``cluster_job_log`` of
https://github.com/msr-fiddle/philly-traces, and what ``yarnam history export --format philly``
writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import decode_json, read_at_most, shown
from yarnam.core.model.resources import Resources
from yarnam.errors import UsageError
from yarnam.sim.what_if.replay import PastJob, PastRole

MAX_BYTES = 512 << 20
MAX_VALUES = 20_000_000
"""Bound the memory that a file can cost: a job of one attempt takes half a kilobyte and some twenty
values, Philly's own trace of 117,000 jobs some five million."""

_TIME = "%Y-%m-%d %H:%M:%S"


def read_trace(path: str, per_gpu: Resources) -> list[PastJob]:
    """The jobs that ran, each as one gang with the GPUs of its last attempt, in containers of at
    most what it had on one node; it runs as long as all attempts together. ``per_gpu`` has memory
    and cores of a task for each of its GPUs, which the format lacks. Raises UsageError."""
    try:
        with Path(path).open("rb") as file:
            return parse_trace(read_at_most(file, MAX_BYTES), per_gpu)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except MalformedData as error:
        raise UsageError(
            f"{path} is not a trace: {error.message}",
            hint="To write one from the history: yarnam history export --format philly -o FILE",
        ) from error


def parse_trace(data: bytes, per_gpu: Resources) -> list[PastJob]:
    """The jobs in the bytes of the file. Raises MalformedData."""
    # Each value but the first of its array or object follows one of these.
    if sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise MalformedData(f"more than {MAX_VALUES:,} values")
    found = decode_json(data, max_bytes=MAX_BYTES)
    if not isinstance(found, list):
        raise MalformedData(f"an array of jobs is expected, not {shown(found)}")
    jobs = (_job(row, number, per_gpu) for number, row in enumerate(found, 1))
    return [job for job in jobs if job is not None]


def _job(row: Any, number: int, per_gpu: Resources) -> PastJob | None:
    """Read one job; ``None`` if it never ran."""
    if not isinstance(row, Mapping):
        raise MalformedData(f"job {number} is not an object: {shown(row)}")
    attempts, queue = row.get("attempts"), row.get("vc")
    submitted_s = _time(row.get("submitted_time"))
    if not isinstance(attempts, list) or not isinstance(queue, str):
        raise MalformedData(f"job {number} has no `vc` (text) or no `attempts` (array)")
    if submitted_s is None:
        raise MalformedData(f"job {number} has no `submitted_time` such as 2017-10-09 07:00:35")
    run_s, sizes = 0.0, Counter[int]()
    for attempt in attempts:
        if not isinstance(attempt, Mapping):
            raise MalformedData(f"an attempt of job {number} is not an object: {shown(attempt)}")
        began_s, ended_s = _time(attempt.get("start_time")), _time(attempt.get("end_time"))
        if began_s is None or ended_s is None or ended_s <= began_s:
            continue
        run_s += ended_s - began_s
        sizes = _sizes(attempt.get("detail"), number) or sizes
    gpus = sum(size * nodes for size, nodes in sizes.items())
    if not gpus or not run_s:
        return None
    each = max(sizes)
    while gpus % each:
        each -= 1
    return PastJob(
        queue=queue if queue.startswith("root.") else f"root.{queue}",
        submitted_at_s=submitted_s,
        run_s=run_s,
        roles=(PastRole("worker", gpus // each, per_gpu.times(each)),),
        is_flexible=True,
    )


def _sizes(detail: Any, number: int) -> Counter[int]:
    """On how many nodes it had how many GPUs."""
    sizes: Counter[int] = Counter()
    for node in detail if isinstance(detail, list) else ():
        gpus = node.get("gpus") if isinstance(node, Mapping) else None
        if not isinstance(gpus, list):
            raise MalformedData(f"a node of job {number} has no `gpus` (array)")
        if gpus:
            sizes[len(gpus)] += 1
    return sizes


def _time(value: Any) -> float | None:
    """Seconds since the epoch; ``None`` if the trace has none (null and "None")."""
    if not isinstance(value, str):
        return None
    try:
        return datetime.strptime(value, _TIME).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None
