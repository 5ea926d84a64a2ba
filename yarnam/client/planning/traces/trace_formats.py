"""The formats of traces, each a function from a file to jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import BinaryIO

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import read_at_most
from yarnam.client.planning.traces.trace_file import MAX_BYTES, parse_trace
from yarnam.client.planning.traces.trace_rows import MAX_GPUS, Row, csv_rows, text_lines
from yarnam.core.model.resources import Resources
from yarnam.sim.ideal.trace_job import TraceJob

Jobs = Iterator[TraceJob]


@dataclass(frozen=True, slots=True)
class TraceFormat:
    name: str
    summary: str
    read: Callable[[BinaryIO], Jobs]


def _neutral(file: BinaryIO) -> Jobs:
    for row in csv_rows(file, ("job", "submit_s", "run_s", "gpus")):
        gpus = row.count("gpus")
        least, most = (row.count(name, default=0) for name in ("least_gpus", "most_gpus"))
        if most and not (0 < least <= gpus <= most):
            raise row.wrong("gpus must lie between least_gpus and most_gpus")
        declared_s = row.amount("declared_s", default=-1.0)
        yield TraceJob(
            job=row.text("job"),
            submit_s=row.amount("submit_s"),
            run_s=row.amount("run_s"),
            gpus=gpus,
            declared_s=None if declared_s < 0 else declared_s,
            queue=row.text("queue", default=""),
            user=row.text("user", default=""),
            model=row.text("model", default=""),
            tasks=row.count("tasks", least=1, most=max(1, gpus), default=1),
            vcores=row.count("vcores", default=0),
            least_gpus=least,
            most_gpus=most,
        )


def _helios(file: BinaryIO) -> Jobs:
    for row in csv_rows(file, ("job_id", "gpu_num", "submit_time", "duration")):
        gpus = row.count("gpu_num")
        yield TraceJob(
            row.text("job_id"),
            row.moment("submit_time"),
            row.amount("duration"),
            gpus,
            queue=row.text("vc", default=""),
            user=row.text("user", default=""),
            tasks=row.count("node_num", least=1, most=max(1, gpus), default=1) if gpus else 1,
        )


_ALIBABA = (
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu",
    "plan_mem", "plan_gpu", "gpu_type",
)  # fmt: skip
"""Columns of pai_task_table.csv, which has no line of names."""


def _alibaba(file: BinaryIO) -> Jobs:
    """Tasks of one job are one gang: it comes with the first, and lasts until the last ends. GPUs
    are percent of one there; a gang's sum is rounded up."""
    jobs: dict[str, TraceJob] = {}
    percent: dict[str, float] = {}
    for row in csv_rows(file, _ALIBABA[:6], _ALIBABA):
        if row.text("job_name") == "job_name":
            continue  # Some copies have a line of names.
        start_s, end_s = (row.amount(name, default=0.0) for name in ("start_time", "end_time"))
        share = row.amount("plan_gpu", most=100.0 * MAX_GPUS, default=0.0)
        many = row.amount("inst_num", most=MAX_GPUS, default=1.0)
        if not start_s or end_s <= start_s or not share:
            continue
        name = row.text("job_name")
        had = jobs.get(name)
        percent[name] = percent.get(name, 0.0) + share * many
        if had is not None:
            end_s = max(end_s, had.submit_s + had.run_s)
            start_s = min(start_s, had.submit_s)
        gpus = min(MAX_GPUS, ceil(percent[name] / 100.0))
        jobs[name] = TraceJob(name, start_s, end_s - start_s, gpus)
    yield from jobs.values()


_SWF = (
    "number", "submit", "wait", "run", "allocated", "cpu", "memory", "requested", "estimate",
    "requested_memory", "status", "user", "group", "program", "queue", "partition", "previous",
    "think",
)  # fmt: skip


def _swf(file: BinaryIO) -> Jobs:
    """The Standard Workload Format: processors are taken for GPUs. A job asks for what it
    requested, else for what it got; one that ran beyond its estimate ends there."""
    for number, text in enumerate(text_lines(file), 1):
        fields = text.split()
        if not fields or fields[0].startswith(";"):
            continue
        if len(fields) != len(_SWF):
            raise MalformedData(f"line {number}: {len(fields)} fields, not {len(_SWF)}")
        row = Row(number, dict(zip(_SWF, fields, strict=True)))
        run_s, estimate_s = row.amount("run", least=-1), row.amount("estimate", least=-1)
        requested, got = (row.count(name, least=-1) for name in ("requested", "allocated"))
        yield TraceJob(
            row.text("number"),
            row.amount("submit"),
            max(0.0, min(run_s, estimate_s) if estimate_s > 0 else run_s),
            max(0, requested if requested > 0 else got),
            declared_s=estimate_s if estimate_s > 0 else None,
            queue=row.text("queue"),
            user=row.text("user"),
        )


def _philly(file: BinaryIO) -> Jobs:
    """One gang a job, with the GPUs of its last attempt; it runs as long as all attempts
    together."""
    past = parse_trace(read_at_most(file, MAX_BYTES), Resources(gpus=1))
    for number, job in enumerate(past, 1):
        tasks = sum(role.tasks for role in job.roles)
        gpus = sum(role.tasks * role.resources.gpus for role in job.roles)
        yield TraceJob(
            f"j{number}", job.submitted_at_s, job.run_s, gpus, queue=job.queue, tasks=tasks
        )


FORMATS = {
    one.name: one
    for one in (
        TraceFormat("csv", "yarnam's own: job,submit_s,run_s,gpus and more", _neutral),
        TraceFormat("philly", "Philly's cluster_job_log (JSON)", _philly),
        TraceFormat("history", "yarnam's history, by `yarnam history export -f philly`", _philly),
        TraceFormat("helios", "Helios's cluster_log.csv", _helios),
        TraceFormat("alibaba", "pai_task_table.csv of Alibaba's GPU trace of 2020", _alibaba),
        TraceFormat("swf", "the Standard Workload Format", _swf),
    )
}

FORMER = ("tiresias", "muri", "itp", "gavel")
"""Formats of single papers' repositories, which a script converts."""
CONVERTER = "tools/convert_trace.py"
