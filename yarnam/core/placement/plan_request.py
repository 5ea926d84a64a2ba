"""Plans what the gang machine requests: one function for the ApplicationMaster and the
simulator."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from yarnam.core.model.actions import RequestPlan
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.plans import NoFit, Reason, Rung, Target
from yarnam.core.model.snapshot import (
    NO_DATA,
    BytesByNode,
    ClusterSnapshot,
    cordoned_nodes,
    cordons_text,
    without_cordons,
)
from yarnam.core.placement.candidates import any_fits
from yarnam.core.placement.domains import candidates_from
from yarnam.core.placement.elastic_sizes import plan_largest
from yarnam.core.placement.further_targets import targets_at
from yarnam.core.placement.job_view import view_of
from yarnam.core.placement.packing.index_memory import IndexMemory
from yarnam.core.placement.planner import PlanOutcome, plan
from yarnam.core.placement.supplement import plan_supplement
from yarnam.core.placement.targets.pinned_targets import split_pinned


def needs_admission(job: JobSpec, request: RequestPlan) -> bool:
    """Whether the gang waits for its turn. A job that does not look before it asks does not wait.
    Lost tasks are replaced immediately, since the rest of the gang idles meanwhile."""
    return request.supplement is None and job.gang.look_before_ask


def plan_request(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    targets: tuple[Target, ...],
    request: RequestPlan,
    *,
    also_excluded: Iterable[NodeId] = (),
    blind: bool | None = None,
    data: BytesByNode = NO_DATA,
    seed: str = "",
    memory: IndexMemory | None = None,
) -> PlanOutcome:
    """The rungs that fit now, for the whole gang, for its pre-run or, with a supplement, for its
    missing tasks.

    Suspected nodes are used last: a plan without them wins if it is equally good. Where it needs
    some of them, those that the job has had trouble with come after those that are only doubtful. A
    plan for the whole gang must not get looser for that, since a suspicion is weak and the gang
    stays where it lands. A lost task is replaced on another node wherever one has capacity, since
    the gang waits meanwhile and a second loss on the same node would cost it another restart.

    ``also_excluded``: further nodes not to use. ``blind``: count all usable capacity as free;
    ``None`` for the job's setting. ``data``, ``seed`` and ``memory`` as for ``plan``.
    """
    if snapshot.stopped and request.supplement is None:
        return NoFit(Reason.QUEUE_STOPPED, is_never=False, message=snapshot.stopped)

    def on(seen: ClusterSnapshot) -> PlanOutcome:
        return _planned(
            seen, job, targets, request, also_excluded, blind=blind, data=data, seed=seed,
            memory=memory,
        )  # fmt: skip

    outcome = on(snapshot)
    if not isinstance(outcome, NoFit) or not cordoned_nodes(snapshot.nodes):
        return outcome
    opened = on(replace(snapshot, nodes=without_cordons(snapshot.nodes)))
    if isinstance(opened, NoFit):
        return replace(outcome, is_never=opened.is_never)
    text = f"it would fit, were it not for {cordons_text(snapshot.nodes)}; {outcome.message}"
    hint = "An administrator opens them again: yarnam nodes uncordon NODE"
    return NoFit(Reason.CORDONED_NODES, is_never=False, message=text, hint=hint)


def _planned(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    targets: tuple[Target, ...],
    request: RequestPlan,
    also_excluded: Iterable[NodeId],
    *,
    blind: bool | None,
    data: BytesByNode,
    seed: str,
    memory: IndexMemory | None,
) -> PlanOutcome:
    is_blind = not job.gang.look_before_ask if blind is None else blind
    level = request.memory_level
    job = job.as_pre_run() if request.is_pre_run else job.at_memory_level(level)
    of_level = targets_at(snapshot, job, targets, level)
    if isinstance(of_level, NoFit):
        return of_level

    def plan_without(nodes: Iterable[NodeId]) -> PlanOutcome:
        excluded = (*nodes, *also_excluded)
        if request.supplement is not None:
            return plan_supplement(snapshot, job, request.supplement, excluded, targets=of_level)

        def at(one: JobSpec) -> PlanOutcome:
            return plan(
                snapshot, one, excluded, targets=of_level, first_rung=request.first_rung,
                blind=is_blind, data=data, seed=seed, memory=memory,
            )  # fmt: skip

        return plan_largest(job, at, request.most_tasks, request.least_tasks)

    usual = plan_without(request.excluded)
    if isinstance(usual, NoFit):
        return usual
    last = dict.fromkeys(((*request.suspects, *request.doubtful), request.suspects))
    for nodes in filter(None, last):
        careful = plan_without((*request.excluded, *nodes))
        if isinstance(careful, NoFit):
            continue
        if request.supplement is not None or _is_as_good(careful.rungs[0], usual.rungs[0]):
            return careful
    return usual


def may_keep_clear(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    targets: tuple[Target, ...],
    request: RequestPlan,
    avoid: Collection[NodeId],
    memory: IndexMemory | None = None,
) -> bool:
    """False: ``plan_request`` without these nodes finds no rung that keeps clear of them. Quicker
    than the plan; True where that would not be so."""
    role = job.elastic_role
    has_choice = request.suspects or request.doubtful or request.supplement is not None
    if has_choice or (role is not None and role.min_tasks is not None):
        return True
    job = job.as_pre_run() if request.is_pre_run else job.at_memory_level(request.memory_level)
    of_level = targets_at(snapshot, job, targets, request.memory_level)
    if isinstance(of_level, NoFit) or not job.gang.look_before_ask:
        return True
    pinned, others = split_pinned(of_level)
    if pinned:
        return True
    nodes = frozenset(avoid)
    racks = {node.rack for node in snapshot.nodes if node.node_id in nodes}
    view = view_of(
        snapshot, job, (*request.excluded, *nodes), blind=False, has_am=True, data=NO_DATA,
        seed="", memory=memory,
    )  # fmt: skip
    return any_fits(
        view,
        candidates_from(job, others),
        lambda one: all(target.keeps_clear_of(nodes, racks) for target in one.targets),
    )


def _is_as_good(rung: Rung, other: Rung) -> bool:
    """Whether it is as tight, as large, and in containers as large: in smaller ones a gang would
    take parts of nodes that others need whole."""
    is_as_whole = rung.tasks * other.gpus <= other.tasks * rung.gpus
    return rung.number <= other.number and rung.gpus >= other.gpus and is_as_whole
