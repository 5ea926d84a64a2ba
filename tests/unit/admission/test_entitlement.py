"""A gang that is entitled to what others hold asks for it; nobody else does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes.cluster_view import cluster
from tests.unit.admission.test_decide import NOW_S, asks, decide, job, ticket, waits
from yarnam.core.admission import QueueSnapshot
from yarnam.core.admission.entitlement import entitlement, lead_of
from yarnam.core.model.ids import NodeId
from yarnam.core.model.plans import LocalityLevel, PlacementPlan, Rung, Target, TargetAsk
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, QueueView
from yarnam.core.model.tickets import RunningGang, Ticket

OURS, THEIRS = "root.prod", "root.dl"


def gpus(count: int) -> Resources:
    return Resources(count * 1024, count, count)


def full(
    *, minimum: int = 8, fair: int = 16, used: int = 0, theirs: int = 32, **more: object
) -> ClusterSnapshot:
    """32 GPUs, all in use by others; ``more`` is what the snapshot says besides."""
    mine = QueueView(OURS, used=gpus(used), fair_share=gpus(fair), minimum=gpus(minimum))
    others = QueueView(THEIRS, used=gpus(theirs), fair_share=gpus(16))
    snapshot = replace(cluster(used=8), queue=mine, queues=(mine, others), preempts=True)
    return replace(snapshot, **more)  # type: ignore[arg-type]


def prod(number: int = 1, tasks: int = 2, each: int = 4, **more: object) -> Ticket:
    return ticket(number, tasks, each, queue=OURS, **more)


def test_a_gang_within_its_queues_minimum_asks() -> None:
    asked = asks(decide(job(tasks=2, gpus=4, queue=OURS), (), full(), queue=OURS))
    assert asked.admitted.is_accumulating
    assert asked.admitted.reason == (
        "queue root.prod is entitled to 8 GPUs and uses 0: "
        "YARN takes the rest from queues above their share"
    )
    # Which containers go is YARN's choice.
    levels = {ask.target.level for rung in asked.plan.rungs for ask in rung.asks}
    assert levels
    assert LocalityLevel.NODE not in levels
    assert asked.ticket.is_acquiring


def test_without_a_claim_it_waits_as_before() -> None:
    spec = job(tasks=2, gpus=4, queue=OURS)
    assert "not free" in waits(decide(spec, (), full(preempts=False), queue=OURS)).reason


@pytest.mark.parametrize(
    ("snapshot", "mine", "others"),
    [
        (full(preempts=False), prod(), ()),  # YARN does not preempt
        (full(used=1), prod(), ()),  # it has a part, and would exceed its share
        (full(), prod(tasks=3), ()),  # so it would at once
        (full(minimum=0, fair=14), prod(), ()),  # YARN defends half of the fair share: 7
        (full(theirs=16), prod(), ()),  # nobody has more than his share
        (full(theirs=12, nodes=cluster(used=3).nodes), prod(), ()),  # neither, and 20 are free
        (full(), prod(number=2), (prod(1, tasks=1),)),  # another of its queue is served first
        (full(), prod(), (prod(2, is_acquiring=True),)),  # another of its queue claims already
        (full(), prod(each=0), ()),  # it wants no GPUs
        (full(queues=()), replace(prod(), queue="root.x"), ()),  # its queue is not known
    ],
)
def test_no_claim(snapshot: ClusterSnapshot, mine: Ticket, others: tuple[Ticket, ...]) -> None:
    assert entitlement(mine, QueueSnapshot(snapshot, others, (), NOW_S)) == ""


@pytest.mark.parametrize(
    ("snapshot", "others"),
    [
        (full(minimum=0, fair=16), ()),  # half of the fair share
        # A silent job of its queue, and one of another queue, are in nobody's way.
        (full(), (prod(2, is_acquiring=True, seen_at_s=NOW_S - 300.0),)),
        (full(), (ticket(2, 1, 4),)),
    ],
)
def test_a_claim(snapshot: ClusterSnapshot, others: tuple[Ticket, ...]) -> None:
    assert entitlement(prod(), QueueSnapshot(snapshot, others, (), NOW_S))


@pytest.mark.parametrize(
    ("ours", "waiting", "may"),
    [
        ((12,), 0, True),  # YARN spares it: its share in the queue is 12, of two
        ((12,), 1, True),  # 8, of three: it might lose 4, the others 8
        ((12,), 3, False),  # 4.8, of five: it might lose 7, the others 8
        ((2, 2, 2, 2, 2, 2), 4, True),  # each has its share
    ],
)
def test_no_claim_where_yarn_might_take_it_from_the_same_queue(
    ours: tuple[int, ...], waiting: int, may: bool
) -> None:
    """YARN takes from any application above its own share, in the asking queue too."""
    snapshot = full(minimum=24, used=12, theirs=24)
    running = tuple(RunningGang(f"r{n}", OURS, gpus, None) for n, gpus in enumerate(ours))
    behind = tuple(prod(9 + number, tasks=4) for number in range(waiting))
    me = prod()
    assert bool(entitlement(me, QueueSnapshot(snapshot, behind, running, NOW_S))) is may


@pytest.mark.parametrize(
    ("nodes", "may"),
    [
        (4, True),
        (3, True),  # of four victims that YARN finds at most one is on the other node
        (2, False),  # half of them may be where the gang cannot go
        (0, False),
    ],
)
def test_no_claim_where_yarn_would_take_it_on_nodes_that_the_gang_may_not_use(
    nodes: int, may: bool
) -> None:
    snapshot = full(theirs=32)
    mine = tuple(node.node_id for node in snapshot.nodes)[:nodes] or (NodeId("h9:1"),)
    me = prod(included=mine)
    assert bool(entitlement(me, QueueSnapshot(snapshot, (), (), NOW_S))) is may


def test_free_gpus_on_nodes_that_the_gang_may_not_use_are_no_room() -> None:
    """Nothing is used there, and on the node that it may use YARN can take no more than is held."""
    full_node, *free_nodes = full().nodes
    nodes = (full_node, *(replace(node, used=Resources()) for node in free_nodes))
    snapshot = full(theirs=24, nodes=nodes, minimum=16)
    three = prod(tasks=3, included=(full_node.node_id,))
    assert entitlement(prod(tasks=3), QueueSnapshot(snapshot, (), (), NOW_S))
    assert entitlement(three, QueueSnapshot(snapshot, (), (), NOW_S)) == ""


def test_a_queue_that_may_not_be_preempted_has_nothing_to_give() -> None:
    snapshot = full()
    closed = tuple(replace(queue, is_preemptable=False) for queue in snapshot.queues)
    seen = QueueSnapshot(replace(snapshot, queues=closed), (), (), NOW_S)
    assert entitlement(prod(), seen) == ""


def gang(number: int, size: int, queue: str = THEIRS) -> RunningGang:
    return RunningGang(f"application_2_{number}", queue, size, None)


EIGHT_OF_FOUR = tuple(gang(number, 4) for number in range(8))


@pytest.mark.parametrize(
    ("running", "tasks", "each", "lead"),
    [
        (EIGHT_OF_FOUR, 8, 1, 2),  # two of them have 8 GPUs
        (EIGHT_OF_FOUR, 2, 4, 0),  # as many as it has containers: all at once
        ((*EIGHT_OF_FOUR[:4], gang(9, 16)), 8, 1, 2),  # YARN may choose the small ones
        ((gang(1, 32),), 8, 1, 1),
        (EIGHT_OF_FOUR[1:], 8, 1, 0),  # a job without a ticket, which gives back what is taken
        ((), 8, 1, 0),
        ((*EIGHT_OF_FOUR, gang(9, 1, OURS)), 8, 1, 2),  # nothing is taken from its own queue
    ],
)
def test_a_claim_asks_first_for_as_few_as_make_gangs_leave(
    running: tuple[RunningGang, ...], tasks: int, each: int, lead: int
) -> None:
    snapshot, me = full(), prod(tasks=tasks, each=each)
    target = Target("worker-any", "worker", LocalityLevel.ANY, gpus(each))
    served = Target("ps-any", "ps", LocalityLevel.ANY, gpus(0))
    asks = (TargetAsk(served, 3), TargetAsk(target, tasks))
    plan = PlacementPlan((Rung(0, LocalityLevel.ANY, asks, 1.0, "test"),))
    assert lead_of(plan, me, QueueSnapshot(snapshot, (), running, NOW_S)) == lead


def test_two_queues_never_take_the_same_gpus_back_and_forth() -> None:
    """Who has just taken his share by claim has nothing above it: the victim cannot claim back."""
    mine = QueueView(OURS, used=gpus(8), fair_share=gpus(16), minimum=gpus(8))
    victim = QueueView(THEIRS, used=gpus(0), fair_share=gpus(16), minimum=gpus(8))
    snapshot = replace(cluster(used=2), queue=victim, queues=(mine, victim), preempts=True)
    seen = QueueSnapshot(snapshot, (), (), NOW_S)
    assert entitlement(ticket(1, 4, 8), seen) == ""
