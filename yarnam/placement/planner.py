"""``plan``: where a whole gang can go now, from tightest to loosest, or why nowhere.

Two uses. At submit, ``ladder_for_submit`` says whether the gang could ever fit and which targets
(Skein services) to declare; they cannot be changed afterwards. From then on the ApplicationMaster
calls ``plan`` with those targets and a fresh snapshot, and gets the rungs that fit now.

The *number* of a rung is its step in the ladder: all places of one shape and one level share it
(two racks are equally tight). Steps go NODE, RACK, ANY, and once more for smaller containers where
the job left its shape open. ``first_rung`` leaves out the tighter steps; what a looser step can
hold a tighter one could too, so a job that has relaxed loses nothing but closeness.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from yarnam.model.ids import NodeId
from yarnam.model.job import JobSpec
from yarnam.model.placement import NoFit, PlacementPlan, PlanPolicy, Rung, Target
from yarnam.model.resources import Resources
from yarnam.model.snapshot import ClusterSnapshot
from yarnam.placement.judging import Judged, fewest_nodes, judge, order, rung_of, score
from yarnam.placement.ladder import build_ladder
from yarnam.placement.places import Candidate, candidates_from
from yarnam.placement.refusals import Shortage, exceeds_container, never, not_now, queue_full
from yarnam.placement.rooms import Room, free_rooms, total_rooms, with_am_placed
from yarnam.placement.seats import needs_seats, parted, seat_targets, seated
from yarnam.placement.shapes import biggest, shape_of, shapes_of

DEFAULT_POLICY = PlanPolicy()


@dataclass(frozen=True, slots=True)
class View:
    """A snapshot through the eyes of one job: the nodes it may use, with all and with free room."""

    total: Sequence[Room]
    free: Sequence[Room]
    am: Resources
    """Still to be placed for the ApplicationMaster: nothing once it runs."""


def plan(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    excluded: Iterable[NodeId] = (),
    policy: PlanPolicy = DEFAULT_POLICY,
    *,
    targets: tuple[Target, ...] | None = None,
    first_rung: int = 0,
    blind: bool = False,
) -> PlacementPlan | NoFit:
    """The rungs of the ladder that can hold the whole gang now, tightest first.

    ``targets`` are those declared at submit; None: the job is not submitted yet, so its
    ApplicationMaster needs room as well, and a gang that could never fit is refused as such.
    After submit nothing is refused for ever but a container larger than YARN grants: nodes that
    are lost may come back. ``excluded`` nodes come on top of the job's own. ``blind`` takes
    everything usable as free: YARN is asked without looking.
    """
    barred = frozenset(excluded) | {NodeId(node) for node in job.placement.exclude_nodes}
    if targets is None:
        ladder = ladder_for_submit(snapshot, job, policy, excluded=barred)
        if isinstance(ladder, NoFit):
            return ladder
        view = _view(snapshot, job, barred, blind=blind, has_am=False)
        targets = declared_targets(ladder)
    else:
        view = _view(snapshot, job, barred, blind=blind, has_am=True)
        refusal = exceeds_container(snapshot, shapes_of(job)[-1])
        if refusal is not None:
            return refusal
    if not blind:
        refusal = queue_full(snapshot.queue, shape_of(job), view.am)
        if refusal is not None:
            return refusal
    seats, shared = parted(job, targets)
    judged = _judge_all(job, candidates_from(job, shared), view)
    last = max((one.number for one in judged), default=0)
    wanted = [one for one in judged if one.number >= min(first_rung, last)]
    fitting = [one for one in wanted if one.now is not None]
    if not fitting:
        return not_now(Shortage(snapshot, job, view.total, view.free, tuple(judged)))
    rungs = _rungs(job, fitting, judged)
    if seats:
        rungs = tuple(replace(rung, asks=seated(rung.asks, seats)) for rung in rungs)
    return PlacementPlan(rungs, snapshot.taken_at_s)


def ladder_for_submit(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    policy: PlanPolicy = DEFAULT_POLICY,
    *,
    excluded: Iterable[NodeId] = (),
) -> PlacementPlan | NoFit:
    """The whole ladder to declare, whether it fits now or not; NoFit (never) when no state of
    this cluster and queue could hold the gang beside its ApplicationMaster."""
    barred = frozenset(excluded) | {NodeId(node) for node in job.placement.exclude_nodes}
    shapes = shapes_of(job)
    refusal = never(snapshot, job, barred, shapes)
    if refusal is not None:
        return refusal
    view = _view(snapshot, job, barred, blind=False, has_am=False)
    candidates = build_ladder(job, policy, shapes, view.total, view.free, barred, snapshot.nodes)
    judged = [one for one in _judge_all(job, candidates, view) if one.could is not None]
    return PlacementPlan(
        _rungs(job, judged, judged), snapshot.taken_at_s, _seats(job, policy, judged, view)
    )


def _seats(
    job: JobSpec, policy: PlanPolicy, judged: Sequence[Judged], view: View
) -> tuple[Target, ...]:
    """On the nodes of the best placements first, then on those with the most free GPUs."""
    if not needs_seats(job):
        return ()
    shape = judged[0].candidate.shape
    planned = [
        node
        for one in judged
        if one.candidate.shape == shape and one.packing
        for node in one.packing.nodes
    ]
    free = sorted(view.free, key=lambda room: (-room.gpus, room.node))
    others = [room.node for room in (*free, *sorted(view.total, key=lambda room: room.node))]
    want = min(group.resources.gpus for group in shape)
    able = {room.node for room in view.total if room.gpus >= want}
    return seat_targets(shape, [*planned, *(n for n in others if n in able)], policy.max_seats)


def declared_targets(ladder: PlacementPlan) -> tuple[Target, ...]:
    """The distinct targets of a ladder, in its order: one Skein service each."""
    targets = [ask.target for rung in ladder.rungs for ask in rung.asks]
    return tuple(dict.fromkeys([*targets, *ladder.seats]))


def _view(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    barred: frozenset[NodeId],
    *,
    blind: bool,
    has_am: bool,
) -> View:
    total = total_rooms(snapshot.nodes, barred)
    free = total if blind else free_rooms(snapshot.nodes, barred)
    if has_am:
        return View(total, free, Resources())
    am, task = job.am.resources, biggest(shapes_of(job)[-1]).resources
    return View(
        with_am_placed(total, am, task) or total,
        with_am_placed(free, am, task) or free,
        am,
    )


def _judge_all(job: JobSpec, candidates: Iterable[Candidate], view: View) -> list[Judged]:
    """All candidates in the order of the ladder, numbered by step."""
    shapes = {candidate.shape for candidate in candidates}
    fewest = {shape: fewest_nodes(shape, job.placement, view.total) for shape in shapes}
    judged = [
        judge(job, candidate, fewest[candidate.shape], view.total, view.free)
        for candidate in candidates
    ]
    judged.sort(key=order)
    steps = list(dict.fromkeys(order(one)[:2] for one in judged))
    return [replace(one, number=steps.index(order(one)[:2])) for one in judged]


def _rungs(job: JobSpec, chosen: Sequence[Judged], judged: Sequence[Judged]) -> tuple[Rung, ...]:
    largest = max(one.gpus_per_task for one in judged)
    return tuple(rung_of(job, one, score(one, largest)) for one in chosen)
