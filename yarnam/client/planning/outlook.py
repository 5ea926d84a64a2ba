"""The outlook of a job on a cluster as it is now: its ladder, where it would run now, and its
ranks."""

from __future__ import annotations

import time
from dataclasses import dataclass

from yarnam.client.submit.preflight import CheckedJob
from yarnam.core.admission import QueueSnapshot
from yarnam.core.admission.forecast import Forecast, UnknownStart, forecast
from yarnam.core.admission.job_ticket import job_ticket
from yarnam.core.advice import Plan
from yarnam.core.gang import policy_for
from yarnam.core.gang.roles.ranks import in_rank_order
from yarnam.core.gang.state import Member, MemberState
from yarnam.core.model.events import ContainerGranted
from yarnam.core.model.ids import AskId, ContainerId, NodeId, RackId
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.plans import NoFit, PlacementPlan, Rung
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.core.model.tickets import in_same_partitions
from yarnam.core.placement import plan
from yarnam.core.placement.elastic_sizes import plan_largest
from yarnam.core.placement.packing.index_memory import IndexMemory
from yarnam.core.queue_client.ticket_list import TicketList
from yarnam.wire.records import PreRunRecord


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """A task where the planner sees it, with the ranks of its processes."""

    task: str
    """The task's name, such as ``worker-0``."""
    node: NodeId
    rack: RackId
    gpus: int
    first_rank: int
    processes: int


@dataclass(frozen=True, slots=True)
class Outlook:
    """The answer to "what if I submitted this now"."""

    checked: CheckedJob
    now: PlacementPlan | NoFit
    """The plan that fits now together with an ApplicationMaster; the job would request the first
    rung."""
    tasks: tuple[PlannedTask, ...]
    """In rank order, on the best rung: the first that fits now, else the first of the ladder. YARN
    may choose other nodes of the same targets."""
    start: Forecast | UnknownStart
    """When it would start: in order with the waiting jobs, if no others come."""
    measured: PreRunRecord | None = None
    """The measurements of a pre-run of the same program, if it has passed one."""
    predicted: Plan | None = None
    """The speed at this size, by earlier runs of the program, if there are any."""

    @property
    def best(self) -> Rung:
        return self.now.rungs[0] if isinstance(self.now, PlacementPlan) else self.ladder.rungs[0]

    @property
    def ladder(self) -> PlacementPlan:
        return self.checked.plan

    @property
    def job(self) -> JobSpec:
        return self.checked.job

    @property
    def snapshot(self) -> ClusterSnapshot:
        return self.checked.snapshot

    @property
    def needs_more_memory(self) -> int | None:
        """The MiB that one container of the leading role would need by the pre-run's measurement,
        if that is more than it gets; ``None`` if it is enough, or unknown."""
        peak = self.measured.peak_memory_mib if self.measured is not None else None
        role = next(role for role in self.job.roles if role.name == self.job.leading_role)
        needed = (peak or 0) * role.processes_per_task
        return needed if needed > role.resources.memory_mib else None

    @property
    def fits_now(self) -> bool:
        return isinstance(self.now, PlacementPlan)

    @property
    def wait_s(self) -> float | None:
        """How long the job is likely to wait; ``None`` if unknown."""
        return self.start.likely_s if isinstance(self.start, Forecast) else None


def outlook(
    checked: CheckedJob, line: TicketList | str, measured: PreRunRecord | None = None,
    memory: IndexMemory | None = None,
) -> Outlook:  # fmt: skip
    """Plans the job on the snapshot that it was checked on. ``line`` has the jobs that wait and
    run, or the reason why they are unknown. ``measured`` has a pre-run's measurements; ``memory``
    as for ``plan``."""
    snapshot, data = checked.snapshot, checked.data
    now = plan_largest(checked.job, lambda one: plan(snapshot, one, data=data, memory=memory))
    rung = now.rungs[0] if isinstance(now, PlacementPlan) else checked.plan.rungs[0]
    return Outlook(
        checked, now, _planned_tasks(checked, rung), _start(checked, now, line), measured
    )


def _start(
    checked: CheckedJob, now: PlacementPlan | NoFit, line: TicketList | str
) -> Forecast | UnknownStart:
    fits = isinstance(now, PlacementPlan)
    if isinstance(line, str):
        return Forecast(0.0, 0.0, 0.0) if fits else UnknownStart(line)
    now_s = time.time()
    # It would be the last to come.
    number = max((ticket.number for ticket in line.tickets), default=0) + 1
    mine = job_ticket(checked.job, checked.targets, "", number, now_s)
    tickets = in_same_partitions(mine, line.tickets)
    if fits and not tickets:
        return Forecast(0.0, 0.0, 0.0)
    return forecast(mine, QueueSnapshot(checked.snapshot, tickets, line.running, now_s))


def _planned_tasks(checked: CheckedJob, rung: Rung) -> tuple[PlannedTask, ...]:
    """Assigns ranks in the gang machine's own order."""
    rack_of = {node.node_id: node.rack for node in checked.snapshot.nodes}
    members = tuple(
        Member(
            ask=ask_id,
            target=ask.target,
            level=rung.level,
            state=MemberState.GRANTED,
            grant=ContainerGranted(
                0.0, ask_id, ContainerId(""), node, rack_of.get(node, RackId(""))
            ),
        )
        for place, ask in enumerate(rung.asks)
        for number, node in enumerate(ask.expected_nodes)
        for ask_id in (AskId(1, ask.target.role, place * 100_000 + number),)
    )
    return tuple(
        PlannedTask(
            task=str(member.task),
            node=member.grant.node,
            rack=member.grant.rack,
            gpus=member.target.resources.gpus,
            first_rank=member.first_rank,
            processes=member.target.processes_per_task,
        )
        for member in in_rank_order(members, policy_for(checked.job))
        if member.grant is not None
    )
