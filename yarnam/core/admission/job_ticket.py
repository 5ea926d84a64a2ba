"""Build a job's ticket: its demands, and the places that can satisfy them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from yarnam.core.model.gpu_names import wanted_model
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.plans import Target
from yarnam.core.model.tickets import Demand, Ticket


def job_ticket(
    job: JobSpec, targets: Sequence[Target], application: str, number: int, taken_at_s: float
) -> Ticket:
    """The ticket of a job that waits for its whole gang, with nothing on its way."""
    return Ticket(
        number=number,
        job=application,
        name=job.name,
        queue=job.queue,
        demands=_demands(job, targets),
        taken_at_s=taken_at_s,
        duration_s=job.duration_s,
        gpu_model=wanted_model(job),
        included=tuple(NodeId(node) for node in job.placement.include_nodes),
        excluded=tuple(NodeId(node) for node in job.placement.exclude_nodes),
        node_labels=job.node_labels,
        priority=job.gang.priority,
        user=job.user,
    )


def asked_demands(targets: Iterable[Target]) -> tuple[Demand, ...]:
    """Containers that are asked for, one of each target."""
    return tuple(
        Demand(target.resources, count, target.nodes, tuple(map(RackId, target.racks)))
        for target, count in Counter(targets).items()
    )


def _demands(job: JobSpec, targets: Sequence[Target]) -> tuple[Demand, ...]:
    """In the smallest containers that it may be cut into: those fit best."""
    demands: list[Demand] = []
    for role in job.roles:
        processes = (role.min_tasks or role.tasks) * role.processes_per_task
        cuts = [target for target in targets if target.role == role.name]
        if cuts:
            target = min(cuts, key=lambda one: one.processes_per_task)
            count = -(-processes // target.processes_per_task)
            demands.append(Demand(target.resources, count))
        else:
            demands.append(Demand(role.resources, role.min_tasks or role.tasks))
    return tuple(demands)
