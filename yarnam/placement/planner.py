"""``plan``: where a whole gang can go now, from tightest to loosest, or why nowhere.

Two uses. At submit, ``ladder_for_submit`` says whether the gang could ever fit and which targets
(Skein services) to declare; they cannot be changed afterwards. From then on the ApplicationMaster
calls ``plan`` with those targets and a fresh snapshot, and gets the rungs that fit now.

The *number* of a rung is its step in the ladder: all places of one shape and one level share it
(two racks are equally tight). Steps go NODE, RACK, ANY, and once more for smaller containers where
the job left its shape open. ``first_rung`` leaves out the tighter steps; what a looser step can
hold a tighter one could too, so a job that has relaxed loses nothing but closeness.

Both are functions of one size of the job: for a range of sizes call them with
``job.at_size(tasks)`` for each (``elastic`` does), with the same targets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from yarnam.model.ids import NodeId
from yarnam.model.job import JobSpec
from yarnam.model.locality import NO_DATA, BytesByNode
from yarnam.model.placement import NoFit, PlacementPlan, PlanPolicy, Target
from yarnam.model.snapshot import ClusterSnapshot, Node
from yarnam.placement.judging import Judged, judge_all, rungs_of
from yarnam.placement.ladder import build_ladder
from yarnam.placement.models import Choice, choices_of
from yarnam.placement.places import candidates_from
from yarnam.placement.refusals import exceeds_container, never, no_room_for_am, not_now, queue_full
from yarnam.placement.seats import parted, seat_targets, seated
from yarnam.placement.shapes import shape_of, shapes_of
from yarnam.placement.view import View, view_of

DEFAULT_POLICY = PlanPolicy()


def plan(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    excluded: Iterable[NodeId] = (),
    policy: PlanPolicy = DEFAULT_POLICY,
    *,
    targets: tuple[Target, ...] | None = None,
    first_rung: int = 0,
    blind: bool = False,
    data: BytesByNode = NO_DATA,
    seed: str = "",
    explain: bool = True,
) -> PlacementPlan | NoFit:
    """The rungs of the ladder that can hold the whole gang now, tightest first.

    ``targets`` are those declared at submit; None: the job is not submitted yet, so its
    ApplicationMaster needs room as well, and a gang that could never fit is refused as such.
    After submit nothing is refused for ever but a container larger than YARN grants: nodes that
    are lost may come back. ``excluded`` nodes come on top of the job's own. ``blind`` takes
    everything usable as free: YARN is asked without looking.

    ``data`` says where the job's inputs lie: among placements as good otherwise the one with the
    most of their bytes comes first. ``seed`` (the job's key or application id) orders nodes and
    racks that are as good otherwise, so that jobs which look at the same time do not all choose
    the same; without one names decide. ``explain``: work out the smallest changes that would make
    it fit; who only wants to know whether it fits saves that time.
    """
    view = view_of(
        snapshot, job, excluded, blind=blind, has_am=targets is not None, data=data, seed=seed
    )
    if targets is None:
        drawn = _drawn(view, policy)
        if isinstance(drawn, NoFit):
            return drawn
        judged, declared = drawn
    else:
        refusal = exceeds_container(snapshot, shapes_of(job, snapshot.steps)[-1])
        if refusal is not None:
            return refusal
        declared = targets
        judged = judge_all(view, candidates_from(job, parted(targets)[1]))
    if not blind:
        shape = shape_of(job, snapshot.steps)
        refusal = queue_full(snapshot.queue, shape, view.am) or no_room_for_am(view)
        if refusal is not None:
            return refusal
    last = max((one.number for one in judged), default=0)
    able = [one for one in judged if one.now is not None]
    # Smaller containers, each on a node of its own, may need more nodes than there are: then a
    # tighter step is better than none.
    fitting = [one for one in able if one.number >= min(first_rung, last)] or able
    if not fitting:
        return not_now(view, judged, explain=explain)
    rungs = rungs_of(view, fitting, judged)
    seats, _ = parted(declared)
    if seats:
        rungs = tuple(replace(rung, asks=seated(rung.asks, seats)) for rung in rungs)
    return PlacementPlan(rungs, snapshot.taken_at_s)


def ladder_for_submit(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    policy: PlanPolicy = DEFAULT_POLICY,
    *,
    excluded: Iterable[NodeId] = (),
    data: BytesByNode = NO_DATA,
    seed: str = "",
) -> PlacementPlan | NoFit:
    """The whole ladder to declare, whether it fits now or not; NoFit (never) when no state of
    this cluster and queue could hold the gang beside its ApplicationMaster."""
    view = view_of(snapshot, job, excluded, blind=False, has_am=False, data=data, seed=seed)
    drawn = _drawn(view, policy)
    if isinstance(drawn, NoFit):
        return drawn
    judged, targets = drawn
    seats = tuple(parted(targets)[0].values())
    return PlacementPlan(rungs_of(view, judged, judged), snapshot.taken_at_s, seats)


def declared_targets(ladder: PlacementPlan) -> tuple[Target, ...]:
    """The distinct targets of a ladder, in its order: one Skein service each."""
    targets = [ask.target for rung in ladder.rungs for ask in rung.asks]
    return tuple(dict.fromkeys([*targets, *ladder.seats]))


def _drawn(view: View, policy: PlanPolicy) -> tuple[Sequence[Judged], tuple[Target, ...]] | NoFit:
    """The ladder to declare: its candidates, judged, and its targets with the seats."""
    cuts = shapes_of(view.job, view.snapshot.steps)
    nodes: Sequence[Node] = view.snapshot.nodes
    if view.barred:
        nodes = [node for node in nodes if node.node_id not in view.barred]
    # Without any node to use, that is what is said.
    nowhere: list[Choice] = [{}]
    choices = choices_of(view.job, nodes) if view.bare.rooms else nowhere
    if isinstance(choices, NoFit):
        return choices
    refusal = never(view, cuts, choices)
    if refusal is not None:
        return refusal
    # A short list of nodes may hold each role and yet not all of them, with all wishes: then the
    # places stay as they are, and grants are judged one by one.
    for is_bounded in (True, False):
        targets = build_ladder(view, policy, cuts, choices, is_bounded=is_bounded)
        candidates = candidates_from(view.job, targets)
        judged = [one for one in judge_all(view, candidates) if one.is_able]
        if judged:
            break
    return judged, (*targets, *seat_targets(view, judged, policy.max_seats))
