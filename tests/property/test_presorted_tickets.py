"""Tickets sorted beforehand give the same wait queue as tickets that are not."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from yarnam.core.admission.decision import admit, requested
from yarnam.core.admission.reservations import (
    ReservationLedger,
    gangs_on_nodes,
    gangs_on_nodes_after,
)
from yarnam.core.admission.wait_queue import (
    QueueSnapshot,
    gang_ages,
    gpus_by_queue,
    node_sizes,
    presorted,
    resorted,
    wait_queue,
)
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
            blocked_reason=draw(st.sampled_from(["", "", "its attempt backs off"])),
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
    plain = QueueSnapshot(snapshot, waiting, gangs, NOW_S)
    known_gpus = gpus_by_queue(waiting, plain)
    fast = replace(plain, presorted=presorted(snapshot, waiting, node_sizes(nodes), known_gpus))
    assert fast.presorted is not None
    asking = replace(waiting[changed % len(waiting)], demands=(Demand(amount(2), 1),))
    cut = [replace(one, demands=(Demand(amount(1), one.gpus),)) for one in waiting]
    whole = [replace(one, demands=(Demand(amount(one.gpus), 1),)) for one in waiting]
    for me in (*waiting, asking, *cut, *whole):
        assert wait_queue(me, fast) == wait_queue(me, plain)


@given(tickets(), queues(), queues(), st.integers(0, 12), st.integers(0, 12))
def test_some_that_come_and_go(
    all_tickets: list[Ticket],
    views: tuple[QueueView, ...],
    others: tuple[QueueView, ...],
    first: int,
    last: int,
) -> None:
    nodes = (Node(NodeId("n"), RackId("/r"), NodeState.RUNNING, amount(40), Resources()),)
    snapshot, sizes = ClusterSnapshot(NOW_S, nodes, views[0], views), node_sizes(nodes)
    before, after = all_tickets[:last], all_tickets[first:]
    seen = QueueSnapshot(snapshot, before, (), NOW_S)
    asked, asked_later = gpus_by_queue(before, seen), gpus_by_queue(after, seen)
    known = presorted(snapshot, before, sizes, asked)
    assert known is not None
    gone = [ticket for ticket in before if ticket not in after]
    come = [ticket for ticket in after if ticket not in before]
    later = replace(snapshot, queue=others[0], queues=others)
    found = resorted(known, gone, come, later, after, asked_later)
    assert found == presorted(later, after, sizes, asked_later)
    choosy = replace(all_tickets[0], priority=1)
    assert resorted(known, (), (choosy,), snapshot, (*before, choosy), asked) is None
    assert resorted(known, (), (), snapshot, before, asked) is known


@settings(deadline=None)
@given(tickets(), queues(), st.lists(st.integers(1, 8), min_size=4, max_size=4), st.booleans())
def test_the_same_decision_by_what_is_worked_out_beforehand(
    waiting: list[Ticket], views: tuple[QueueView, ...], used: list[int], has_ends: bool
) -> None:
    nodes = tuple(
        Node(NodeId(f"n{n}"), RackId(f"/r{n % 2}"), NodeState.RUNNING, amount(8), amount(gpus))
        for n, gpus in enumerate(used)
    )
    snapshot = ClusterSnapshot(NOW_S, nodes, views[0], views)
    gangs = tuple(
        RunningGang(
            f"r{n}",
            QUEUES[n % 2],
            gpus,
            NOW_S + 400.0 * n if has_ends else None,
            ((NodeId(f"n{n}"), gpus),),
            5_000.0 * n,
        )
        for n, gpus in enumerate(used)
    )
    plain = QueueSnapshot(snapshot, waiting, gangs, NOW_S)
    fast = replace(
        plain,
        presorted=presorted(snapshot, waiting, node_sizes(nodes), gpus_by_queue(waiting, plain)),
        ages=gang_ages(gangs),
        requested=requested(ReservationLedger(snapshot), waiting),
    )
    for me in waiting:
        for fits_now in (True, False):
            assert admit(me, fast, fits_now=fits_now) == admit(me, plain, fits_now=fits_now)
    # And by what those who looked before have worked out, in the order of the queue and in another.
    together = replace(fast, places=[])
    for me in (*wait_queue(waiting[0], fast).order, *waiting):
        assert admit(me, together, fits_now=True) == admit(me, plain, fits_now=True)


@given(st.lists(st.tuples(st.integers(0, 4), st.sets(st.integers(0, 3))), max_size=12))
def test_gangs_by_node_follow_those_that_start_and_end(story: list[tuple[int, set[int]]]) -> None:
    running: dict[str, RunningGang] = {}
    on = gangs_on_nodes(())
    for number, where in story:
        nodes = tuple((NodeId(f"n{n}"), 2) for n in sorted(where))
        gone = running.pop(f"r{number}", None)
        come = RunningGang(f"r{number}", QUEUES[0], 2, None, nodes, 0.0) if where else None
        if come is not None:
            running[come.job] = come
        on = gangs_on_nodes_after(on, gone, come)
        assert on == gangs_on_nodes(running.values())


def test_an_order_of_its_own_for_each_is_not_presorted() -> None:
    nodes = (Node(NodeId("n"), RackId("/r"), NodeState.RUNNING, amount(8), Resources()),)
    snapshot = ClusterSnapshot(NOW_S, nodes, QueueView("root.a", Resources()))
    usual = Ticket(1, "j", "j", "root.a", (Demand(amount(1), 1),), 0.0)
    for change in ({"priority": 1}, {"excluded": (NodeId("n"),)}, {"seen_at_s": 1.0}, {"rules": 1}):
        other = replace(usual, job="k", number=2, **change)  # type: ignore[arg-type]
        assert presorted(snapshot, (usual, other), node_sizes(nodes), {}) is None
