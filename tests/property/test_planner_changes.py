"""The smallest change that would make a gang fit, against brute force on small clusters."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.property.test_planner import fix_flexible, jobs, snapshots
from tests.unit.placement.clusters import job, node
from yarnam.model.job import PackOrSpread, TopologyWish
from yarnam.model.placement import ChangeKind, NoFit, PlacementPlan
from yarnam.model.resources import Resources
from yarnam.model.snapshot import ClusterSnapshot, Node, QueueView
from yarnam.placement import declared_targets, ladder_for_submit, plan
from yarnam.placement.freeing import least_to_free, price_of, with_freed
from yarnam.placement.ground import Ground
from yarnam.placement.rooms import free_rooms, total_rooms
from yarnam.placement.search import PackRules
from yarnam.placement.shapes import Group, Shape


@st.composite
def grounds(draw: st.DrawFn) -> tuple[Ground, Ground]:
    """Up to five nodes of up to four GPUs, idle and as they are now."""
    nodes: list[Node] = []
    for number in range(draw(st.integers(1, 5))):
        total = draw(st.integers(1, 4))
        nodes.append(node(f"n{number}", "/r", total, draw(st.integers(0, total))))
    return Ground(total_rooms(nodes, ())), Ground(free_rooms(nodes, ()))


def ways_to_free(idle: Ground, free: Ground) -> Iterator[dict[str, Resources]]:
    """Every way to make GPUs free, each with its MiB and vcores."""
    rooms = [(idle.by_node[room.node], room) for room in free.rooms]
    choices = [range(total.gpus - now.gpus + 1) for total, now in rooms]
    for counts in itertools.product(*choices):
        yield {
            now.node: Resources(min(total.memory_mib - now.memory_mib, 1024 * gpus), gpus, gpus)
            for (total, now), gpus in zip(rooms, counts, strict=True)
            if gpus
        }


@settings(max_examples=250, deadline=None)
@given(
    sides=grounds(),
    tasks=st.integers(1, 6),
    gpus=st.integers(1, 3),
    limit=st.one_of(st.none(), st.integers(1, 3)),
    alone=st.booleans(),
)
def test_the_least_to_free_is_the_least_there_is(
    sides: tuple[Ground, Ground], tasks: int, gpus: int, limit: int | None, alone: bool
) -> None:
    idle, free = sides
    shape: Shape = (Group("worker", tasks, Resources(0, 0, gpus), 1),)
    rules = PackRules(node_limit=limit, one_task_per_node=alone)
    assume(free.pack(shape, rules) is None)
    found = least_to_free(idle, free, shape, rules)
    prices = [
        sum(more.gpus for more in freed.values())
        for freed in ways_to_free(idle, free)
        if with_freed(free, freed).pack(shape, rules) is not None  # type: ignore[arg-type]
    ]
    if found is None:
        assert not prices
        return
    assert price_of(found)[0] == min(prices)
    for name, more in found.items():
        left = idle.by_node[name].gpus - free.by_node[name].gpus
        assert more.gpus <= left, "no more than is in use there"


@settings(max_examples=200, deadline=None)
@given(snapshot=snapshots(), spec=jobs().map(fix_flexible))
def test_every_change_that_is_told_makes_it_fit(snapshot: ClusterSnapshot, spec: object) -> None:
    from yarnam.model.job import JobSpec

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
    "relax placement.locality.rack": {"rack": TopologyWish.PREFERRED},
    "relax placement.locality.node": {"node": TopologyWish.PREFERRED},
    "placement.strategy: pack": {"strategy": PackOrSpread.PACK},
    "without placement.exclude_nodes": {"exclude_nodes": ()},
}


@settings(max_examples=200, deadline=None)
@given(snapshot=snapshots(), spec=jobs().map(fix_flexible))
def test_every_wish_that_may_be_given_up_makes_it_fit(
    snapshot: ClusterSnapshot, spec: object
) -> None:
    from yarnam.model.job import JobSpec

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
