"""Which containers need not wait for the AM's own look at the cluster."""

from __future__ import annotations

from dataclasses import replace

from yarnam.model.actions import RequestPlan
from yarnam.model.ids import NodeId
from yarnam.model.job import JobSpec
from yarnam.model.locality import NO_DATA, BytesByNode
from yarnam.model.placement import EarlyAsk, NoFit, PlacementPlan, Rung, Target
from yarnam.model.snapshot import ClusterSnapshot
from yarnam.placement.answer import answer

ROOM_TO_SPARE = 2
"""So many such gangs must find room: then an ask that is a little early, or made beside another
job's, takes nothing from anybody."""


def has_room_to_spare(snapshot: ClusterSnapshot, rung: Rung) -> bool:
    """Whether a second gang like this one would find GPUs as well: then nobody need be waited
    for."""
    free = sum(node.free.gpus for node in snapshot.nodes if node.is_usable)
    return free >= ROOM_TO_SPARE * rung.gpus


def early_asks(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    targets: tuple[Target, ...],
    *,
    data: BytesByNode = NO_DATA,
    seed: str = "",
) -> tuple[EarlyAsk, ...]:
    """The containers that the AM will ask for in its first attempt if the cluster stays as it is;
    none unless there is room to spare. ``data`` and ``seed`` as for ``plan``, and as the AM has
    them: then it comes to the same plan."""
    if not job.gang.look_before_ask or job.elastic_role is not None:
        return ()
    request = RequestPlan(
        attempt=1,
        first_rung=0,
        excluded=tuple(NodeId(node) for node in job.placement.exclude_nodes),
    )
    plan = answer(snapshot, job, targets, request, data=data, seed=seed)
    if isinstance(plan, NoFit):
        return ()
    rung = plan.rungs[0]
    if not rung.gpus or not has_room_to_spare(snapshot, rung):
        return ()
    if any(len(ask.expected_nodes) != ask.count for ask in rung.asks):
        return ()
    return tuple(EarlyAsk(ask.target.service, ask.expected_nodes) for ask in rung.asks)


def with_early_first(plan: PlacementPlan, early: tuple[EarlyAsk, ...]) -> PlacementPlan:
    """The plan with the rung that takes exactly the early containers first, where no other is
    tighter. The AM's own container, which was not there at submit, may have changed the order of
    equals."""
    wanted = {ask.service: len(ask.nodes) for ask in early}
    first = plan.rungs[0]
    for rung in plan.rungs:
        is_as_good = rung.number == first.number and rung.gpus == first.gpus
        if is_as_good and {ask.target.service: ask.count for ask in rung.asks} == wanted:
            others = tuple(other for other in plan.rungs if other is not rung)
            return replace(plan, rungs=(rung, *others))
    return plan
