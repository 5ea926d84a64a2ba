"""A job in the model of YARN that asks when its queue's policy says so, in place of the admission
decision. For policies that never suspend: the gang machine of this model cannot."""

from __future__ import annotations

from itertools import repeat

from yarnam.core.admission import Ask, Decision
from yarnam.core.admission.job_ticket import asked_demands
from yarnam.core.model.actions import RequestPlan
from yarnam.core.model.plans import NoFit
from yarnam.core.model.tickets import (
    Admitted,
    HoldState,
    MustWait,
    PolicyTicket,
    RunningGang,
    Ticket,
)
from yarnam.core.policies.policy_registry import decide
from yarnam.core.policies.policy_settings import Settings
from yarnam.core.policies.scheduling_policy import Policy
from yarnam.core.policies.scheduling_view import GpuCount, SchedulingView
from yarnam.sim.planners import TicketPlanner
from yarnam.sim.sim_settings import SimJob
from yarnam.sim.world import World


class PolicyPlanner(TicketPlanner):
    """Every job computes the schedule from the same tickets, and carries out its own row."""

    def __init__(self, job: SimJob, world: World, policy: Policy, settings: Settings) -> None:
        super().__init__(job, world)
        self._policy = policy
        self._settings = settings

    def _has_waited_for_nothing(self) -> bool:
        """Never: a policy may keep GPUs idle, as ``fifo`` does for the first in the queue."""
        return False

    def _decide(self, action: RequestPlan) -> Decision:
        me, tickets = self._ticket, self._world.tickets
        assert me is not None
        waiting = {ticket.job: ticket for ticket in tickets.tickets.values()} | {me.job: me}
        now_s = self._world.timeline.now_s
        # Who asks again for a lost gang is shown as running until the others see its ticket.
        gangs = [gang for gang in tickets.running.values() if gang.job not in waiting]
        jobs = [*map(_waiting, waiting.values()), *(_running(gang) for gang in gangs)]
        total = self._world.rm.settings.gpus
        held = sum(one.gpus for one in jobs if one.is_running)
        seen = SchedulingView(jobs, GpuCount(total, max(0, total - held)), now_s)
        found = decide(self._policy, seen, self._settings)
        row = found.of(me.job)
        if row.gpus:
            plan = self._plan(action)
            if not isinstance(plan, NoFit):
                asks = plan.rungs[0].asks
                demands = asked_demands(
                    target for ask in asks for target in repeat(ask.target, ask.count)
                )
                shown = Ticket(
                    me.number, me.job, me.name, me.queue, demands, me.taken_at_s, me.duration_s,
                    is_acquiring=True,
                )  # fmt: skip
                return Ask(plan, shown, Admitted(row.why))
            if plan.is_never:
                return plan
        first = next((one for one in found.order if not one.is_running), None)
        head = waiting.get(first.job, me) if first is not None else me
        return MustWait(max(0, row.rank - 1 - len(gangs)), head, row.why)


def _waiting(ticket: Ticket) -> PolicyTicket:
    """A gang whose containers have been asked for counts as running: it holds what it gets."""
    return PolicyTicket(
        job=ticket.job,
        number=ticket.number,
        submitted_at_s=ticket.taken_at_s,
        gpus=ticket.gpus,
        queue=ticket.queue,
        state=HoldState.RUNNING if ticket.is_acquiring else HoldState.WAITING,
        since_s=ticket.taken_at_s,
        remaining_s=ticket.duration_s,
    )


def _running(gang: RunningGang) -> PolicyTicket:
    since_s = gang.since_s or 0.0
    return PolicyTicket(
        job=gang.job,
        number=0,
        submitted_at_s=since_s,
        gpus=gang.gpus,
        queue=gang.queue,
        state=HoldState.RUNNING,
        since_s=since_s,
        remaining_s=None if gang.ends_at_s is None else max(0.0, gang.ends_at_s - since_s),
    )
