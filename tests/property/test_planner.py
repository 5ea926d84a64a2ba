"""The planner against brute force on small clusters, and what must hold on any."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.placement.clusters import job, node
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.job_spec import JobSpec, PackOrSpread, TopologyConstraint
from yarnam.core.model.plans import LocalityLevel, NoFit, PlacementPlan, PlanPolicy, Rung
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, Node, QueueView
from yarnam.core.placement import declared_targets, ladder_for_submit, plan
from yarnam.core.placement.gang_shape import Group, Shape
from yarnam.core.placement.packing.bin_packing import PackRules, pack
from yarnam.core.placement.packing.node_capacity import NodeCapacity

PREFERRED, REQUIRED = TopologyConstraint.PREFERRED, TopologyConstraint.REQUIRED


@st.composite
def snapshots(draw: st.DrawFn, most: int = 6) -> ClusterSnapshot:
    """Up to six nodes in up to three racks, partly used."""
    nodes: list[Node] = []
    for number in range(draw(st.integers(1, most))):
        total = draw(st.sampled_from((2, 4, 8)))
        free = draw(st.integers(0, total))
        rack = draw(st.sampled_from(("/a", "/b", "/c")))
        nodes.append(node(f"n{number}", rack, total, free))
    return ClusterSnapshot(0.0, tuple(nodes), QueueView("q"))


@st.composite
def jobs(draw: st.DrawFn) -> JobSpec:
    return job(
        draw(st.integers(1, 6)),
        draw(st.integers(1, 8)),
        flexible=draw(st.booleans()),
        ps=draw(st.sampled_from((0, 0, 0, 1, 2))),
        node=draw(st.sampled_from(TopologyConstraint)),
        rack=draw(st.sampled_from(TopologyConstraint)),
        strategy=draw(st.sampled_from((PackOrSpread.PACK, PackOrSpread.PACK, PackOrSpread.SPREAD))),
        exclude_nodes=draw(st.sampled_from(((), (), ("n0",)))),
    )


def fix_flexible(spec: JobSpec) -> JobSpec:
    """A job with several roles has a fixed shape."""
    return spec if len(spec.roles) == 1 else replace(spec, flexible_shape=False)


@settings(max_examples=300, deadline=None)
@given(snapshot=snapshots(), spec=jobs().map(fix_flexible))
def test_all_or_nothing_within_capacity_and_wishes(
    snapshot: ClusterSnapshot, spec: JobSpec
) -> None:
    ladder = ladder_for_submit(snapshot, spec)
    found = plan(snapshot, spec)
    if isinstance(ladder, NoFit):
        assert ladder.is_never
        assert isinstance(found, NoFit)
        return
    check_ladder(ladder, spec)
    if isinstance(found, NoFit):
        assert not found.is_never
        assert found.message
        return
    assert set(declared_targets(found)) <= set(declared_targets(ladder))
    for rung in found.rungs:
        check_rung(rung, snapshot, spec)


def check_ladder(ladder: PlacementPlan, spec: JobSpec) -> None:
    numbers = [rung.number for rung in ladder.rungs]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(max(numbers) + 1))
    names = [target.service for target in declared_targets(ladder)]
    assert len(names) == len(set(names))
    levels = {rung.level for rung in ladder.rungs}
    if spec.placement.node is REQUIRED:
        assert all(rung.node_limit is not None for rung in ladder.rungs)
    if spec.placement.rack is REQUIRED:
        assert LocalityLevel.ANY not in levels
        assert all(rung.same_rack for rung in ladder.rungs)
    if spec.placement.node is TopologyConstraint.UNCONSTRAINED:
        assert LocalityLevel.NODE not in levels


def check_rung(rung: Rung, snapshot: ClusterSnapshot, spec: JobSpec) -> None:
    assert 0 <= rung.score <= 1
    free = {n.node_id: n.free for n in snapshot.nodes}
    racks = {n.node_id: n.rack for n in snapshot.nodes}
    used: list[NodeId] = []
    for ask in rung.asks:
        assert len(ask.expected_nodes) == ask.count
        for node_id in ask.expected_nodes:
            assert ask.target.accepts(node_id, racks[node_id])
            assert ask.target.resources.fits_in(free[node_id])
            free[node_id] = free[node_id].minus(ask.target.resources)
            used.append(node_id)
    for role in spec.roles:
        asks = [ask for ask in rung.asks if ask.target.role == role.name]
        processes = sum(ask.count * ask.target.processes_per_task for ask in asks)
        assert processes == role.tasks * role.processes_per_task
        assert sum(a.count * a.target.resources.gpus for a in asks) == (
            role.tasks * role.resources.gpus
        )
    assert not set(used) & set(spec.placement.exclude_nodes)
    assert rung.node_limit is None or len(set(used)) <= rung.node_limit
    assert not rung.one_task_per_node or len(set(used)) == len(used)
    assert not rung.same_rack or len({racks[n] for n in used}) == 1
    if rung.level is LocalityLevel.RACK:
        assert len({racks[n] for n in used}) == 1


# ---- brute force --------------------------------------------------------------------------------


def fewest(counts: Sequence[int], tasks: int) -> int | None:
    """The smallest number of nodes whose tasks add up, by trying all sets."""
    for size in range(1, len(counts) + 1):
        if any(sum(some) >= tasks for some in itertools.combinations(counts, size)):
            return size
    return None


def best_level(snapshot: ClusterSnapshot, tasks: int, gpus: int) -> LocalityLevel | None:
    """The tightest level at which the gang fits now, by trying all sets of nodes."""

    def per_rack(free: bool) -> dict[RackId, list[int]]:
        found: dict[RackId, list[int]] = {}
        for n in snapshot.nodes:
            room = n.free if free else n.total
            found.setdefault(n.rack, []).append(Resources(1024 * gpus, gpus, gpus).count_in(room))
        return found

    total, now = per_rack(False), per_rack(True)
    in_rack = [k for counts in total.values() if (k := fewest(counts, tasks)) is not None]
    everywhere = list(itertools.chain.from_iterable(now.values()))
    if in_rack:
        limit = min(in_rack)
        found = [fewest(counts, tasks) for counts in now.values()]
        if any(k is not None and k <= limit for k in found):
            return LocalityLevel.NODE
        if any(k is not None for k in found):
            return LocalityLevel.RACK
    else:
        limit = fewest(list(itertools.chain.from_iterable(total.values())), tasks) or 0
        best = fewest(everywhere, tasks)
        if best is not None and best <= limit:
            return LocalityLevel.NODE
    return LocalityLevel.ANY if sum(everywhere) >= tasks else None


@settings(max_examples=400, deadline=None)
@given(snapshot=snapshots(), tasks=st.integers(1, 8), gpus=st.integers(1, 4))
def test_the_level_is_the_best_there_is(snapshot: ClusterSnapshot, tasks: int, gpus: int) -> None:
    spec = job(tasks, gpus)
    found = plan(snapshot, spec)
    level = found.rungs[0].level if isinstance(found, PlacementPlan) else None
    assert level == best_level(snapshot, tasks, gpus)


@settings(max_examples=300, deadline=None)
@given(
    snapshot=snapshots(),
    spec=jobs().map(fix_flexible),
    order=st.permutations(range(6)),
    names=st.permutations([f"m{i}" for i in range(6)]),
)
def test_relabelling_nodes_does_not_change_the_level(
    snapshot: ClusterSnapshot, spec: JobSpec, order: list[int], names: list[str]
) -> None:
    spec = replace(spec, placement=replace(spec.placement, exclude_nodes=()))
    nodes = [replace(n, node_id=NodeId(names[i])) for i, n in enumerate(snapshot.nodes)]
    shuffled = tuple(nodes[i] for i in order if i < len(nodes))
    one, two = plan(snapshot, spec), plan(replace(snapshot, nodes=shuffled), spec)
    assert outline(one) == outline(two)


def outline(found: PlacementPlan | NoFit, *, with_nodes: bool = True) -> object:
    if isinstance(found, NoFit):
        return found.reason, found.is_never
    best = found.rungs[0]
    return (
        best.level,
        best.number,
        best.tasks,
        len({n for a in best.asks for n in a.expected_nodes}) if with_nodes else None,
    )


@settings(max_examples=200, deadline=None)
@given(
    rooms=st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=5
    ),
    groups=st.lists(
        st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(1, 3), st.integers(0, 2)),
        min_size=1,
        max_size=3,
    ),
)
def test_packing_several_roles_takes_the_fewest_nodes(
    rooms: list[tuple[int, int, int]], groups: list[tuple[int, int, int, int]]
) -> None:
    where = [
        NodeCapacity(NodeId(f"n{i}"), RackId("/r"), *amounts) for i, amounts in enumerate(rooms)
    ]
    shape: Shape = tuple(
        Group(f"r{i}", count, Resources(*amounts), 1) for i, (count, *amounts) in enumerate(groups)
    )
    packing = pack(where, shape)
    assert (len(packing.nodes) if packing else None) == brute_force(where, shape)
    if packing is not None:
        limited = PackRules(node_limit=len(packing.nodes) - 1)
        assert pack(where, shape, limited) is None


def brute_force(rooms: Iterable[NodeCapacity], shape: Shape) -> int | None:
    """Every arrangement, the best number of nodes."""
    items = [group.resources for group in shape for _ in range(group.count)]
    rooms = list(rooms)
    best: int | None = None

    def place(index: int, left: list[Resources], used: frozenset[int]) -> None:
        nonlocal best
        if best is not None and len(used) >= best:
            return
        if index == len(items):
            best = len(used)
            return
        for number, room in enumerate(left):
            if items[index].fits_in(room):
                rest = [*left[:number], room.minus(items[index]), *left[number + 1 :]]
                place(index + 1, rest, used | {number})

    place(0, [Resources(r.memory_mib, r.vcores, r.gpus) for r in rooms], frozenset())
    return best


@settings(max_examples=150, deadline=None)
@given(snapshot=snapshots(), spec=jobs().map(fix_flexible), first=st.integers(0, 4))
def test_a_looser_start_never_finds_less(
    snapshot: ClusterSnapshot, spec: JobSpec, first: int
) -> None:
    """What fits at a tight step fits at every looser one: relaxing loses nothing but closeness."""
    idle = replace(snapshot, nodes=tuple(replace(n, used=Resources()) for n in snapshot.nodes))
    ladder = ladder_for_submit(idle, spec, PlanPolicy())
    if isinstance(ladder, NoFit):
        return
    targets = declared_targets(ladder)
    tight = plan(snapshot, spec, targets=targets)
    loose = plan(snapshot, spec, targets=targets, first_rung=first)
    assert isinstance(tight, NoFit) == isinstance(loose, NoFit)
