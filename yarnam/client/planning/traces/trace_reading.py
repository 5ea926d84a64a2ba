"""``read_jobs``: a trace file as jobs in the order of submission, and what was left out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from hdfs_utils.errors import MalformedData
from yarnam.client.planning.traces.trace_formats import CONVERTER, FORMATS, FORMER
from yarnam.errors import UsageError
from yarnam.sim.ideal.trace_job import TraceJob

MAX_JOBS = 4_000_000
"""Bounds the memory that a file can cost: a job takes about 400 bytes."""


@dataclass(frozen=True, slots=True)
class Trace:
    """``jobs`` are in the order of submission."""

    jobs: Sequence[TraceJob]
    never_ran: int = 0
    """Left out: their run time is 0."""
    without_gpus: int = 0
    """Left out."""
    too_large: int = 0
    """Left out: larger than the cluster (``fitting``)."""


def read_jobs(path: str, kind: str) -> Trace:
    """The jobs of a file in the format ``kind``. Raises UsageError, which names the line."""
    form = FORMATS.get(kind)
    if kind in FORMER:
        raise UsageError(
            f"traces in the format {kind} are not read any more",
            hint=f"Convert it: python {CONVERTER} {kind} TRACE jobs.csv; then --trace jobs.csv",
        )
    if form is None:
        close = get_close_matches(kind, FORMATS, n=1)
        hint = f"Did you mean {close[0]}? " if close else ""
        raise UsageError(
            f"unknown format of a trace: {kind[:40]!a}", hint=f"{hint}Formats: {', '.join(FORMATS)}"
        )
    jobs: list[TraceJob] = []
    never_ran = without_gpus = 0
    try:
        with Path(path).open("rb") as file:
            for job in form.read(file):
                if not job.gpus:
                    without_gpus += 1
                elif job.run_s <= 0:
                    never_ran += 1
                elif len(jobs) == MAX_JOBS:
                    raise MalformedData(f"more than {MAX_JOBS} jobs")
                else:
                    jobs.append(job)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except MalformedData as error:
        raise _named(path, error, f"Is it in the format {form.name}: {form.summary}?") from error
    jobs.sort(key=lambda job: job.submit_s)
    return Trace(_by_one_name(jobs), never_ran, without_gpus)


def fitting(trace: Trace, gpus: int) -> Trace:
    """Drop the jobs that need more than all GPUs of the cluster. Raises UsageError if none is
    left."""
    jobs = [job for job in trace.jobs if job.gpus <= gpus]
    if not jobs:
        raise UsageError(
            f"the trace has no job that {gpus} GPUs could run"
            + (f": {len(trace.jobs)} jobs are larger" if trace.jobs else "")
        )
    return Trace(jobs, trace.never_ran, trace.without_gpus, len(trace.jobs) - len(jobs))


def _by_one_name(jobs: list[TraceJob]) -> list[TraceJob]:
    """Names are unique: a later job of the same name gets a number behind it."""
    seen: dict[str, int] = {}
    for at, job in enumerate(jobs):
        many = seen[job.job] = seen.get(job.job, 0) + 1
        if many > 1:
            jobs[at] = job._replace(job=f"{job.job}#{many}")
    return jobs


def _named(path: str, error: MalformedData, hint: str) -> UsageError:
    where, colon, why = error.message.partition(": ")
    if colon and where.startswith("line "):
        return UsageError(f"{path}:{where.removeprefix('line ')}: {why}", hint=hint)
    return UsageError(f"{path}: {error.message}", hint=hint)
