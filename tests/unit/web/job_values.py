"""A job as its page sees it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

from yarnam.core.model.job_status import (
    AttemptRecord,
    ExcludedFiles,
    Holding,
    JobState,
    JobStatus,
    Ledger,
    LedgerEntry,
    OutputStatus,
    RefusedNode,
    SizeStatus,
    StagingStatus,
    StartForecast,
    SuspectStatus,
    TaskStatus,
    Use,
    WaitQueueStatus,
)
from yarnam.core.model.metrics import Measured
from yarnam.core.model.outcomes import (
    FailureClass,
    FailureRole,
    Finding,
    FirstCause,
    IdleCause,
    IdleGpus,
    RetryAction,
    Straggler,
    Verdict,
    VerdictKind,
)
from yarnam.errors import Blame

USAGE = {
    "cpu_cores": 3.25, "memory_bytes": 3.0 * 2**30, "read_bytes_per_s": 5.0 * 2**20,
    "written_bytes_per_s": 0.0, "gpu_percent": 97.0, "gpu_memory_bytes": 70.0 * 2**30,
    "gpu_watts": 312.4,
}  # fmt: skip
NOW_S = 1_700_000_000.0
APPLICATION = "application_1700000000000_0042"


def running(tasks: int = 4, **changes: Any) -> JobStatus:
    """The second attempt of a job, in training on nodes of two racks."""
    status = JobStatus(
        APPLICATION,
        "train",
        "ada",
        "root.dl",
        JobState.RUNNING,
        phase="RUNNING",
        reason="all processes run",
        at_s=NOW_S,
        submitted_at_s=NOW_S - 1000,
        attempt=2,
        max_attempts=3,
        am_attempt=1,
        asked=tasks,
        granted=tasks,
        ready=tasks,
        restarts=1,
        blacklist=(RefusedNode("bad.example", NOW_S + 600, "CUDA failure"),),
        step=420,
        total_steps=1000,
        loss=Measured(0.5),
        metrics=(("tokens_per_s", Measured(1234.5)),),
        tasks=tuple(task(number, tasks) for number in range(tasks)),
        history=(
            AttemptRecord(1, 0, "RACK", NOW_S - 900, NOW_S - 500, tasks, tasks, "a node was lost"),
            AttemptRecord(2, 0, "RACK", NOW_S - 490, None, tasks, tasks),
        ),
        checkpoint="hdfs://nn/ckpt",
        ledger=Ledger(
            (LedgerEntry(Use.WAITING, 100.0, 0.0), LedgerEntry(Use.KEPT, 900.0, 7200.0)),
        ),
        holdings=(
            Holding(NOW_S - 890, tasks, 2 * tasks),
            Holding(NOW_S - 500, 0, 0),
            Holding(NOW_S - 480, tasks, 2 * tasks),
        ),
    )
    return replace(status, **changes)


def task(number: int, of: int) -> TaskStatus:
    """Two ranks; the first half of the tasks is in one rack."""
    return TaskStatus(
        f"worker-{number}", f"{number}.2", "started", f"n{number}.example",
        f"/rack{2 * number // of}", f"container_{number}", (2 * number, 2 * number + 1),
        ("0", "1"), "n:1", "", 420, Measured(0.5),
        usage=tuple((name, Measured(value)) for name, value in USAGE.items()),
    )  # fmt: skip


def cause() -> FirstCause:
    finding = Finding(
        "torch-cuda-oom", FailureClass.GPU_OUT_OF_MEMORY, FailureRole.ROOT, RetryAction.ALLOWED,
        Blame.USER, "CUDA out of memory", explanation="The GPU's memory is full.",
        hint="Use a smaller batch.",
        ruled_out=("gloo: a later failure",),
    )  # fmt: skip
    return FirstCause("worker-3", 6, "n3.example", "exit code 1", finding, ("rank 7: peer-lost",))


def everything() -> JobStatus:
    """A status with a value in every field."""
    start = StartForecast(NOW_S, NOW_S + 60, NOW_S + 120, NOW_S + 600, NOW_S + 30, "unknown why")
    return running(
        wait_queue=WaitQueueStatus(
            7, 3, "application_1_1", "big", 64, "why", "missing", start, "trouble"
        ),
        size=SizeStatus("worker", 2, 2, 4, 1, 3),
        excluded_files=(ExcludedFiles("images", 3, 0.1, 2, 1, 1),),
        suspects=(SuspectStatus("hdfs://nn/x", "proved", "bad checksum"),),
        output=OutputStatus("hdfs://nn/out", 3, 1000, 2, is_stored=False, renamed=1),
        staging=StagingStatus(5, 2, 1000, 300, 100, 12.0, "1.1", "the disk is slow"),
        deadline_s=NOW_S + 60,
        tracking_url="http://rm/proxy/x/",
        requested_queue="root.other",
        advised="8 GPUs in one node",
        verdict=Verdict(VerdictKind.FAILED, 90, "out of memory", "hint", NOW_S, cause()),
        granted_by_level=(("rack", 4),),
        stragglers=(Straggler(3, "n1.example", 0.4, 0.2, 1.5),),
        idle_gpus=IdleGpus(6.0, 300.0, IdleCause.INPUT, 1.5, 2.0**20, 0.9),
    )


def with_every_text(value: Any, text: str) -> Any:
    """The value with this text in place of every one in it, those of enums excepted."""
    if isinstance(value, str):
        return text
    if isinstance(value, tuple):
        return tuple(with_every_text(one, text) for one in value)
    if is_dataclass(value) and not isinstance(value, (type, Enum)):
        changed = {
            one.name: with_every_text(getattr(value, one.name), text) for one in fields(value)
        }
        return replace(value, **changed)
    return value
