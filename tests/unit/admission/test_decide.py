"""What a job that waits does now: values in, a decision out. The planner is real."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.cluster_view import cluster
from tests.unit.am.am_world import APPLICATION, job, record_of
from yarnam.core.admission import Ask, Decision, QueueSnapshot
from yarnam.core.admission import decide as decide_on
from yarnam.core.admission.wait_queue import CERTAIN, LENIENT, MOST_PATIENCE_S
from yarnam.core.model.actions import RequestPlan
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_spec import JobSpec, PlacementSpec
from yarnam.core.model.plans import NoFit, PlacementPlan, Reason
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.core.model.tickets import Demand, MustWait, Ticket
from yarnam.core.placement.plan_request import plan_request

NOW_S = 1000.0


def ticket(number: int, tasks: int, gpus: int = 8, **more: object) -> Ticket:
    demands = (Demand(Resources(1024, 1, gpus), tasks),)
    made = Ticket(number, f"application_1_{number}", f"job{number}", "root.dl", demands, 900.0)
    return replace(made, **more)  # type: ignore[arg-type]


def decide(
    spec: JobSpec,
    others: tuple[Ticket, ...],
    snapshot: ClusterSnapshot,
    number: int = 1,
    queue: str = "root.dl",
) -> Decision:
    excluded = frozenset(map(NodeId, spec.placement.exclude_nodes))
    record = record_of(spec)

    def plan(avoid: tuple[NodeId, ...] = (), *, blind: bool = False) -> PlacementPlan | NoFit:
        return plan_request(
            snapshot, spec, record.targets, RequestPlan(1, 0), also_excluded=avoid, blind=blind
        )

    role = spec.roles[0]
    mine = ticket(number, role.tasks, role.resources.gpus, job=APPLICATION, queue=queue)
    seen = QueueSnapshot(snapshot, others, (), NOW_S)
    return decide_on(mine, seen, plan, excluded=excluded)


def asks(decision: Decision) -> Ask:
    assert isinstance(decision, Ask), decision
    return decision


def waits(decision: Decision) -> MustWait:
    assert isinstance(decision, MustWait), decision
    return decision


WHOLE = job(tasks=4, gpus=8)


def test_the_first_in_the_queue_asks_when_its_gang_fits() -> None:
    assert asks(decide(WHOLE, (), cluster()))


def test_even_the_first_does_not_ask_for_what_another_has_requested() -> None:
    """It was aside when the other claimed, or its queue has come below its share since: both would
    get a part."""
    claimed = ticket(2, 4, is_acquiring=True)
    turn = waits(decide(WHOLE, (claimed,), cluster()))
    assert turn.ahead == 0
    assert turn.reason == "free GPUs are already requested by other jobs"


def test_room_beside_a_claim_may_be_asked_for() -> None:
    claimed = ticket(2, 2, is_acquiring=True)
    assert asks(decide(job(tasks=2, gpus=8), (claimed,), cluster()))


def test_a_plan_goes_around_the_nodes_that_are_left_to_those_ahead() -> None:
    head = ticket(1, 2)
    decision = asks(decide(job(tasks=2, gpus=4), (head,), cluster(used=0), number=2))
    expected = {node for ask in decision.plan.rungs[0].asks for node in ask.expected_nodes}
    assert expected
    assert not expected & set(decision.admitted.avoid)


def test_the_ticket_shows_what_the_plan_asks_for() -> None:
    """A job of 8 GPUs in any shape, on nodes with 4 free GPUs each: two containers of 4, though its
    ticket waits for the smallest."""
    spec = replace(job(tasks=1, gpus=8), flexible_shape=True)
    spec = replace(spec, roles=(replace(spec.roles[0], processes_per_task=8),))
    decision = asks(decide(spec, (), cluster(used=4)))
    assert decision.ticket.is_acquiring
    wanted = {ask.target.resources.gpus: ask.count for ask in decision.plan.rungs[0].asks}
    assert {d.resources.gpus: d.count for d in decision.ticket.demands} == wanted == {4: 2}


def test_a_head_that_has_waited_long_gets_no_container_on_its_nodes() -> None:
    """Two nodes are reserved for it. A plan that YARN could put there is taken at first, not
    later."""
    free, *rest = cluster().nodes
    busy = [replace(node, used=Resources(0, 0, 4)) for node in rest]
    view = replace(cluster(), nodes=(free, *busy))
    spec = job(tasks=1, gpus=2)
    long_ago_s, soon_s = NOW_S - CERTAIN * MOST_PATIENCE_S, NOW_S - LENIENT * MOST_PATIENCE_S
    late = decide(spec, (ticket(1, 2, taken_at_s=long_ago_s),), view, number=2)
    soon = asks(decide(spec, (ticket(1, 2, taken_at_s=soon_s),), view, number=2))
    assert soon.admitted.avoid
    if isinstance(late, Ask):
        for ask in late.plan.rungs[0].asks:
            assert not set(ask.target.nodes) & set(soon.admitted.avoid)
            assert ask.target.nodes or ask.target.racks
    else:
        assert waits(late).reason == "the job fits only on nodes reserved for other jobs"


def test_what_does_not_fit_waits_without_a_plan() -> None:
    assert waits(decide(WHOLE, (), cluster(used=1)))


def test_a_job_that_can_never_fit_does_not_wait() -> None:
    refusal = NoFit(Reason.TOO_FEW_FREE_GPUS, is_never=True, message="no such node")

    def never(avoid: tuple[NodeId, ...] = (), *, blind: bool = False) -> PlacementPlan | NoFit:
        return refusal

    seen = QueueSnapshot(cluster(), (), (), NOW_S)
    assert decide_on(ticket(1, 4), seen, never) is refusal


def test_only_nodes_that_the_job_may_use_count() -> None:
    """Room on the others is no room that is about to come free."""
    spec = job(tasks=2, gpus=4, placement=PlacementSpec(exclude_nodes=("n2", "n3", "n4")))
    first, *rest = cluster().nodes
    busy = replace(cluster(), nodes=(replace(first, used=Resources(0, 0, 4)), *rest))
    assert waits(decide(spec, (), busy))
    claimed = ticket(2, 1, is_acquiring=True)
    one = replace(spec, roles=job(tasks=1, gpus=8).roles)
    assert waits(decide(one, (claimed,), cluster()))


def test_a_plan_is_made_only_where_it_matters() -> None:
    """A job that others leave no room for would wait with any plan."""

    def never(avoid: tuple[NodeId, ...] = (), *, blind: bool = False) -> PlacementPlan | NoFit:
        raise AssertionError("there was no need to plan")

    mine, ahead = ticket(2, 4), ticket(1, 4)
    seen = QueueSnapshot(cluster(), (ahead,), (), NOW_S)
    assert waits(decide_on(mine, seen, never)).head == ahead
    assert waits(decide_on(mine, replace(seen, tickets=()), never, may_fit=False))
