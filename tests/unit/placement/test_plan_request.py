"""What the planner answers to a question of the gang machine: suspects last, supplements beside."""

from __future__ import annotations

from tests.unit.placement.clusters import cluster, job
from yarnam.core.model.actions import RequestPlan
from yarnam.core.model.ids import NodeId
from yarnam.core.model.plans import HeldTask, PlacementPlan, Supplement, Target, TargetAsk
from yarnam.core.placement import declared_targets, ladder_for_submit
from yarnam.core.placement.plan_request import plan_request

QUIET = cluster({"a": [4, 4], "b": [4, 4]})


def planned(found: object) -> PlacementPlan:
    assert isinstance(found, PlacementPlan), found
    return found


def nodes_of(plan: PlacementPlan) -> set[str]:
    return {node for ask in plan.rungs[0].asks for node in ask.expected_nodes}


def declared(tasks: int, gpus: int, **changes: object) -> tuple[Target, ...]:
    return declared_targets(planned(ladder_for_submit(QUIET, job(tasks, gpus, **changes))))  # type: ignore[arg-type]


def test_suspects_are_left_out_where_another_place_is_as_good() -> None:
    targets = declared(2, 4)
    usual = planned(plan_request(QUIET, job(2, 4), targets, RequestPlan(1, 0)))
    first = next(iter(sorted(nodes_of(usual))))
    asked = RequestPlan(1, 0, suspects=(NodeId(first),))
    careful = planned(plan_request(QUIET, job(2, 4), targets, asked))
    assert first not in nodes_of(careful)
    assert careful.rungs[0].number == usual.rungs[0].number


def test_suspects_are_used_before_the_gang_goes_without_a_rack() -> None:
    targets = declared(2, 4)
    asked = RequestPlan(1, 0, suspects=tuple(NodeId(n) for n in ("a0", "b0")))
    found = planned(plan_request(QUIET, job(2, 4), targets, asked))
    usual = planned(plan_request(QUIET, job(2, 4), targets, RequestPlan(1, 0)))
    assert found.rungs[0].number == usual.rungs[0].number


def test_suspects_are_used_when_nothing_else_is_left() -> None:
    targets = declared(4, 4)
    asked = RequestPlan(1, 0, suspects=tuple(node.node_id for node in QUIET.nodes))
    assert planned(plan_request(QUIET, job(4, 4), targets, asked)).rungs[0].tasks == 4


def test_a_suspicion_does_not_make_containers_smaller() -> None:
    """Sixteen GPUs in any containers. Two whole nodes are free, one of them suspected; the others
    could give them in halves of nodes, at the same step of the ladder."""
    spec = job(16, 1, flexible=True)
    idle = cluster({"a": [8, 8, 8], "b": [8]})
    scattered = cluster({"a": [8, (8, 4), (8, 4)], "b": [8]})
    targets = declared_targets(planned(ladder_for_submit(idle, spec)))
    usual = planned(plan_request(scattered, spec, targets, RequestPlan(1, 0)))
    assert [ask.target.resources.gpus for ask in usual.rungs[0].asks] == [8]
    without_b0 = RequestPlan(1, 0, excluded=(NodeId("b0"),))
    in_halves = planned(plan_request(scattered, spec, targets, without_b0))
    assert [ask.target.resources.gpus for ask in in_halves.rungs[0].asks] == [4]
    assert in_halves.rungs[0].number == usual.rungs[0].number
    suspected = RequestPlan(1, 0, suspects=(NodeId("b0"),))
    assert plan_request(scattered, spec, targets, suspected) == usual


def test_excluded_nodes_stay_out_whatever_happens() -> None:
    targets = declared(4, 4)
    asked = RequestPlan(1, 0, excluded=(NodeId("a0"),))
    assert not isinstance(plan_request(QUIET, job(4, 4), targets, asked), PlacementPlan)


def lacking_one(targets: tuple[Target, ...], *standing: tuple[str, str]) -> Supplement:
    whole = planned(plan_request(QUIET, job(2, 4), targets, RequestPlan(1, 0))).rungs[0]
    target = whole.asks[0].target
    return Supplement(
        (TargetAsk(target, 1),),
        tuple(HeldTask("worker", NodeId(n), r, target.resources) for n, r in standing),  # type: ignore[arg-type]
        whole,
    )


def test_what_is_lacking_is_looked_for_near_what_stands() -> None:
    targets = declared(2, 4)
    taken = cluster({"a": [(4, 0), 4], "b": [4, 4]})
    supplement = lacking_one(targets, ("a0", "/a"))
    found = planned(
        plan_request(taken, job(2, 4), targets, RequestPlan(2, 0, supplement=supplement))
    )
    assert nodes_of(found) == {"a1"}
    assert found.rungs[0].tasks == 1


def test_and_farther_away_when_there_is_no_room_near() -> None:
    targets = declared(2, 4)
    taken = cluster({"a": [(4, 0), (4, 0)], "b": [4, 4]})
    supplement = lacking_one(targets, ("a0", "/a"))
    found = planned(
        plan_request(taken, job(2, 4), targets, RequestPlan(2, 0, supplement=supplement))
    )
    assert nodes_of(found) <= {"b0", "b1"}


def test_a_suspect_nearby_comes_after_a_good_node_far_away() -> None:
    targets = declared(2, 4)
    taken = cluster({"a": [(4, 0), 4], "b": [4, 4]})
    supplement = lacking_one(targets, ("a0", "/a"))
    asked = RequestPlan(2, 0, suspects=(NodeId("a1"),), supplement=supplement)
    found = planned(plan_request(taken, job(2, 4), targets, asked))
    assert nodes_of(found) <= {"b0", "b1"}


def test_what_others_hint_at_is_used_before_what_the_job_has_had_trouble_with() -> None:
    targets = declared(3, 4, strategy="spread")
    whole = planned(plan_request(QUIET, job(3, 4), targets, RequestPlan(1, 0))).rungs[0]
    target = whole.asks[0].target
    standing = (("a0", "/a"), ("b1", "/b"))
    supplement = Supplement(
        (TargetAsk(target, 1),),
        tuple(HeldTask("worker", NodeId(n), r, target.resources) for n, r in standing),  # type: ignore[arg-type]
        whole,
    )
    taken = cluster({"a": [(4, 0), 4], "b": [4, (4, 0)]})
    for struck, hinted in (("a1", "b0"), ("b0", "a1")):
        asked = RequestPlan(
            2, 0, suspects=(NodeId(struck),), doubtful=(NodeId(hinted),), supplement=supplement
        )
        found = planned(plan_request(taken, job(3, 4), targets, asked))
        assert nodes_of(found) == {hinted}
