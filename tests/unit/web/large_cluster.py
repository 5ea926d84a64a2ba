"""A cluster of made data, as large as an administrator's: 200 nodes, 500 jobs in ten queues."""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.accounting.use_over_time import Span, use_over_time
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Closure, Closures, Node, NodeState, NodeStrike, with_cordons
from yarnam.core.model.tickets import Demand, MustWait, RunningGang, Ticket
from yarnam.core.queues.overview.alerts import Alert, AlertKind
from yarnam.core.queues.overview.cluster_overview import ClusterInfo
from yarnam.core.queues.queue_state import QueueState
from yarnam.core.queues.queues_now import QueueJob, QueuesNow, Stage
from yarnam.web.cluster_pages import UseView

NOW_S = 1_795_000_000.0
NODE = Resources(512 * 1024, 96, 8)
TASK = Resources(64 * 1024, 12, 1)
TEAMS = ("vision", "speech", "language", "recommendation", "robotics", "simulation")
USERS = ("ada", "grace", "alan", "barbara", "edsger", "katherine")
WORDS = ("resnet50-imagenet", "bert-large-pretraining-with-a-long-name", "wav2vec", "dlrm-criteo",
         "ppo", "unet3d")  # fmt: skip
FULL_DISKS = (
    "1/4 local-dirs usable space is below configured utilization percentage/no more usable "
    "space [ /data/3/yarn : used space above threshold of 90.0% ]"
)
INFO = ClusterInfo("gpu-cluster-a", "ACTIVE", "3.4.1", NOW_S - 86400 * 12)


def _node(number: int) -> Node:
    name, rack = NodeId(f"gpu-{number:03}.example.com"), RackId(f"/dc1/rack{number // 20:02}")
    state, health, gpus, memory = NodeState.RUNNING, "", 8, 8 * 60 * 1024
    if number % 67 == 5:
        state, health, gpus, memory = NodeState.LOST, "", 0, 0
    elif number % 71 == 7:
        state, gpus = NodeState.UNHEALTHY, 0
        health = FULL_DISKS
    elif number % 83 == 11:
        state, gpus = NodeState.DECOMMISSIONING, 4
    elif number % 5 == 0:
        gpus = number % 8
    if number == 40:
        memory = NODE.memory_mib
    return Node(name, rack, state, NODE, Resources(memory, gpus * 12, gpus), gpu_model="A100",
                health=health)  # fmt: skip


def _leaf(number: int, size: int) -> QueueState:
    share = Resources(size * 60 * 1024, size * 12, size)
    used = size + (number % 3 - 1) * size // 3
    taken = Resources(used * 60 * 1024, used * 12, used)
    return QueueState(
        f"root.research.{TEAMS[number]}", "drf", share, share, share, NODE.times(200), used=taken,
        demand=taken, running_jobs=40, pending_jobs=number, am_limit=NODE,
    )  # fmt: skip


def _job(number: int, nodes: tuple[Node, ...]) -> QueueJob:
    application = f"application_1794990000000_{number:04}"
    name, user = f"{WORDS[number % 6]}-{number}", USERS[number % 5]
    queue, tasks = f"root.research.{TEAMS[number % 6]}", 1 + number % 4
    began_s = NOW_S - 97.0 * (500 - number) - 300
    if number % 5:
        places = tuple(
            (nodes[number * 2 // 5 + k].node_id, 1)
            for k in range(tasks)
            if number * 2 // 5 + k < len(nodes)
        )
        ends_s = NOW_S + 60.0 * number if number % 2 else None
        gang = RunningGang(application, queue, tasks, ends_s, places, began_s, user=user)
        return QueueJob(application, name, user, queue, Stage.RUNNING, began_s, began_s - 40,
                        gpus=tasks, gang=gang)  # fmt: skip
    demands = (Demand(TASK, tasks),)
    ticket = Ticket(number, application, name, queue, demands, began_s, user=user,
                    forecast_s=7200.0)  # fmt: skip
    return QueueJob(application, name, user, queue, Stage.WAITS_FOR_GANG, began_s, began_s,
                    demands=demands, gpus=tasks, ticket=ticket,
                    expected_by_s=began_s + 14400.0)  # fmt: skip


def large_cluster(jobs: int = 500, nodes: int = 200) -> QueuesNow:
    cordons = {
        NodeId("gpu-016.example.com"): Closure("ann", NOW_S - 900, "disk errors"),
        NodeId("gpu-023.example.com"): Closure("ann", NOW_S - 60, "new RAM", NOW_S + 1500),
    }
    closures = Closures(cordons, {})
    made = with_cordons([_node(number) for number in range(nodes)], closures)
    leaves = tuple(_leaf(number, 160 + 60 * number) for number in range(len(TEAMS)))
    used = sum(leaf.used.gpus for leaf in leaves)
    total = NODE.times(nodes)
    whole = Resources(used * 60 * 1024, used * 12, used)
    research = QueueState("root.research", "drf", total, total, maximum=total, used=whole,
                          demand=whole, running_jobs=400, is_leaf=False,
                          children=leaves)  # fmt: skip
    found = tuple(_job(number, made) for number in range(jobs))
    head = next((job.ticket for job in found if job.ticket is not None), None)

    def admission(ticket: Ticket) -> MustWait:
        assert head is not None
        reason = "the free GPUs are needed by the jobs ahead of it"
        return MustWait(ticket.number // 5, head, reason)

    return QueuesNow(
        NOW_S, replace(research, name="root", children=(research,)), made, found,
        closures=closures, admission=admission, all_nodes=made,
    )  # fmt: skip


STRIKES = tuple(
    NodeStrike(NodeId(f"gpu-{number:03}.example.com"), f"application_1794990000000_{job:04}",
               NOW_S - 60.0 * job, "CUDA error: uncorrectable ECC error encountered")
    for number, jobs in ((31, (1, 7, 11)), (118, (3,)))
    for job in jobs
)  # fmt: skip

ALERTS = (
    Alert(AlertKind.QUEUE_SHORT, "root.research.vision", NOW_S - 5000,
          "queue root.research.vision uses 107 of its minimum of 160 GPUs while its jobs wait, for "
          "1h23m"),
    Alert(AlertKind.NODE_STRUCK, "gpu-031.example.com", NOW_S - 660,
          "node gpu-031.example.com was struck 3 times within a day by 3 jobs; the last time: CUDA "
          "error: uncorrectable ECC error encountered"),
)  # fmt: skip


def made_use(now_s: float = NOW_S) -> UseView:
    """A day: the load rises from one job to the next, and some gangs wait half complete."""
    day_s = 86400.0
    spans: list[Span] = []
    for number, queue in enumerate(f"root.research.{team}" for team in TEAMS):
        for hour in range(0, 24, 2):
            at_s = now_s - day_s + 3600.0 * hour + 600.0 * number
            gpus = 20.0 + 15.0 * ((hour * 7 + number * 5) % 9)
            spans.append(Span(queue, at_s - 5400, at_s, waiting=gpus))
            spans.append(Span(queue, at_s, at_s + 1200, held_in_vain=gpus / 2))
            spans.append(Span(queue, at_s + 1200, at_s + 12000, used=gpus))
    found = use_over_time(spans, now_s - day_s, now_s, 900.0)
    return UseView(900.0, found, 1552, ("Not counted: 3 ended jobs, the oldest.",))
