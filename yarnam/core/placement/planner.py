"""``plan``: where a whole gang fits now, from tightest to loosest, or why it does not fit.

Two uses. At submit, ``ladder_for_submit`` says whether the gang could ever fit and which targets
(Skein services) to declare; they cannot be changed afterwards. From then on the ApplicationMaster
calls ``plan`` with those targets and a fresh snapshot, and gets the rungs that fit now.

The *number* of a rung is its step in the ladder: all domains of one shape and one level share it
(two racks are equally tight). Steps go NODE, RACK, ANY, and once more for smaller containers where
the job left its shape open. ``first_rung`` leaves out the tighter steps; what fits at a looser step
could fit at a tighter one too, so a job that has relaxed gives up nothing but locality.

Both plan one size of the job: for a range of sizes call them with ``job.at_size(tasks)`` for each,
with the same targets (``elastic_sizes`` does).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Union

from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.plans import NoFit, PlacementPlan, PlanPolicy, Rung, Target
from yarnam.core.model.snapshot import NO_DATA, BytesByNode, ClusterSnapshot, Node
from yarnam.core.placement.candidates import RankedCandidate, rank_candidates, rungs_of
from yarnam.core.placement.domains import candidates_from
from yarnam.core.placement.explain.no_fit import (
    exceeds_container,
    exceeds_queue_headroom,
    never_fits,
    no_capacity_for_am,
    no_fit_now,
)
from yarnam.core.placement.gang_shape import shape_of, shapes_of
from yarnam.core.placement.gpu_model_choice import GpuModelChoice, gpu_model_choices
from yarnam.core.placement.job_view import JobView, view_of
from yarnam.core.placement.packing.index_memory import IndexMemory
from yarnam.core.placement.targets.pinned_targets import pin_asks, pinned_targets, split_pinned
from yarnam.core.placement.targets.target_ladder import targets_to_declare

DEFAULT_POLICY = PlanPolicy()
PlanOutcome = Union[PlacementPlan, NoFit]


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
    memory: IndexMemory | None = None,
) -> PlanOutcome:
    """The rungs of the ladder that can hold the whole gang now, tightest first.

    ``targets`` are those declared at submit; ``None`` if the job is not submitted yet, so its
    ApplicationMaster needs capacity as well, and a gang that could never fit is refused as such.
    After submit only a container larger than YARN grants is refused for ever: lost nodes may come
    back. ``excluded`` nodes come on top of the job's own. ``blind`` counts all usable capacity as
    free, so that YARN is asked whatever the snapshot shows.

    ``data`` has the places of the job's inputs: among equally good placements the one with the most
    of their bytes comes first. ``seed`` (the job's key or application id) orders equally good nodes
    and racks, so that jobs which plan at the same time do not all choose the same; without a seed
    names decide. ``explain``: compute the smallest changes after which the gang would fit; False
    saves that time. ``memory`` also saves time for a caller that plans on one cluster repeatedly.
    """
    view = view_of(
        snapshot, job, excluded, blind=blind, has_am=targets is not None, data=data, seed=seed,
        memory=memory,
    )  # fmt: skip
    if targets is None:
        drawn = _ladder_to_declare(view, policy)
        if isinstance(drawn, NoFit):
            return drawn
        ranked, targets = drawn
    else:
        refusal = exceeds_container(snapshot, shapes_of(job, snapshot.steps)[-1])
        if refusal is not None:
            return refusal
        ranked = rank_candidates(view, candidates_from(job, split_pinned(targets)[1]))
    if not blind:
        shape = shape_of(job, snapshot.steps)
        refusal = exceeds_queue_headroom(snapshot, shape, view.am, job.user) or no_capacity_for_am(
            view
        )
        if refusal is not None:
            return refusal
    fitting = _that_fit(ranked, first_rung)
    if not fitting:
        return no_fit_now(view, ranked, explain=explain)
    rungs = _pinned(rungs_of(view, fitting, ranked), targets)
    return PlacementPlan(rungs, snapshot.taken_at_s)


def _pinned(rungs: tuple[Rung, ...], targets: Iterable[Target]) -> tuple[Rung, ...]:
    """The rungs on the pinned targets among those declared, if there are any."""
    pinned, _ = split_pinned(targets)
    if not pinned:
        return rungs
    return tuple(replace(rung, asks=pin_asks(rung.asks, pinned)) for rung in rungs)


def _that_fit(ranked: Sequence[RankedCandidate], first_rung: int) -> list[RankedCandidate]:
    """The candidates that fit now, without those tighter than ``first_rung``. Smaller containers,
    each on a node of its own, may need more nodes than there are: then a tighter step is better
    than none."""
    last = max((one.number for one in ranked), default=0)
    able = [one for one in ranked if one.packing_now is not None]
    return [one for one in able if one.number >= min(first_rung, last)] or able


def ladder_for_submit(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    policy: PlanPolicy = DEFAULT_POLICY,
    *,
    excluded: Iterable[NodeId] = (),
    data: BytesByNode = NO_DATA,
    seed: str = "",
    memory: IndexMemory | None = None,
) -> PlanOutcome:
    """The whole ladder to declare, whether it fits now or not; NoFit (never) when no state of
    this cluster and queue could hold the gang beside its ApplicationMaster."""
    view = view_of(
        snapshot, job, excluded, blind=False, has_am=False, data=data, seed=seed, memory=memory
    )
    drawn = _ladder_to_declare(view, policy)
    if isinstance(drawn, NoFit):
        return drawn
    ranked, targets = drawn
    pinned = tuple(split_pinned(targets)[0].values())
    return PlacementPlan(rungs_of(view, ranked, ranked), snapshot.taken_at_s, pinned)


def declared_targets(ladder: PlacementPlan) -> tuple[Target, ...]:
    """The distinct targets of a ladder, in its order: one Skein service each."""
    targets = [ask.target for rung in ladder.rungs for ask in rung.asks]
    return tuple(dict.fromkeys([*targets, *ladder.extra_targets]))


def _ladder_to_declare(
    view: JobView, policy: PlanPolicy
) -> tuple[Sequence[RankedCandidate], tuple[Target, ...]] | NoFit:
    """The candidates of the ladder to declare, ranked, and its targets with the pinned ones."""
    shapes = shapes_of(view.job, view.snapshot.steps)
    nodes: Sequence[Node] = view.snapshot.nodes
    if view.excluded:
        nodes = [node for node in nodes if node.node_id not in view.excluded]
    # Without usable nodes, their lack is the reason to give, not a missing GPU model.
    any_model: list[GpuModelChoice] = [{}]
    choices = gpu_model_choices(view.job, nodes) if view.idle.capacities else any_model
    if isinstance(choices, NoFit):
        return choices
    refusal = never_fits(view, shapes, choices)
    if refusal is not None:
        return refusal
    # A short list of nodes may hold each role and yet not all of them under all constraints: then
    # the domains stay as they are, and the AM checks grants one by one.
    for is_bounded in (True, False):
        targets = targets_to_declare(view, policy, shapes, choices, is_bounded=is_bounded)
        candidates = candidates_from(view.job, targets)
        ranked = [one for one in rank_candidates(view, candidates) if one.is_able]
        if ranked:
            break
    return ranked, (*targets, *pinned_targets(view, ranked, policy.max_pinned_targets))
