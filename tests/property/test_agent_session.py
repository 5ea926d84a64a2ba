"""An agent's reports, late, doubled and out of order: each thing is told once."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from yarnam.adapters.grpc.agent_session import AgentSession
from yarnam.core.model.events import (
    AgentRegistered,
    AgentUnable,
    TaskExited,
    TaskReady,
    TaskStaged,
    TaskStarted,
)
from yarnam.core.model.ids import AskId
from yarnam.wire.pb import yarnam_pb2 as pb

ASK = AskId(1, "worker", 0)
STATES = [pb.READY, pb.STAGED, pb.STARTED, pb.EXITED, pb.UNABLE, pb.TASK_STATE_UNSPECIFIED]
REPORTS = st.lists(
    st.tuples(st.sampled_from(STATES), st.integers(1, 3), st.booleans()), max_size=20
)
ORDERS = st.lists(
    st.sampled_from(["launch1", "launch2", "stop", "leave", "park"]), min_size=1, max_size=12
)


@given(REPORTS)
def test_every_event_at_most_once_and_registration_before_work(
    reports: list[tuple[int, int, bool]],
) -> None:
    session = AgentSession(ASK)
    told: list[tuple[type, int]] = []
    for state, attempt, ready in reports:
        report = pb.AgentReport(
            ask=str(ASK), container="c", state=state, attempt=attempt, ready=ready
        )
        for event in session.report(report, 1.0):
            work_events = (TaskStaged, TaskStarted, TaskReady, TaskExited)
            number = event.attempt if isinstance(event, work_events) else 0
            told.append((type(event), number))
    assert all(count == 1 for count in Counter(told).values())
    kinds = [kind for kind, _ in told]
    work = [index for index, kind in enumerate(kinds) if kind in (TaskStarted, TaskExited)]
    if work:
        assert kinds.index(AgentRegistered) < work[0]
    for attempt in (1, 2, 3):
        # A start that is heard of after the end is old news.
        if (TaskStarted, attempt) in told and (TaskExited, attempt) in told:
            assert told.index((TaskStarted, attempt)) < told.index((TaskExited, attempt))
        if (TaskReady, attempt) in told:
            assert told.index((TaskStarted, attempt)) < told.index((TaskReady, attempt))
    states = {state for state, _, _ in reports}
    assert (AgentUnable in kinds) == (pb.UNABLE in states)


@given(ORDERS)
def test_numbers_grow_with_each_new_wish_and_leave_is_the_last(orders: list[str]) -> None:
    session = AgentSession(ASK)
    wishes = {
        "launch1": pb.Directive(launch=pb.Launch(attempt=1)),
        "launch2": pb.Directive(launch=pb.Launch(attempt=2)),
        "stop": pb.Directive(stop=pb.Stop(attempt=1, grace_s=1.0)),
        "leave": pb.Directive(leave=pb.Leave()),
        "park": pb.Directive(park=pb.Park()),
    }
    for order in orders:
        before = pb.Directive()
        before.CopyFrom(session.directive)
        wish = pb.Directive()
        wish.CopyFrom(wishes[order])
        changed = session.order(wish, {})
        if before.WhichOneof("order") == "leave":
            assert not changed
        assert changed == (session.directive != before)
        assert session.directive.number == before.number + changed
    assert session.is_dismissed == ("leave" in orders)
