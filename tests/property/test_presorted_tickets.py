"""Tickets sorted beforehand give the same wait queue as tickets that are not."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from yarnam.core.admission.wait_queue import Contention, node_sizes, presorted, wait_queue
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, Node, NodeState, QueueView
from yarnam.core.model.tickets import Demand, RunningGang, Ticket

QUEUES = ("root.a", "root.b")
NOW_S = 20_000.0


def amount(gpus: int) -> Resources:
    return Resources(1024 * gpus, gpus, gpus)


@st.composite
def queues(draw: st.DrawFn) -> tuple[QueueView, ...]:
    limits = st.none() | st.integers(1, 40).map(amount)
    return tuple(
        QueueView(
            name=name,
            used=amount(draw(st.integers(0, 30))),
            fair_share=draw(st.none() | st.integers(0, 30).map(amount)),
            maximum=draw(limits),
            headroom=draw(limits),
        )
        for name in QUEUES
    )


@st.composite
def tickets(draw: st.DrawFn) -> list[Ticket]:
    found = []
    for number in range(draw(st.integers(1, 12))):
        demand = Demand(amount(draw(st.sampled_from([1, 4, 8, 16]))), draw(st.integers(1, 6)))
        one = Ticket(
            number=number,
            job=f"j{number}",
            name="",
            queue=draw(st.sampled_from(QUEUES)),
            demands=(demand,),
            taken_at_s=draw(st.sampled_from([0.0, 5_000.0, 14_000.0, 19_500.0, 19_900.0])),
            is_acquiring=draw(st.booleans()),
            aside=draw(st.sampled_from(["", "", "its attempt backs off"])),
        )
        found.append(one)
    return found


@given(tickets(), queues(), st.lists(st.integers(1, 8), max_size=3), st.integers(0, 11))
def test_the_same_queue(
    waiting: list[Ticket], views: tuple[QueueView, ...], running: list[int], changed: int
) -> None:
    nodes = tuple(
        Node(NodeId(f"n{n}"), RackId("/r"), NodeState.RUNNING, amount(8), Resources())
        for n in range(4)
    )
    snapshot = ClusterSnapshot(NOW_S, nodes, views[0], views)
    gangs = tuple(
        RunningGang(f"r{n}", QUEUES[0], gpus, None, (), 1_000.0 * n)
        for n, gpus in enumerate(running)
    )
    plain = Contention(snapshot, waiting, gangs, NOW_S)
    fast = replace(plain, presorted=presorted(snapshot, waiting, node_sizes(nodes)))
    assert fast.presorted is not None
    asking = replace(waiting[changed % len(waiting)], demands=(Demand(amount(2), 1),))
    for me in (*waiting, asking):
        assert wait_queue(me, fast) == wait_queue(me, plain)


def test_an_order_of_its_own_for_each_is_not_presorted() -> None:
    nodes = (Node(NodeId("n"), RackId("/r"), NodeState.RUNNING, amount(8), Resources()),)
    snapshot = ClusterSnapshot(NOW_S, nodes, QueueView("root.a", Resources()))
    usual = Ticket(1, "j", "j", "root.a", (Demand(amount(1), 1),), 0.0)
    for change in ({"priority": 1}, {"excluded": (NodeId("n"),)}, {"seen_at_s": 1.0}, {"rules": 1}):
        other = replace(usual, job="k", number=2, **change)  # type: ignore[arg-type]
        assert presorted(snapshot, (usual, other), node_sizes(nodes)) is None
