"""What follows from one look at the cluster and the others' tickets: values in, a decision out."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.cluster_view import cluster
from tests.unit.am.am_world import APPLICATION, job, record_of
from yarnam.am.turn_taking import Decision, Look, Outcome, Search, decided
from yarnam.model.actions import RequestPlan
from yarnam.model.ids import NodeId
from yarnam.model.job import JobSpec, PlacementWish
from yarnam.model.placement import PlacementPlan
from yarnam.model.resources import Resources
from yarnam.model.snapshot import ClusterSnapshot
from yarnam.model.tickets import Demand, MayAsk, Ticket, WaitTurn
from yarnam.placement.answer import answer
from yarnam.placement.early import has_room_to_spare
from yarnam.ports.tickets import TicketList
from yarnam.queues.line import CERTAIN, LENIENT, MOST_PATIENCE_S

NOW_S = 1000.0


def ticket(number: int, tasks: int, gpus: int = 8, **more: object) -> Ticket:
    demands = (Demand(Resources(1024, 1, gpus), tasks),)
    made = Ticket(number, f"application_1_{number}", f"job{number}", "root.dl", demands, 900.0)
    return replace(made, **more)  # type: ignore[arg-type]


def decide(
    spec: JobSpec, others: tuple[Ticket, ...], snapshot: ClusterSnapshot, number: int = 1
) -> Decision:
    excluded = spec.placement.exclude_nodes
    record = record_of(spec)

    def plan(seen: ClusterSnapshot, avoid: tuple[NodeId, ...], blind: bool) -> Outcome:
        request = RequestPlan(1, 0)
        return answer(seen, spec, record.targets, request, besides=avoid, blind=blind)

    async def unused() -> Look:
        raise AssertionError

    look = Look(snapshot, plan(snapshot, (), False))
    search = Search(unused, plan, lambda seen: frozenset(map(NodeId, excluded)))
    role = spec.roles[0]
    mine = ticket(number, role.tasks, role.resources.gpus, job=APPLICATION)
    return decided(mine, TicketList(others), look, search, NOW_S)


WHOLE = job(tasks=4, gpus=8)


def test_the_first_in_line_asks_when_it_fits() -> None:
    decision = decide(WHOLE, (), cluster())
    assert isinstance(decision.turn, MayAsk)
    assert decision.plan is not None


def test_even_the_first_in_line_does_not_ask_for_what_another_has_asked_for() -> None:
    """It was aside when the other claimed, or its queue has come below its share since: both would
    get a part."""
    claimed = ticket(2, 4, is_acquiring=True)
    decision = decide(WHOLE, (claimed,), cluster())
    assert decision.plan is None
    assert isinstance(decision.turn, WaitTurn)
    assert decision.turn.ahead == 0
    assert "others have asked for what is free" in decision.turn.reason


def test_room_beside_a_claim_may_be_asked_for() -> None:
    claimed = ticket(2, 2, is_acquiring=True)
    assert decide(job(tasks=2, gpus=8), (claimed,), cluster()).plan is not None


def test_a_plan_goes_around_the_nodes_that_are_left_to_those_before() -> None:
    head = ticket(1, 2)
    decision = decide(job(tasks=2, gpus=4), (head,), cluster(used=0), number=2)
    assert isinstance(decision.turn, MayAsk)
    assert isinstance(decision.plan, PlacementPlan)
    expected = {node for ask in decision.plan.rungs[0].asks for node in ask.expected_nodes}
    assert expected
    assert not expected & set(decision.turn.avoid)


def test_a_head_that_has_waited_long_gets_no_container_on_its_nodes() -> None:
    """Two nodes are kept for it. A plan that YARN could put there is taken at first, not later."""
    free, *rest = cluster().nodes
    busy = [replace(node, used=Resources(0, 0, 4)) for node in rest]
    view = replace(cluster(), nodes=(free, *busy))
    spec = job(tasks=1, gpus=2)
    long_ago_s, soon_s = NOW_S - CERTAIN * MOST_PATIENCE_S, NOW_S - LENIENT * MOST_PATIENCE_S
    late = decide(spec, (ticket(1, 2, taken_at_s=long_ago_s),), view, number=2)
    soon = decide(spec, (ticket(1, 2, taken_at_s=soon_s),), view, number=2)
    assert isinstance(soon.turn, MayAsk)
    assert soon.turn.avoid
    assert soon.plan is not None
    if late.plan is not None:
        for ask in late.plan.rungs[0].asks:
            assert not set(ask.target.nodes) & set(soon.turn.avoid)
            assert ask.target.nodes or ask.target.racks
    else:
        assert isinstance(late.turn, WaitTurn)
        assert "kept for others" in late.turn.reason


def test_what_does_not_fit_waits_without_a_plan() -> None:
    decision = decide(WHOLE, (), cluster(used=1))
    assert decision.plan is None
    assert isinstance(decision.turn, WaitTurn)


def test_only_nodes_that_the_job_may_use_count() -> None:
    """Room on the others is no room that is about to come free."""
    spec = job(tasks=2, gpus=4, placement=PlacementWish(exclude_nodes=("n2", "n3", "n4")))
    busy = cluster()
    first, *rest = busy.nodes
    busy = replace(busy, nodes=(replace(first, used=Resources(0, 0, 4)), *rest))
    decision = decide(spec, (), busy)
    assert isinstance(decision.turn, WaitTurn)
    assert decision.plan is None
    claimed = ticket(2, 1, is_acquiring=True)
    one = replace(spec, roles=job(tasks=1, gpus=8).roles)
    assert decide(one, (claimed,), cluster()).plan is None


def test_room_is_ample_when_two_such_gangs_fit() -> None:
    for tasks, ample in ((2, True), (3, False)):
        decision = decide(job(tasks=tasks, gpus=8), (), cluster())
        assert decision.plan is not None
        assert has_room_to_spare(cluster(), decision.plan.rungs[0]) is ample
