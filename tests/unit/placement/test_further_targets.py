"""Larger containers for a gang that ran out of memory."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.placement.clusters import cluster, job, node
from yarnam.core.model.actions import RequestPlan
from yarnam.core.model.job_spec import MOST_MEMORY_LEVELS, JobSpec, MoreMemorySpec, RetrySpec
from yarnam.core.model.plans import NoFit, PlacementPlan, Target
from yarnam.core.model.resources import Resources
from yarnam.core.placement import declared_targets, ladder_for_submit
from yarnam.core.placement.further_targets import larger_targets
from yarnam.core.placement.plan_request import plan_request

QUIET = cluster({"a": [4, 4], "b": [4, 4]})
"""Nodes of 8 GiB."""


def growing(tasks: int = 2, gpus: int = 2, ps: int = 0, **more: float) -> JobSpec:
    spec = MoreMemorySpec(**more)  # type: ignore[arg-type]
    return replace(job(tasks, gpus, ps=ps), retry=RetrySpec(more_memory=spec))


def declared(spec: JobSpec) -> tuple[Target, ...]:
    ladder = ladder_for_submit(QUIET, spec)
    assert isinstance(ladder, PlacementPlan)
    return (*declared_targets(ladder), *larger_targets(QUIET, spec))


def test_memory_grows_by_the_factor_up_to_the_most() -> None:
    spec = growing(factor=2.0, max_mib=5000)
    sizes = [spec.at_memory_level(n).roles[0].resources.memory_mib for n in range(4)]
    assert sizes == [2048, 4096, 5000, 5000]
    assert spec.memory_levels == 2
    assert growing().memory_levels == MOST_MEMORY_LEVELS
    assert job(2, 2).memory_levels == 0


def test_what_has_more_than_the_most_keeps_its_size() -> None:
    spec = growing(ps=1, gpus=4, factor=2.0, max_mib=3000)
    memory = [role.resources.memory_mib for role in spec.at_memory_level(3).roles]
    assert memory == [4096, 3000]


def test_each_level_has_services_of_its_own() -> None:
    targets = declared(growing(factor=2.0))
    names = [target.service for target in targets]
    assert len(names) == len(set(names))
    by_level = {target.memory_level: target.resources.memory_mib for target in targets}
    # Three times would be 16 GiB, on nodes of 8.
    assert by_level == {0: 2048, 1: 4096, 2: 8192}


def test_a_request_gets_containers_of_its_level() -> None:
    spec = growing(ps=1, factor=2.0)
    found = plan_request(QUIET, spec, declared(spec), RequestPlan(2, 0, memory_level=1))
    assert isinstance(found, PlacementPlan)
    for rung in found.rungs:
        sizes = {ask.target.role: ask.target.resources for ask in rung.asks}
        assert sizes == {"worker": Resources(4096, 2, 2), "ps": Resources(2048, 1, 0)}


def test_no_larger_container_means_never() -> None:
    spec = growing(factor=2.0)
    targets = declared(spec)
    found = plan_request(QUIET, spec, targets, RequestPlan(2, 0, memory_level=3))
    assert isinstance(found, NoFit)
    assert found.is_never
    assert "16384 MiB" in found.message
    # Nodes that came since are of no use: Skein's services were fixed at submit.
    large = node("big", "/a", 32)
    more = replace(QUIET, nodes=(*QUIET.nodes, large, replace(large, node_id="big2")))
    found = plan_request(more, spec, targets, RequestPlan(2, 0, memory_level=3))
    assert isinstance(found, NoFit)
    assert found.is_never
    assert "when the job was submitted" in found.message
