"""The smallest change that would make a gang fit, against brute force on small clusters."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.property.test_planner import fix_flexible, jobs, snapshots
from tests.unit.placement.clusters import job, node
from yarnam.core.model.job_spec import PackOrSpread, TopologyConstraint
from yarnam.core.model.plans import ChangeKind, NoFit, PlacementPlan
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, QueueView
from yarnam.core.placement import declared_targets, ladder_for_submit, plan
from yarnam.core.placement.explain.minimal_release import minimal_release
from yarnam.core.placement.gang_shape import Group, Shape
from yarnam.core.placement.packing.bin_packing import PackRules
from yarnam.core.placement.packing.capacity_index import CapacityIndex
from yarnam.core.placement.packing.node_capacity import free_capacity, total_capacity


@st.composite
def small_nodes(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Up to five nodes of up to four GPUs: all of them, and those free now."""
    totals = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    return [(total, draw(st.integers(0, total))) for total in totals]


def fits(free: Sequence[int], tasks: int, gpus: int, limit: int | None, alone: bool) -> bool:
    """Whether so many tasks fit, by arithmetic: the nodes that take the most tasks first."""
    counts = sorted((min(1, n // gpus) if alone else n // gpus for n in free), reverse=True)
    return sum(counts[:limit]) >= tasks


def fewest_gpus_to_free(nodes: Sequence[tuple[int, int]], *gang: object) -> int | None:
    """Tries every number of GPUs on every node; None: it does not fit even if all are free."""
    ways = itertools.product(*(range(now, total + 1) for total, now in nodes))
    before = sum(now for _, now in nodes)
    return min((sum(way) - before for way in ways if fits(way, *gang)), default=None)  # type: ignore[arg-type]


@settings(max_examples=250, deadline=None)
@given(
    sizes=small_nodes(),
    tasks=st.integers(1, 6),
    gpus=st.integers(1, 3),
    limit=st.one_of(st.none(), st.integers(1, 3)),
    alone=st.booleans(),
)
def test_the_smallest_release_is_the_smallest_there_is(
    sizes: list[tuple[int, int]],
    tasks: int,
    gpus: int,
    limit: int | None,
    alone: bool,
) -> None:
    assume(not fits([now for _, now in sizes], tasks, gpus, limit, alone))
    nodes = [node(f"n{i}", "/r", total, now) for i, (total, now) in enumerate(sizes)]
    idle, free = CapacityIndex(total_capacity(nodes, ())), CapacityIndex(free_capacity(nodes, ()))
    shape: Shape = (Group("worker", tasks, Resources(0, 0, gpus), 1),)
    rules = PackRules(node_limit=limit, one_task_per_node=alone)
    found = minimal_release(idle, free, shape, rules)
    least = fewest_gpus_to_free(sizes, tasks, gpus, limit, alone)
    if found is None:
        assert least is None
        return
    assert sum(more.gpus for more in found.values()) == least
    after = [
        now + found.get(n.node_id, Resources()).gpus
        for n, (_, now) in zip(nodes, sizes, strict=True)
    ]
    assert fits(after, tasks, gpus, limit, alone)
    for name, more in found.items():
        left = idle.by_node[name].gpus - free.by_node[name].gpus
        assert more.gpus <= left, "no more than is in use there"


@settings(max_examples=200, deadline=None)
@given(snapshot=snapshots(), spec=jobs().map(fix_flexible))
def test_every_change_that_is_told_makes_it_fit(snapshot: ClusterSnapshot, spec: object) -> None:
    from yarnam.core.model.job_spec import JobSpec

    assert isinstance(spec, JobSpec)
    found = plan(snapshot, spec)
    if not isinstance(found, NoFit) or found.is_never:
        return
    for change in found.changes:
        if change.kind is ChangeKind.FREE:
            freed = dict(change.nodes)
            nodes = tuple(
                replace(n, used=n.used.minus(freed.get(n.node_id, Resources())))
                for n in snapshot.nodes
            )
            assert isinstance(plan(replace(snapshot, nodes=nodes), spec), PlacementPlan)


RELAXED = {
    "relax placement.locality.rack": {"rack": TopologyConstraint.PREFERRED},
    "relax placement.locality.node": {"node": TopologyConstraint.PREFERRED},
    "placement.strategy: pack": {"strategy": PackOrSpread.PACK},
    "without placement.exclude_nodes": {"exclude_nodes": ()},
}


@settings(max_examples=200, deadline=None)
@given(snapshot=snapshots(), spec=jobs().map(fix_flexible))
def test_every_wish_that_may_be_given_up_makes_it_fit(
    snapshot: ClusterSnapshot, spec: object
) -> None:
    from yarnam.core.model.job_spec import JobSpec

    assert isinstance(spec, JobSpec)
    found = plan(snapshot, spec)
    if not isinstance(found, NoFit) or found.is_never:
        return
    for change in found.changes:
        if change.kind is not ChangeKind.RELAX:
            continue
        wish = replace(spec.placement, **RELAXED[change.text.removesuffix(": fits now")])  # type: ignore[arg-type]
        assert isinstance(plan(snapshot, replace(spec, placement=wish)), PlacementPlan), change


@settings(max_examples=150, deadline=None)
@given(snapshot=snapshots(), tasks=st.integers(2, 8), gpus=st.integers(1, 8))
def test_the_smaller_gang_is_the_largest_that_fits(
    snapshot: ClusterSnapshot, tasks: int, gpus: int
) -> None:
    spec = job(tasks, gpus)
    ladder = ladder_for_submit(snapshot, spec)
    if isinstance(ladder, NoFit):
        return
    found = plan(snapshot, spec, targets=declared_targets(ladder))
    if not isinstance(found, NoFit):
        return
    told = [c.text for c in found.changes if c.kind is ChangeKind.SMALLER]
    fitting = [
        count
        for count in range(1, tasks)
        if isinstance(plan(snapshot, job(count, gpus)), PlacementPlan)
    ]
    if not fitting:
        assert not told
        return
    plural = "s" if max(fitting) > 1 else ""
    assert told[0].startswith(f"ask for {max(fitting)} task{plural} (")


def test_a_full_queue_says_how_much_is_missing() -> None:
    snapshot = ClusterSnapshot(
        0.0,
        (node("n0", "/r", 8),),
        QueueView("root.ml", headroom=Resources(99999, 99, 3), maximum=Resources(99999, 99, 8)),
    )
    spec = job(4, 1)
    ladder = ladder_for_submit(snapshot, spec)
    assert isinstance(ladder, PlacementPlan)
    found = plan(snapshot, spec, targets=declared_targets(ladder))
    assert isinstance(found, NoFit)
    assert [change.kind for change in found.changes] == [ChangeKind.QUEUE]
    assert "needs 1 GPU more" in found.changes[0].text
