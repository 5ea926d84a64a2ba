"""The formats of traces, each a function from a file to jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import BinaryIO

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import decode_json, read_at_most
from yarnam.client.planning.traces.trace_file import MAX_BYTES, parse_trace
from yarnam.client.planning.traces.trace_rows import MAX_GPUS, Row, csv_rows, text_lines
from yarnam.core.model.resources import Resources
from yarnam.sim.ideal.trace_job import TraceJob

Jobs = Iterator[TraceJob]
Rates = Mapping[str, float]
"""Steps in a second by what a Gavel trace calls a job type and its GPUs."""

MURI_SLOWER = 1.015
"""Muri's simulator takes an iteration to last so many times what its trace says."""


@dataclass(frozen=True, slots=True)
class TraceFormat:
    name: str
    summary: str
    read: Callable[[BinaryIO, Rates], Jobs]


def _neutral(file: BinaryIO, rates: Rates) -> Jobs:
    del rates
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


def _tiresias(file: BinaryIO, rates: Rates) -> Jobs:
    del rates
    for row in csv_rows(file, ("job_id", "num_gpu", "submit_time", "duration")):
        yield TraceJob(
            row.text("job_id"),
            row.amount("submit_time"),
            row.amount("duration"),
            row.count("num_gpu"),
            model=row.text("model_name", default=""),
        )


def _muri(file: BinaryIO, rates: Rates) -> Jobs:
    del rates
    for row in csv_rows(file, ("job_id", "num_gpu", "submit_time", "iterations", "iteration_time")):
        iteration_s = row.amount("iteration_time", most=1e9) * MURI_SLOWER / 1000
        yield TraceJob(
            row.text("job_id"),
            row.amount("submit_time", most=1e13) / 1000,
            row.amount("iterations", most=1e12) * iteration_s,
            row.count("num_gpu"),
            model=row.text("model_name", default=""),
        )


def _helios(file: BinaryIO, rates: Rates) -> Jobs:
    del rates
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


def _alibaba(file: BinaryIO, rates: Rates) -> Jobs:
    """Tasks of one job are one gang: it comes with the first, and lasts until the last ends. GPUs
    are percent of one there; a gang's sum is rounded up."""
    del rates
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


def _itp(file: BinaryIO, rates: Rates) -> Jobs:
    del rates
    for row in csv_rows(file, ("job_id", "submission_time", "duration", "num_gpu")):
        yield TraceJob(
            row.text("job_id"),
            row.amount("submission_time"),
            row.amount("duration"),
            row.count("num_gpu"),
        )


_SWF = (
    "number", "submit", "wait", "run", "allocated", "cpu", "memory", "requested", "estimate",
    "requested_memory", "status", "user", "group", "program", "queue", "partition", "previous",
    "think",
)  # fmt: skip


def _swf(file: BinaryIO, rates: Rates) -> Jobs:
    """The Standard Workload Format: processors are taken for GPUs. A job asks for what it
    requested, else for what it got; one that ran beyond its estimate ends there."""
    del rates
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


_GAVEL = ("type", "command", "argument", "needs_data", "steps", "arrival", "gpus")


def _gavel(file: BinaryIO, rates: Rates) -> Jobs:
    """The trace has steps, not times: ``rates`` tells how fast each type of job is."""
    if not rates:
        raise MalformedData(
            "a Gavel trace has steps, not times: name Gavel's file of throughputs (--rates FILE)"
        )
    for number, text in enumerate(text_lines(file), 1):
        fields = text.rstrip("\r\n").split("\t")
        if len(fields) != len(_GAVEL):
            raise MalformedData(f"line {number}: {len(fields)} fields, not {len(_GAVEL)}")
        row = Row(number, dict(zip(_GAVEL, fields, strict=True)))
        gpus = row.count("gpus", least=1)
        rate = rates.get(f"{row.text('type')}/{gpus}")
        if rate is None:
            raise row.wrong(f"no throughput is known of {row.text('type')!a} on {gpus} GPUs")
        steps = row.amount("steps", most=1e13)
        arrival_s = row.amount("arrival")
        yield TraceJob(f"j{number}", arrival_s, steps / rate, gpus, model=row.text("type"))


def gavel_rates(data: bytes) -> Rates:
    """Of Gavel's ``throughputs`` files: by type of GPU, then by "('type', GPUs)", then "null" for a
    job alone. Of several types of GPU V100 is taken, else the first. Raises MalformedData."""
    found = decode_json(data, max_bytes=MAX_BYTES)
    kinds = found if isinstance(found, Mapping) else {}
    kind = "v100" if "v100" in kinds else next(iter(kinds), None)
    table = kinds.get(kind) if kind is not None else None
    if not isinstance(table, Mapping):
        raise MalformedData("no table of throughputs by type of GPU")
    rates: dict[str, float] = {}
    for key, row in table.items():
        alone = row.get("null") if isinstance(row, Mapping) else row
        if not isinstance(alone, (int, float)) or isinstance(alone, bool) or alone <= 0:
            continue
        name, comma, gpus = str(key).strip("()").rpartition(", ")
        rates[f"{name.strip(chr(39))}/{gpus}" if comma else f"{key}/1"] = float(alone)
    return rates


def _philly(file: BinaryIO, rates: Rates) -> Jobs:
    """One gang a job, with the GPUs of its last attempt; it runs as long as all attempts
    together."""
    del rates
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
        TraceFormat("tiresias", "the CSVs of Tiresias's simulator", _tiresias),
        TraceFormat("muri", "the CSVs of Muri's simulator", _muri),
        TraceFormat("helios", "Helios's cluster_log.csv", _helios),
        TraceFormat("alibaba", "pai_task_table.csv of Alibaba's GPU trace of 2020", _alibaba),
        TraceFormat("itp", "Microsoft's ITP traces, as ElasticFlow has them (CSV)", _itp),
        TraceFormat("gavel", "Gavel's .trace files; needs --rates", _gavel),
        TraceFormat("swf", "the Standard Workload Format", _swf),
    )
}
