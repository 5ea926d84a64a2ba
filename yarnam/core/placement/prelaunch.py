"""Which containers can be asked for before the Python AM has a snapshot of its own."""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.model.actions import RequestPlan
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.plans import NoFit, PlacementPlan, PrelaunchedService, Rung, Target
from yarnam.core.model.snapshot import NO_DATA, BytesByNode, ClusterSnapshot
from yarnam.core.placement.plan_request import plan_request

SPARE_GANGS = 2
"""Free GPUs for this many such gangs are enough: then a request that comes early, or at the same
time as another job's, takes nothing from other jobs."""


def has_spare_capacity(snapshot: ClusterSnapshot, rung: Rung) -> bool:
    """Whether a second gang like this one would find GPUs too: then it need not wait for others."""
    free = sum(node.free.gpus for node in snapshot.nodes if node.is_usable)
    return free >= SPARE_GANGS * rung.gpus


def prelaunch_asks(
    snapshot: ClusterSnapshot,
    job: JobSpec,
    targets: tuple[Target, ...],
    *,
    data: BytesByNode = NO_DATA,
    seed: str = "",
) -> tuple[PrelaunchedService, ...]:
    """The containers that the AM will ask for in its first attempt if the cluster stays as it is;
    none unless there is spare capacity, or if the job waits for others. ``data`` and ``seed`` as
    for ``plan``; with the AM's own values the AM makes the same plan."""
    if not job.gang.look_before_ask or job.elastic_role is not None or job.depends_on:
        return ()
    request = RequestPlan(
        attempt=1,
        first_rung=0,
        excluded=tuple(NodeId(node) for node in job.placement.exclude_nodes),
    )
    plan = plan_request(snapshot, job, targets, request, data=data, seed=seed)
    if isinstance(plan, NoFit):
        return ()
    rung = plan.rungs[0]
    if not rung.gpus or not has_spare_capacity(snapshot, rung):
        return ()
    if any(len(ask.expected_nodes) != ask.count for ask in rung.asks):
        return ()
    return tuple(PrelaunchedService(ask.target.service, ask.expected_nodes) for ask in rung.asks)


def with_prelaunched_first(
    plan: PlacementPlan, prelaunched: tuple[PrelaunchedService, ...]
) -> PlacementPlan:
    """The plan with the rung first that uses exactly the early containers, if no other is tighter.
    The AM's own container, which did not exist at submit, may have changed the order of equals."""
    wanted = {ask.service: len(ask.nodes) for ask in prelaunched}
    first = plan.rungs[0]
    for rung in plan.rungs:
        is_as_good = rung.number == first.number and rung.gpus == first.gpus
        if is_as_good and {ask.target.service: ask.count for ask in rung.asks} == wanted:
            others = tuple(other for other in plan.rungs if other is not rung)
            return replace(plan, rungs=(rung, *others))
    return plan
