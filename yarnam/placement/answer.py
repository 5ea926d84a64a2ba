"""The planner's answer to the gang machine: one function for the ApplicationMaster and whoever else
steps a gang (a simulator)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Union

from yarnam.model.actions import RequestPlan
from yarnam.model.ids import NodeId
from yarnam.model.job import JobSpec
from yarnam.model.locality import NO_DATA, BytesByNode
from yarnam.model.placement import NoFit, PlacementPlan, Target
from yarnam.model.snapshot import ClusterSnapshot
from yarnam.placement.beside import plan_beside
from yarnam.placement.elastic import at_largest
from yarnam.placement.planner import plan

Answer = Union[PlacementPlan, NoFit]


def answer(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    targets: tuple[Target, ...],
    request: RequestPlan,
    *,
    besides: Iterable[NodeId] = (),
    blind: bool | None = None,
    data: BytesByNode = NO_DATA,
    seed: str = "",
) -> Answer:
    """The rungs that fit now, for the whole gang or, with a supplement, for what it lacks.

    Suspected nodes are used last: a plan without them is taken where it is as good. A plan for the
    whole gang may not get looser for it, since a suspicion is weak and the gang stays where it
    lands; a lost task is replaced elsewhere wherever there is room, since the gang stands idle and
    a second loss on the same node would cost it another restart.

    ``besides``: more nodes to leave out. ``blind``: take everything usable as free; None: as the
    job says. ``data`` and ``seed`` as for ``plan``.
    """
    is_blind = not job.gang.look_before_ask if blind is None else blind

    def plan_without(nodes: Iterable[NodeId]) -> Answer:
        barred = (*nodes, *besides)
        if request.supplement is not None:
            return plan_beside(snapshot, job, request.supplement, barred, targets=targets)

        def at(one: JobSpec) -> Answer:
            return plan(
                snapshot,
                one,
                barred,
                targets=targets,
                first_rung=request.first_rung,
                blind=is_blind,
                data=data,
                seed=seed,
            )

        return at_largest(job, at, request.most_tasks, request.least_tasks)

    usual = plan_without(request.excluded)
    if isinstance(usual, NoFit) or not request.suspects:
        return usual
    careful = plan_without((*request.excluded, *request.suspects))
    if isinstance(careful, NoFit):
        return usual
    first, second = careful.rungs[0], usual.rungs[0]
    is_as_good = first.number <= second.number and first.gpus >= second.gpus
    return careful if is_as_good or request.supplement is not None else usual
