"""A job's figures in the text format of Prometheus.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isnan

from yarnam.core.model.job_status import JobState, JobStatus
from yarnam.core.model.printable import printable

KIND = "text/plain; version=0.0.4; charset=utf-8"

Row = tuple[dict[str, str], float]


def metrics_text(status: JobStatus, step_times: Mapping[int, float]) -> bytes:
    """All metrics of one job; the program's own are samples of ``yarnam_job_metric``.
    ``step_times`` are by rank, in seconds."""
    lines = [line for name, text, rows in _families(status) for line in _family(name, text, rows)]
    rows = [({"rank": str(rank)}, step_s) for rank, step_s in sorted(step_times.items())]
    lines += _family("yarnam_rank_step_seconds", "Mean time of a step of one rank.", rows)
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")


def _families(status: JobStatus) -> Iterator[tuple[str, str, list[Row]]]:
    job = {"application": status.application, "name": status.name, "queue": status.queue,
           "user": status.user}  # fmt: skip
    yield "yarnam_job_info", "The job; always 1.", [(job, 1.0)]
    yield (
        "yarnam_job_state",
        "1 for the state that the job is in, 0 for the others.",
        [({"state": state.value}, float(state is status.state)) for state in JobState],
    )
    yield (
        "yarnam_job_submitted_timestamp_seconds",
        "When the job was submitted.",
        [({}, status.submitted_at_s)],
    )
    yield (
        "yarnam_job_containers",
        "Containers of the gang, by what has become of them.",
        [
            ({"state": "asked"}, float(status.asked)),
            ({"state": "granted"}, float(status.granted)),
            ({"state": "ready"}, float(status.ready)),
        ],
    )
    yield "yarnam_job_attempt", "The number of the present attempt.", [({}, float(status.attempt))]
    yield (
        "yarnam_job_restarts",
        "Restarts for faults of the infrastructure.",
        [({}, float(status.restarts))],
    )
    yield (
        "yarnam_job_preemptions",
        "Preemptions of the running gang.",
        [({}, float(status.preemptions))],
    )
    held = status.holdings[-1] if status.holdings else None
    yield (
        "yarnam_job_held_gpus",
        "GPUs that the job holds.",
        [({}, float(held.gpus if held is not None else 0))],
    )
    if status.step is not None:
        yield "yarnam_job_step", "The training step.", [({}, float(status.step))]
    if status.total_steps:
        yield "yarnam_job_total_steps", "Steps in all.", [({}, float(status.total_steps))]
    if status.loss is not None:
        yield "yarnam_job_loss", "The loss that the program reports.", [({}, status.loss)]
    yield (
        "yarnam_job_metric",
        "What the program reports besides.",
        [({"metric": name}, value) for name, value in status.metrics],
    )
    yield (
        "yarnam_task_usage",
        "What a task uses of its container, by the agent.",
        [
            ({"task": task.task, "resource": name}, value)
            for task in status.tasks
            for name, value in task.usage
        ],
    )
    if status.mirror is not None and status.mirror.number:
        yield (
            "yarnam_job_mirror_saved_timestamp_seconds",
            "When the newest set of the files of checkpoint.mirror was kept.",
            [({}, status.mirror.saved_at_s)],
        )
        yield (
            "yarnam_job_mirror_bytes",
            "The size of this set.",
            [({}, float(status.mirror.size_bytes))],
        )
    if status.ledger is not None:
        uses = status.ledger.entries
        yield (
            "yarnam_job_time_seconds",
            "The job's time by what it was used for.",
            [({"use": one.use.value}, one.wall_s) for one in uses],
        )
        yield (
            "yarnam_job_gpu_seconds",
            "Time of the GPUs that it held.",
            [({"use": one.use.value}, one.gpu_s) for one in uses],
        )


def _family(name: str, text: str, rows: list[Row]) -> list[str]:
    """A gauge: all of these may fall, as the books are corrected after a restart."""
    if not rows:
        return []
    return [
        f"# HELP {name} {text}",
        f"# TYPE {name} gauge",
        *(f"{name}{_labels(labels)} {_value(value)}" for labels, value in rows),
    ]


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{','.join(pairs)}}}"


def _escaped(value: str) -> str:
    return printable(value).replace("\\", "\\\\").replace('"', '\\"')


def _value(value: float) -> str:
    if isnan(value):
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value))
