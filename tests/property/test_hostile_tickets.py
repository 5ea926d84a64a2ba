"""Whatever is written as a ticket: it takes little memory and time, and what is not confirmed
changes nothing."""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from yarnam.core.admission import QueueSnapshot
from yarnam.core.admission.decision import admit
from yarnam.core.admission.forecast import forecast
from yarnam.core.admission.ticket_checks import believed_gang, believed_ticket
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.job_spec import MAX_TASKS
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, Node, NodeState, QueueView
from yarnam.core.model.tickets import (
    Admitted,
    Demand,
    LiveApplication,
    MustWait,
    RunningGang,
    Ticket,
)

NOW_S = 1_000_000.0
SIZE = Resources(512 << 10, 128, 8)
NOTHING = Resources()


def snapshot(nodes: int, used: Resources = NOTHING) -> ClusterSnapshot:
    return ClusterSnapshot(
        NOW_S,
        tuple(
            Node(NodeId(f"n{n}"), RackId(f"/r{n % 4}"), NodeState.RUNNING, SIZE, used)
            for n in range(nodes)
        ),
        QueueView("root.dl"),
    )


def waiting(number: int, demand: Demand, **more: object) -> Ticket:
    made = Ticket(number, f"app{number}", "j", "root.dl", (demand,), NOW_S - 100.0, user="me")
    return replace(made, **more)  # type: ignore[arg-type]


def live(*numbers: int, started_at_s: float = NOW_S - 200.0) -> dict[str, LiveApplication]:
    apps = (LiveApplication(f"app{n}", "me", "root.dl", started_at_s, 1) for n in numbers)
    return {app.application: app for app in apps}


ME = waiting(1, Demand(Resources(1024, 1, 4), 2))
amounts = st.one_of(
    st.integers(-2, 9), st.sampled_from([10**9, 2**31 - 1, 2**31, 10**40, -(10**40)])
)
times = st.floats() | st.floats(NOW_S - 1e6, NOW_S + 1e6)
demands = st.builds(Demand, st.builds(Resources, amounts, amounts, amounts), amounts)
node_ids = st.text(max_size=3).map(NodeId) | st.sampled_from(["n0", "n1"]).map(NodeId)
tickets = st.builds(
    Ticket,
    number=amounts,
    job=st.sampled_from(["app1", "app2", "app3", "app4"]) | st.text(max_size=5),
    name=st.text(max_size=20),
    queue=st.sampled_from(["root.dl", "root.x", ""]),
    demands=st.lists(demands, max_size=3).map(tuple),
    taken_at_s=times,
    duration_s=st.none() | times,
    is_acquiring=st.booleans(),
    gpu_model=st.sampled_from(["", "A100", "x" * 500]),
    included=st.lists(node_ids, max_size=3).map(tuple),
    excluded=st.lists(node_ids, max_size=3).map(tuple),
    priority=amounts,
    blocked_reason=st.text(max_size=5),
    seen_at_s=st.just(NOW_S),
    rules=st.integers(0, 3),
    user=st.sampled_from(["me", "you", ""]),
)
gangs = st.builds(
    RunningGang,
    job=st.sampled_from(["app2", "app3", "nobody"]),
    queue=st.text(max_size=5),
    gpus=amounts,
    ends_at_s=st.none() | times,
    nodes=st.lists(st.tuples(node_ids, amounts), max_size=3).map(tuple),
    since_s=st.none() | times,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(tickets, max_size=6), st.lists(gangs, max_size=4), st.booleans(), st.booleans())
@example([waiting(2, Demand(Resources(0, 0, 0), 10**9), taken_at_s=0.0)], [], False, True)
def test_any_ticket_is_decided_and_forecast_without_a_fault(
    given_tickets: list[Ticket], given_gangs: list[RunningGang], fits: bool, answers: bool
) -> None:
    applications = live(2, 3, started_at_s=NOW_S - 10_000.0) if answers else None
    found = [believed_ticket(one, applications, NOW_S) for one in given_tickets]
    believed = {one.job: one for one in found if isinstance(one, Ticket) and one.job != ME.job}
    running = [believed_gang(one, applications) for one in given_gangs]
    gangs_believed = tuple(one for one in running if isinstance(one, RunningGang))
    seen = QueueSnapshot(snapshot(3), tuple(believed.values()), gangs_believed, NOW_S)
    assert isinstance(admit(ME, seen, fits_now=fits), (Admitted, MustWait))
    forecast(ME, seen, plays=2)


@settings(max_examples=100, deadline=None)
@given(st.lists(tickets, max_size=6))
def test_tickets_of_applications_that_do_not_live_change_nothing(forged: list[Ticket]) -> None:
    honest = waiting(2, Demand(Resources(1024, 1, 8), 1))
    applications = live(1, 2)
    strangers = [one for one in forged if one.job not in applications]
    found = [believed_ticket(one, applications, NOW_S) for one in (honest, *strangers)]
    believed = tuple(one for one in found if isinstance(one, Ticket))
    assert believed == (honest,)


@settings(max_examples=100, deadline=None)
@given(tickets)
@example(waiting(2, Demand(Resources(1024, 1, 8), 3), taken_at_s=NOW_S - 90_000.0))
def test_nobody_is_head_before_his_application_has_waited(forged: Ticket) -> None:
    """A ticket of a young application, whatever it says of its age, gets no nodes reserved."""
    applications = live(2, started_at_s=NOW_S - 100.0)
    found = believed_ticket(replace(forged, job="app2", user="me"), applications, NOW_S)
    if isinstance(found, str):
        return
    used = snapshot(3, used=Resources(1024, 1, 1))
    turn = admit(ME, QueueSnapshot(used, (found,), (), NOW_S), fits_now=True)
    assert isinstance(turn, Admitted) or not turn.is_reserved


def test_a_gang_that_the_cluster_cannot_hold_is_no_head() -> None:
    """The cluster has room for the small one: nothing of it is kept for the other."""
    impossible = waiting(2, Demand(Resources(1024, 1, 8), 4), taken_at_s=NOW_S - 90_000.0)
    for declared_s in (None, 60.0):
        me = replace(ME, duration_s=declared_s)
        turn = admit(me, QueueSnapshot(snapshot(3), (impossible,), (), NOW_S), fits_now=True)
        assert isinstance(turn, Admitted)
    possible = replace(impossible, demands=(Demand(Resources(1024, 1, 8), 3),))
    used = snapshot(3, used=Resources(1024, 1, 1))
    turn = admit(ME, QueueSnapshot(used, (possible,), (), NOW_S), fits_now=True)
    assert isinstance(turn, MustWait)
    assert turn.is_reserved


@pytest.mark.parametrize("count", [MAX_TASKS, 10**9])
def test_a_million_slots_are_not_made(count: int) -> None:
    """Tiny containers on a large cluster: what is reserved costs what is wanted, not what there
    would be room for. Before it was a tuple for each: 1 GiB on one node of 10**9."""
    tiny = waiting(2, Demand(Resources(64, 0, 0), count), taken_at_s=NOW_S - 90_000.0)
    full = snapshot(60, used=SIZE)
    nodes = (replace(full.nodes[0], used=NOTHING), *full.nodes[1:])  # with room for one of both
    seen = QueueSnapshot(replace(full, nodes=nodes), (tiny,), (), NOW_S)
    if count > MAX_TASKS:
        assert isinstance(believed_ticket(tiny, None, NOW_S), str)
        return
    tracemalloc.start()
    began_s = time.process_time()
    try:
        admit(ME, seen, fits_now=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20
    assert time.process_time() - began_s < 30.0
