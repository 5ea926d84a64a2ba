"""Why a job waits, one cause after the other, with its figures and the change that helps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.job_status import AwaitedJob, JobState
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import (
    Closure,
    Closures,
    Node,
    NodeState,
    Scheduler,
    with_cordons,
)
from yarnam.core.model.tickets import (
    BACKS_OFF,
    SUSPENDED,
    Admitted,
    Demand,
    MustWait,
    PolicyTicket,
    Ticket,
)
from yarnam.core.queues.queue_state import QueueState
from yarnam.core.queues.queues_now import QueueJob, QueuesNow, Stage, largest_gangs
from yarnam.core.queues.waiting import why_waiting

TOTAL = Resources(64_000, 64, 8)
CLUSTER = TOTAL.times(4)
TASK = Resources(8000, 8, 4)


def node(name: str, rack: str = "/r1") -> Node:
    return Node(NodeId(name), RackId(rack), NodeState.RUNNING, TOTAL, Resources())


NODES = (node("n1"), node("n2"), node("n3", "/r2"), node("n4", "/r2"))
FULL = tuple(replace(one, used=Resources(8000, 8, 8)) for one in NODES)


def leaf(name: str = "root.a", **facts: Any) -> QueueState:
    given = {"fair_share": CLUSTER, "maximum": CLUSTER, "am_limit": Resources(9000, 9, 0), **facts}
    return QueueState(name, "drf", **given)


def job(**facts: Any) -> QueueJob:
    given = {"stage": Stage.WAITS_FOR_GANG, "demands": (Demand(TASK, 2),), "gpus": 8, **facts}
    return QueueJob("application_1_0005", "train", "ada", "root.a", since_s=50.0,
                    submitted_at_s=50.0, **given)  # fmt: skip


def now(*queues: QueueState, **facts: Any) -> QueuesNow:
    root = QueueState("root", "drf", CLUSTER, CLUSTER, maximum=CLUSTER, is_leaf=False,
                      children=queues or (leaf(),))  # fmt: skip
    return QueuesNow(100.0, root, **{"nodes": NODES, **facts})


def other(number: int, **facts: Any) -> QueueJob:
    given = {"stage": Stage.RUNNING, "gpus": 8, "queue": "root.a", "since_s": 10.0, **facts}
    application = f"application_1_000{number}"
    return QueueJob(application, "other", "bob", submitted_at_s=10.0, **given)


TICKET = Ticket(5, "application_1_0005", "train", "root.a", (Demand(TASK, 2),), 50.0)


def waits_behind(**facts: Any) -> Callable[[Ticket], MustWait]:
    head = Ticket(1, "application_1_0001", "big", "root.a", (Demand(TASK, 4),), 10.0)
    reason = "the free GPUs are needed by the jobs ahead of it"
    return lambda _: MustWait(2, head, reason, **facts)


AM = job(stage=Stage.WAITS_FOR_AM, demands=(), gpus=None)

PREP = AwaitedJob("application_1_0001", "prep", state=JobState.RUNNING)

CASES: dict[str, tuple[QueueJob, QueuesNow, str, str]] = {
    "max-jobs": (
        AM,
        now(leaf(max_jobs=2), jobs=(AM, other(1), other(2))),
        "root.a runs at most 2 jobs at a time (maxRunningApps), and 2 came before this one",
        "maxRunningApps of root.a at 3",
    ),
    "am-share": (
        AM,
        now(
            leaf(
                fair_share=Resources(10_000, 10, 2),
                am_used=Resources(1024, 1, 0),
                am_limit=Resources(2000, 2, 1),
            ),
            am_shares={"root.a": 0.2},
        ),
        "may use 2000 MiB in root.a (maxAMShare 0.2 of its fair share): 1024 are used, and this",
        "maxAMShare of root.a at 0.26",
    ),
    "max-resources": (
        job(),
        now(leaf(maximum=replace(CLUSTER, gpus=12), used=Resources(8000, 8, 8))),
        "its gang of 2 tasks needs 8 GPUs, and root.a has 4 left of its maximum of 12",
        "maxResources of root.a at 16 GPUs instead of 12, or the end of jobs there that use 4",
    ),
    "no-node-for-am": (
        AM,
        now(nodes=tuple(replace(one, used=TOTAL) for one in NODES)),
        "none of 4 nodes has the 1536 MiB and 1 vcore free",
        "the end of any task",
    ),
    "next-heartbeat": (AM, now(), "nothing holds it up", ""),
    "unknown": (job(demands=()), now(), "no ticket", "yarnam status application_1_0005"),
    "queue-stopped": (
        job(),
        now(closures=Closures(queues={"root.a": Closure("ann", 1.0, "upgrade tonight")})),
        "queue root.a is stopped by ann: upgrade tonight, so no gang of it begins",
        "yarnam queues resume root.a",
    ),
    "cordoned-nodes": (
        job(demands=(Demand(Resources(8000, 8, 8), 4),)),
        now(nodes=with_cordons(NODES, Closures({NodeId("n1"): Closure("ann", 1.0, "disk")}))),
        "its gang would fit, were it not for n1 (cordoned by ann: disk)",
        "yarnam nodes uncordon n1",
    ),
    "earlier-jobs": (
        job(demands=(), awaited=(PREP,)),
        now(),
        "it waits for prep (application_1_0001, RUNNING) to succeed (depends_on)",
        "the end of application_1_0001",
    ),
    "max-container": (
        job(),
        now(leaf(max_container=Resources(9000, 9, 2))),
        "grants containers of at most 9000 MiB, 9 vcores, 2 GPUs",
        "maxContainerAllocation of root.a",
    ),
    "no-such-node": (
        job(demands=(Demand(Resources(8000, 8, 16), 1),)),
        now(),
        "none of 4 running nodes is so large",
        "smaller tasks",
    ),
    "not-enough-gpus": (
        job(),
        now(
            leaf(used=Resources(8000, 8, 4)),
            leaf("root.b", used=Resources(24_000, 24, 24), fair_share=replace(CLUSTER, gpus=16)),
            nodes=FULL,
            jobs=(other(1, gpus=16), other(2, gpus=8), other(3, gpus=4)),
            preempts=True,
        ),
        "needs 8 GPUs and 0 are free; root.b uses 24 of a fair share of 16",
        "the end of application_1_0002 (other), which has 8",
    ),
    "fragmented": (
        job(demands=(Demand(replace(TASK, gpus=8), 1),)),
        now(nodes=tuple(replace(one, used=Resources(0, 0, 4)) for one in NODES)),
        "16 GPUs are free, but in pieces: 0 of 1 task",
        "tasks of 4000 MiB, 4 vcores, 4 GPUs (2 of them)",
    ),
    "wait-queue": (
        job(ticket=TICKET),
        now(admission=waits_behind()),
        "by the jobs ahead of it; 2 gangs are ahead of it, next application_1_0001 (big, 16 GPUs)",
        "the start of application_1_0001, or a higher gang.priority",
    ),
    "reserved": (
        job(ticket=TICKET),
        now(admission=waits_behind(is_reserved=True)),
        "2 gangs are ahead",
        "a declared `duration` that ends before it",
    ),
    "suspended": (
        job(ticket=replace(TICKET, blocked_reason=SUSPENDED)),
        now(nodes=FULL),
        "it is suspended; it took its ticket 50s ago",
        "yarnam resume application_1_0005",
    ),
    "policy": (
        job(ticket=replace(TICKET, blocked_reason=SUSPENDED, policy=PolicyTicket("a", 0, 1.0, 8))),
        now(nodes=FULL),
        "the policy of its queue has others go first; it took its ticket 50s ago",
        "yarnam policy explain application_1_0005",
    ),
    "back-off": (
        job(ticket=replace(TICKET, blocked_reason=BACKS_OFF)),
        now(),
        "its attempt backs off: no free GPU would help it now",
        "yarnam status application_1_0005",
    ),
    "asked": (
        job(ticket=replace(TICKET, is_acquiring=True)),
        now(leaf(), leaf("root.b", reserved_containers=3), nodes=FULL, preempts=True),
        "asked YARN for 2 tasks with 8 GPUs; 0 are free, and YARN keeps nodes reserved for 3",
        "YARN takes them from queues above their fair share",
    ),
    "own-nodes": (
        job(ticket=replace(TICKET, excluded=(NodeId("n1"), NodeId("n2"), NodeId("n3")))),
        now(nodes=(*NODES[:3], *FULL[3:])),
        "leaves it 1 of 4 nodes (placement.exclude_nodes), where 0 of 2 tasks find room; on all",
        "other nodes allowed by its spec (placement.exclude_nodes)",
    ),
    "fits": (job(), now(), "fits now", ""),
    "running": (job(stage=Stage.RUNNING), now(), "does not wait", ""),
    "no-queue": (job(), now(leaf("root.b")), "no queue root.a", "a queue that exists"),
}


@pytest.mark.parametrize("cause", CASES)
def test_the_cause_with_figures_and_the_smallest_change(cause: str) -> None:
    waiting, seen, reason, change = CASES[cause]
    found = why_waiting(waiting, seen)
    assert found.cause == cause
    assert reason in found.reason
    assert change in found.change


def test_whose_turn_it_is_only_has_to_ask() -> None:
    seen = now(admission=lambda _: Admitted("first in the queue"))
    assert why_waiting(job(ticket=TICKET), seen).cause == "fits"


def test_nodes_that_its_spec_leaves_out_are_no_use() -> None:
    """Neither would all nodes do: so that is not the spec's fault."""
    choosy = job(ticket=replace(TICKET, excluded=(NodeId("n1"),)))
    assert why_waiting(choosy, now(nodes=FULL)).cause == "not-enough-gpus"
    small = replace(NODES[3], total=Resources(1000, 1, 1))
    found = why_waiting(
        job(ticket=replace(TICKET, included=(NodeId("n4"),))), now(nodes=(*NODES[:3], small))
    )
    assert found.cause == "no-such-node"
    assert "none of 1 running node that its spec allows is so large" in found.reason


def test_grants_of_a_gang_that_has_asked_are_on_their_way() -> None:
    asked = job(ticket=replace(TICKET, is_acquiring=True))
    assert "next heartbeats" in why_waiting(asked, now()).change
    in_pieces = now(nodes=tuple(replace(one, used=Resources(0, 0, 5)) for one in NODES))
    found = why_waiting(asked, in_pieces)
    assert "12 are free, but in pieces: 0 of them find a node" in found.reason
    assert "the end of jobs" in found.change


def test_a_limit_above_the_queue_holds_too() -> None:
    parent = QueueState("root.t", "drf", maximum=replace(CLUSTER, gpus=4), is_leaf=False,
                        children=(leaf("root.t.a"),))  # fmt: skip
    found = why_waiting(replace(job(), queue="root.t.a"), now(parent))
    assert "root.t has 4 left of its maximum of 4" in found.reason


def test_an_entitled_queue_is_told_to_turn_preemption_on() -> None:
    greedy = leaf("root.b", used=Resources(1, 1, 32), fair_share=replace(CLUSTER, gpus=16))
    seen = now(leaf(fair_share=replace(CLUSTER, gpus=16)), greedy, nodes=FULL)
    assert "preemption" in why_waiting(job(), seen).change


def test_an_am_share_without_a_limit_holds_nobody_up() -> None:
    seen = now(leaf(am_limit=Resources(1, 1, 1)), am_shares={"root.a": -1.0})
    assert why_waiting(AM, seen).cause == "next-heartbeat"


def test_the_largest_gangs_show_fragmentation() -> None:
    nodes = (*(replace(one, used=Resources(0, 0, 5)) for one in NODES[:3]), NODES[3])
    rows = [(g.gpus_per_task, g.on_node, g.in_rack, g.in_cluster) for g in largest_gangs(nodes)]
    assert rows == [(1, 8, 11, 17), (2, 8, 10, 14), (4, 8, 8, 8), (8, 8, 8, 8)]
    assert not largest_gangs(())


@pytest.mark.parametrize(
    ("cause", "waits", "queue", "says", "change"),
    [
        (
            "user-limit",
            job(),
            leaf(user_limit=replace(CLUSTER, gpus=4), used_by={"ada": Resources(0, 0, 2)}),
            "its gang needs 8 GPUs; ada uses 2 in root.a, where one user may have 4",
            "a larger user-limit-factor of root.a, or the end of other jobs of ada",
        ),
        (
            "am-share",
            AM,
            leaf(am_used=Resources(1024, 1, 0), am_limit=Resources(2000, 2, 1), running_jobs=1),
            "may use 2000 MiB in root.a (maximum-am-resource-percent 0.1): 1024 are used",
            "maximum-am-resource-percent of root.a at 0.13",
        ),
        ("next-heartbeat", AM, leaf(am_limit=Resources(100, 1, 1)), "nothing holds it up", ""),
        (
            "max-resources",
            job(),
            leaf(maximum=replace(CLUSTER, gpus=4)),
            "root.a has 4 left of its maximum of 4 (maximum-capacity)",
            "maximum-capacity of root.a at 8 GPUs instead of 4",
        ),
    ],
)
def test_the_capacity_scheduler_has_limits_of_its_own(
    cause: str, waits: QueueJob, queue: QueueState, says: str, change: str
) -> None:
    seen = now(queue, scheduler=Scheduler.CAPACITY, am_shares={"root.a": 0.1})
    found = why_waiting(waits, seen)
    assert found.cause == cause
    assert says in found.reason
    assert change in found.change


def test_several_jobs_that_come_first() -> None:
    found = why_waiting(job(demands=(), awaited=(PREP, PREP, PREP)), now())
    assert "to succeed, and 2 more jobs (depends_on)" in found.reason
