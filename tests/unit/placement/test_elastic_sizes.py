"""The largest size that fits, the shape of an elastic job, and room beside those that stand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.placement.clusters import cluster, job
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.job_spec import JobSpec, PackOrSpread
from yarnam.core.model.plans import (
    HeldTask,
    LocalityLevel,
    NoFit,
    PlacementPlan,
    Reason,
    Rung,
    Supplement,
    Target,
    TargetAsk,
)
from yarnam.core.model.resources import Resources
from yarnam.core.placement import declared_targets, plan
from yarnam.core.placement.elastic_sizes import (
    elastic_ladder,
    largest_fit,
    plan_largest,
    settled_shape,
    spare_tasks,
)
from yarnam.core.placement.supplement import plan_supplement


def elastic(least: int, most: int, gpus: int, **changes: object) -> JobSpec:
    made = job(most, gpus, **changes)  # type: ignore[arg-type]
    worker, *others = made.roles
    return replace(made, roles=(replace(worker, min_tasks=least), *others))


def planned(found: PlacementPlan | NoFit) -> PlacementPlan:
    assert isinstance(found, PlacementPlan), found
    return found


TARGET = Target("s", "worker", LocalityLevel.ANY, Resources(1024, 1, 1))
RUNG = Rung(0, LocalityLevel.ANY, (TargetAsk(TARGET, 1),), 1.0, "")


@given(least=st.integers(1, 40), span=st.integers(0, 60), room=st.integers(0, 120))
def test_the_largest_that_fits_in_few_questions(least: int, span: int, room: int) -> None:
    most = least + span
    asked = []

    def fits(size: int) -> PlacementPlan | NoFit:
        asked.append(size)
        if size > room:
            return NoFit(Reason.FRAGMENTED, is_never=False, message=f"{size}")
        return PlacementPlan((replace(RUNG, number=size),))

    found = largest_fit(fits, least, most)
    if room < least:
        assert isinstance(found, NoFit)
        assert found.message == str(least)
    else:
        assert planned(found).rungs[0].number == min(room, most)
    assert len(asked) <= 2 + max(1, span).bit_length()
    assert all(least <= size <= most for size in asked)


def test_the_gang_starts_with_as_many_tasks_as_fit_now() -> None:
    snapshot = cluster({"a": [(8, 4), (8, 2)], "b": [(8, 1)]})
    wanted = elastic(2, 8, 1)
    targets = declared_targets(planned(elastic_ladder(snapshot, wanted)))

    def at(one: JobSpec) -> PlacementPlan | NoFit:
        return plan(snapshot, one, targets=targets)

    assert planned(plan_largest(wanted, at)).rungs[0].tasks == 7
    assert planned(plan_largest(wanted, at, most=3)).rungs[0].tasks == 3
    assert planned(plan_largest(wanted, at, most=1)).rungs[0].tasks == 2
    assert planned(plan_largest(job(3, 1), at)).rungs[0].tasks == 3
    assert isinstance(plan_largest(wanted, at, least=8), NoFit)
    assert planned(plan_largest(wanted, at, most=5, least=8)).rungs[0].tasks == 5
    refused = plan_largest(elastic(8, 9, 1), at)
    assert isinstance(refused, NoFit)
    assert not refused.is_never


def test_other_roles_keep_their_number() -> None:
    snapshot = cluster({"a": [8, 8]})
    wanted = elastic(1, 4, 2, ps=1)
    targets = declared_targets(planned(elastic_ladder(snapshot, wanted)))
    found = planned(plan_largest(wanted, lambda one: plan(snapshot, one, targets=targets), most=3))
    assert {ask.target.role: ask.count for ask in found.rungs[0].asks} == {"worker": 3, "ps": 1}


def test_the_services_declared_at_submit_hold_the_gang_at_every_size() -> None:
    snapshot = cluster({"a": [8, 8], "b": [8, 8]})
    wanted = elastic(1, 16, 2)
    targets = declared_targets(planned(elastic_ladder(snapshot, wanted)))
    assert len({target.service for target in targets}) == len(targets)
    for size in range(1, 17):
        found = plan(snapshot, wanted.at_size(size), targets=targets)
        assert planned(found).rungs[0].tasks == size


def test_places_that_only_the_least_size_fits_into_are_declared_too() -> None:
    """16 tasks need the whole cluster; two would rather have one node."""
    snapshot = cluster({"a": [8], "b": [8]})
    wanted = elastic(2, 4, 4)
    targets = declared_targets(planned(elastic_ladder(snapshot, wanted)))
    found = planned(plan(snapshot, wanted.at_size(2), targets=targets))
    assert found.rungs[0].level is LocalityLevel.NODE


def test_a_cluster_that_can_never_hold_the_most_takes_what_it_can() -> None:
    snapshot = cluster({"a": [8, 8]})
    ladder = planned(elastic_ladder(snapshot, elastic(2, 100, 4)))
    assert ladder.rungs[0].tasks == 4
    refused = elastic_ladder(snapshot, elastic(5, 100, 4))
    assert isinstance(refused, NoFit)
    assert refused.is_never


@pytest.mark.parametrize(
    ("nodes", "least", "most", "step", "gpus"),
    [
        ([8, 8], 1, 4, 4, 4),  # gpus: {min: 4, max: 16}
        ([2, 2, 2, 2], 1, 4, 4, 2),  # no node has four
        ([1, 1, 1, 1], 1, 4, 4, 1),
        ([6, 6], 1, 2, 8, 2),  # two of 4 would leave 4 GPUs out
    ],
)
def test_the_size_of_a_container_is_settled_once(
    nodes: list[int], least: int, most: int, step: int, gpus: int
) -> None:
    wanted = elastic(least, most, step, flexible=True)
    found = settled_shape(cluster({"a": nodes}), wanted)
    [worker] = found.roles
    assert worker.min_tasks is not None
    assert not found.flexible_shape
    assert worker.resources.gpus == worker.processes_per_task == gpus
    assert worker.tasks * gpus == most * step
    assert worker.min_tasks * gpus == least * step


def test_jobs_of_one_size_are_left_alone() -> None:
    flexible = job(1, 8, flexible=True)
    assert settled_shape(cluster({"a": [8]}), flexible) is flexible
    assert settled_shape(cluster({"a": [8]}), elastic(1, 2, 4)) == elastic(1, 2, 4)


# ---- beside those that stand ---------------------------------------------------------------


def beside(
    wanted: JobSpec, count: int, standing: dict[str, str], **limits: object
) -> tuple[Supplement, tuple[Target, ...]]:
    """``standing``: racks by node, one task each."""
    targets = declared_targets(planned(elastic_ladder(cluster({"a": [8, 8], "b": [8, 8]}), wanted)))
    target = next(t for t in targets if t.role == "worker")
    rung = replace(RUNG, **limits)  # type: ignore[arg-type]
    tasks = tuple(
        HeldTask("worker", NodeId(node), RackId(rack), target.resources)
        for node, rack in standing.items()
    )
    return Supplement((TargetAsk(target, count),), tasks, rung), targets


def test_growth_comes_near_those_that_stand() -> None:
    snapshot = cluster({"a": [8, (8, 4)], "b": [8, 8]})
    wanted = elastic(1, 8, 2)
    supplement, targets = beside(wanted, 2, {"a1": "/a"})
    found = planned(plan_supplement(snapshot, wanted, supplement, targets=targets))
    [ask] = found.rungs[0].asks
    assert ask.count == 2
    assert {str(node)[0] for node in ask.expected_nodes} == {"a"}


def test_one_rack_stays_one_rack() -> None:
    snapshot = cluster({"a": [(8, 2)], "b": [8, 8]})
    wanted = elastic(1, 8, 2)
    supplement, targets = beside(wanted, 4, {"a0": "/a"}, same_rack=True)

    def room(part: Supplement) -> PlacementPlan | NoFit:
        return plan_supplement(snapshot, wanted, part, targets=targets)

    assert spare_tasks(room, supplement) == 1
    loose, targets = beside(wanted, 4, {"a0": "/a"})
    assert spare_tasks(room, loose) == 4


def test_tasks_that_keep_apart_get_nodes_of_their_own() -> None:
    snapshot = cluster({"a": [8, 8], "b": [8, 8]})
    wanted = elastic(1, 4, 2, strategy=PackOrSpread.SPREAD)
    supplement, targets = beside(wanted, 3, {"a0": "/a", "b0": "/b"}, one_task_per_node=True)

    def room(part: Supplement) -> PlacementPlan | NoFit:
        found = plan_supplement(snapshot, wanted, part, targets=targets)
        if isinstance(found, PlacementPlan):
            nodes = {node for ask in found.rungs[0].asks for node in ask.expected_nodes}
            assert not nodes & {"a0", "b0"}
            assert found.rungs[0].one_task_per_node
        return found

    assert spare_tasks(room, supplement) >= 2


def test_no_room_is_no_spare_task() -> None:
    snapshot = cluster({"a": [(8, 1)], "b": [(8, 0)]})
    wanted = elastic(1, 8, 2)
    supplement, targets = beside(wanted, 4, {"a0": "/a"})

    def room(part: Supplement) -> PlacementPlan | NoFit:
        return plan_supplement(snapshot, wanted, part, targets=targets)

    assert spare_tasks(room, supplement) == 0
