"""Which containers may be asked for before the AM has looked."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.placement.clusters import cluster, job
from yarnam.core.model.actions import RequestPlan
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.plans import NoFit, PlacementPlan, PrelaunchedService, Target
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.core.placement import declared_targets, ladder_for_submit
from yarnam.core.placement.plan_request import plan_request
from yarnam.core.placement.prelaunch import prelaunch_asks, with_prelaunched_first


def declared(snapshot: ClusterSnapshot, one: JobSpec) -> tuple[Target, ...]:
    plan = ladder_for_submit(snapshot, one)
    assert not isinstance(plan, NoFit)
    return declared_targets(plan)


def early(snapshot: ClusterSnapshot, one: JobSpec) -> tuple[PrelaunchedService, ...]:
    return prelaunch_asks(snapshot, one, declared(snapshot, one), seed="job-1")


def test_they_are_what_the_am_asks_for_first() -> None:
    snapshot, one = cluster({"a": [8, 8], "b": [8, 8]}), job(4, 2)
    asks = early(snapshot, one)
    request = RequestPlan(attempt=1, first_rung=0)
    plan = plan_request(snapshot, one, declared(snapshot, one), request, seed="job-1")
    assert not isinstance(plan, NoFit)
    assert asks == tuple(
        PrelaunchedService(ask.target.service, ask.expected_nodes) for ask in plan.rungs[0].asks
    )
    assert sum(len(ask.nodes) for ask in asks) == 4


def test_none_without_room_to_spare() -> None:
    assert early(cluster({"a": [8, (8, 7)]}), job(8, 1)) == ()
    assert early(cluster({"a": [8, 8]}), job(8, 1)) != ()


def test_none_when_it_does_not_fit_now() -> None:
    assert early(cluster({"a": [(8, 1), (8, 1)]}), job(4, 1)) == ()


def test_none_for_a_job_that_does_not_look_or_has_no_gpus_or_is_elastic() -> None:
    snapshot, one = cluster({"a": [8, 8]}), job(4, 1)
    blind = replace(one, gang=replace(one.gang, look_before_ask=False))
    assert early(snapshot, blind) == ()
    assert early(snapshot, job(4, 0)) == ()
    elastic = replace(one, roles=(replace(one.roles[0], min_tasks=2),))
    assert prelaunch_asks(snapshot, elastic, declared(snapshot, one)) == ()


def planned(snapshot: ClusterSnapshot, one: JobSpec) -> PlacementPlan:
    request = RequestPlan(attempt=1, first_rung=0)
    plan = plan_request(snapshot, one, declared(snapshot, one), request, seed="job-1")
    assert not isinstance(plan, NoFit)
    return plan


def test_of_equal_places_the_early_one_is_taken() -> None:
    plan = planned(cluster({"a": [8, 8], "b": [8, 8]}), job(4, 1))
    equals = [rung for rung in plan.rungs if rung.number == plan.rungs[0].number]
    assert len(equals) > 1
    for rung in equals:
        asks = tuple(PrelaunchedService(a.target.service, a.expected_nodes) for a in rung.asks)
        preferred = with_prelaunched_first(plan, asks)
        assert preferred.rungs[0] is rung
        assert sorted(preferred.rungs, key=id) == sorted(plan.rungs, key=id)


def test_a_looser_place_is_not_preferred_for_being_early() -> None:
    plan = planned(cluster({"a": [8, 8], "b": [8, 8]}), job(4, 1))
    looser = next(rung for rung in plan.rungs if rung.number > plan.rungs[0].number)
    asks = tuple(PrelaunchedService(a.target.service, a.expected_nodes) for a in looser.asks)
    assert with_prelaunched_first(plan, asks) is plan
    assert with_prelaunched_first(plan, (PrelaunchedService("gone", ()),)) is plan
