"""What the terminal pictures show: one job and its cluster, printed by the product's own code."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.pictures.terminal import terminal
from yarnam.cli.rendering import queue_text
from yarnam.cli.rendering.cause_text import cause_lines
from yarnam.cli.rendering.console import Line
from yarnam.cli.rendering.live_status import live_view
from yarnam.cli.rendering.status_text import details
from yarnam.client.monitor.explanations import explain_logs
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.job_status import (
    AttemptRecord,
    JobState,
    JobStatus,
    Ledger,
    LedgerEntry,
    StartForecast,
    TaskStatus,
    Use,
    WaitQueueStatus,
)
from yarnam.core.model.metrics import Measured
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Node, NodeState
from yarnam.core.model.tickets import Demand, MustWait, Ticket
from yarnam.core.queues.queue_state import QueueState
from yarnam.core.queues.queues_now import QueueJob, QueuesNow, Stage

NOW_S = 1_795_000_000.0
APPLICATION = "application_1794990000000_0042"
NODES = ("gpu-03", "gpu-04", "gpu-11", "gpu-12")


def _task(number: int, state: str, step: int | None) -> TaskStatus:
    is_there = state != "asked"
    return TaskStatus(
        f"worker-{number}", f"1.worker.{number}", state,
        NODES[number] if is_there else "", f"/rack{1 + number // 2}" if is_there else "",
        ranks=tuple(range(4 * number, 4 * number + 4)) if state == "started" else (),
        gpu_ids=("0", "1", "2", "3") if is_there else (),
        step=step, loss=None if step is None else Measured(2.137),
    )  # fmt: skip


def _job(state: JobState, **facts: object) -> JobStatus:
    given = {"at_s": NOW_S, "submitted_at_s": NOW_S - 95, "attempt": 1, "max_attempts": 3,
             "am_attempt": 1, **facts}  # fmt: skip
    return JobStatus(APPLICATION, "resnet", "ada", "root.dl.vision", state, **given)


ACQUIRING = _job(
    JobState.ACQUIRING,
    phase="ACQUIRING", asked=4, granted=3, granted_by_level=(("rack", 3),),
    deadline_s=NOW_S + 71,
    tasks=tuple(_task(number, "granted" if number < 3 else "asked", None) for number in range(4)),
)  # fmt: skip

RUNNING = _job(
    JobState.RUNNING,
    submitted_at_s=NOW_S - 5400, phase="RUNNING", reason="all processes run", attempt=2,
    asked=4, granted=4, ready=4, restarts=1, step=1740, total_steps=2400, loss=Measured(2.137),
    tasks=tuple(_task(number, "started", 1740) for number in range(4)),
    checkpoint="hdfs://nn/user/ada/resnet/checkpoints",
    history=(
        AttemptRecord(1, 0, "RACK", NOW_S - 5300, NOW_S - 2100, 4, 4, "gpu-07 was lost"),
        AttemptRecord(2, 0, "RACK", NOW_S - 2088, None, 4, 4),
    ),
    ledger=Ledger(
        (
            LedgerEntry(Use.WAITING, 88.0, 0.0),
            LedgerEntry(Use.STARTING, 22.0, 352.0),
            LedgerEntry(Use.KEPT, 5235.0, 83760.0),
            LedgerEntry(Use.LOST, 55.0, 880.0),
        )
    ),
)  # fmt: skip

WAITING = _job(
    JobState.QUEUED,
    phase="WAITING", reason="the free GPUs are needed by the jobs ahead of it",
    wait_queue=WaitQueueStatus(
        7, 1, "application_1794990000000_0039", "bert-large", 32,
        "the free GPUs are needed by the jobs ahead of it", "4 of its 4 tasks",
        StartForecast(NOW_S, NOW_S + 900, NOW_S + 1500, NOW_S + 3600, NOW_S + 1000),
    ),
)  # fmt: skip

# ---- the queues ----------------------------------------------------------------------------------

_NODE = Resources(512 * 1024, 96, 8)
_CLUSTER = _NODE.times(8)
_TASK = Resources(64 * 1024, 16, 4)


def _node(number: int, gpus: int) -> Node:
    used = Resources(gpus * 16 * 1024, gpus * 4, gpus)
    rack = RackId(f"/rack{1 + number // 4}")
    return Node(NodeId(f"gpu-{number + 1:02}"), rack, NodeState.RUNNING, _NODE, used)


def _leaf(name: str, share: int, used: int, waits: int) -> QueueState:
    amount = Resources(share * 16 * 1024, share * 4, share)
    taken = Resources(used * 16 * 1024, used * 4, used)
    return QueueState(
        name, "drf", amount, amount, maximum=_CLUSTER, used=taken,
        demand=taken.plus(_TASK.times(waits)), pending_containers=waits,
        running_jobs=2, am_limit=_NODE,
    )  # fmt: skip


def _waiting_job(number: int, name: str, user: str, tasks: int, ago_s: float) -> QueueJob:
    application = f"application_1794990000000_00{number}"
    demands = (Demand(_TASK, tasks),)
    taken_at_s = NOW_S - ago_s
    ticket = Ticket(number, application, name, "root.dl.vision", demands, taken_at_s)
    return QueueJob(
        application, name, user, "root.dl.vision", Stage.WAITS_FOR_GANG, since_s=taken_at_s,
        submitted_at_s=taken_at_s, demands=demands, gpus=4 * tasks, ticket=ticket,
    )  # fmt: skip


_BERT = _waiting_job(39, "bert-large", "grace", 8, 1320)
_RESNET = _waiting_job(42, "resnet", "ada", 4, 95)


def queues() -> QueuesNow:
    dl = QueueState(
        "root.dl", "drf", _CLUSTER, _CLUSTER, maximum=_CLUSTER,
        used=Resources(40 * 16384, 160, 40), is_leaf=False,
        children=(_leaf("root.dl.vision", 32, 20, 12), _leaf("root.dl.speech", 32, 20, 0)),
    )  # fmt: skip
    root = replace(dl, name="root", children=(dl,))
    running = QueueJob(
        "application_1794990000000_0031", "wav2vec", "alan", "root.dl.speech", Stage.RUNNING,
        since_s=NOW_S - 7200, submitted_at_s=NOW_S - 7500, gpus=20,
    )  # fmt: skip

    def admission(ticket: Ticket) -> MustWait:
        head = _BERT.ticket
        assert head is not None
        ahead = 0 if ticket.number == head.number else 1
        return MustWait(ahead, head, "the free GPUs are needed by the jobs ahead of it")

    return QueuesNow(
        NOW_S, root, nodes=tuple(_node(number, 5) for number in range(8)),
        jobs=(running, _BERT, _RESNET), admission=admission,
    )  # fmt: skip


# ---- why it failed -------------------------------------------------------------------------------

LOGS = {
    3: """\
Traceback (most recent call last):
  File "code/train.py", line 88, in <module>
    main()
  File "code/train.py", line 61, in main
    loss.backward()
torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total \
capacity of 79.15 GiB of which 1.11 GiB is free.
""",
    0: """\
[rank0]:[W1121 ProcessGroupNCCL.cpp:1250] Warning: process group has NOT been destroyed
RuntimeError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d \
key-value store by key '0', but store->get('0') got error: Connection reset by peer
""",
}


def explained() -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"rank-{rank}.log") for rank in LOGS]
        for path, text in zip(paths, LOGS.values(), strict=True):
            path.write_text(text)
        cause = explain_logs(paths)
    yield from cause_lines(cause)


def terminal_pictures() -> dict[str, str]:
    """By the names of their files."""
    now = queues()
    return {
        "submit-watch.svg": terminal(
            "submit", "yarnam submit job.yaml --watch", live_view(ACQUIRING, NOW_S)
        ),
        "running.svg": terminal("running", "yarnam watch resnet", live_view(RUNNING, NOW_S)),
        "status.svg": terminal("status", "yarnam status resnet", details(RUNNING, NOW_S)),
        "waiting.svg": terminal("waiting", "yarnam status resnet", details(WAITING, NOW_S)),
        "queues.svg": terminal(
            "queues",
            "yarnam queues show root.dl",
            queue_text.queue_lines(now, now.root),
            width=136,
        ),
        "why.svg": terminal("why", "yarnam queues why resnet", queue_text.why_lines(_RESNET, now)),
        "explain.svg": terminal(
            "explain", "yarnam explain --log rank-3.log --log rank-0.log", explained()
        ),
    }
