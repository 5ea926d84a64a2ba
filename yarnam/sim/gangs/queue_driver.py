"""A job's queue client in the simulator: the machine is the one of the ApplicationMaster
(``core.queue_client``), folded on virtual time. The models of ZooKeeper and the ResourceManager
answer the shell's requests immediately.

The planner is real too. A count of free GPUs goes before it, since it costs the most: if the count
says no, the planner would too (tests/sim checks that). One of several equal jobs decides for all
that poll at the same moment (``poll_batch``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from yarnam.core.admission import Ask, QueueSnapshot
from yarnam.core.admission.decision import unknown_gpus
from yarnam.core.admission.entitlement import entitlement
from yarnam.core.admission.wait_queue import wait_queue
from yarnam.core.gang import Gang, policy_for
from yarnam.core.gang.elastic.sizing import cluster_probe, waiting_jobs
from yarnam.core.model.actions import ProbeCluster, RequestPlan
from yarnam.core.model.events import (
    ClusterSeen,
    Event,
    PlanReady,
    PlanRefused,
    TrainingReported,
)
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_status import Phase
from yarnam.core.model.plans import NoFit, PlacementPlan, Reason, Target
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.core.model.tickets import NOT_ITS_TURN, Demand, RunningGang, Ticket
from yarnam.core.placement import declared_targets
from yarnam.core.placement.elastic_sizes import elastic_ladder, spare_for_growth
from yarnam.core.placement.plan_request import may_keep_clear, needs_admission, plan_request
from yarnam.core.policies.chosen_policy import NOTHING_CHOSEN, ActivePolicy, QueuePolicy
from yarnam.core.policies.queue_schedule import QueueSchedule
from yarnam.core.policies.schedule import Act
from yarnam.core.queue_client import ClientLimits, QueueClient, QueuedJob, new_client, step
from yarnam.core.queue_client import client_actions as ca
from yarnam.core.queue_client import client_events as ce
from yarnam.core.queue_client.admission_rules import claim_decision
from yarnam.core.queue_client.client_state import Stage
from yarnam.core.queue_client.cluster_poll import ClusterPoll, PlanOutcome
from yarnam.core.queue_client.gang_view import gang_view
from yarnam.core.queue_client.ticket_list import TicketList
from yarnam.errors.exhaustive import assert_never
from yarnam.sim.gangs.policy_reports import PolicyReports
from yarnam.sim.gangs.schedule_observer import ScheduleObserver
from yarnam.sim.poll_batch import Moment
from yarnam.sim.sim_settings import SimJob
from yarnam.sim.timeline import Appointment
from yarnam.sim.world import World

Deliver = Callable[[Event], None]

BUSY = NoFit(Reason.TOO_FEW_FREE_GPUS, is_never=False, message="the whole gang does not fit now")

CHANGING = frozenset({Phase.ACQUIRING, Phase.REPLACING})
"""Phases in which each step may change what the others see of a gang."""


@dataclass(frozen=True, slots=True)
class SimTicketList(TicketList):
    """The tickets as the model keeps them: what follows from them is kept for all jobs."""

    world: World | None = None
    observer: ScheduleObserver | None = None

    def queue_snapshot(self, me: Ticket, snapshot: ClusterSnapshot, now_s: float) -> QueueSnapshot:
        assert self.world is not None
        if self.observer is not None:
            return self.observer.queue_snapshot()
        return self.world.tickets.queue_snapshot(snapshot, now_s)

    def schedule(
        self, mine: Ticket | RunningGang, seen: QueueSnapshot, policy: ActivePolicy
    ) -> tuple[QueueSchedule, QueueSnapshot]:
        assert self.observer is not None
        return self.observer.schedule(), self.observer.queue_snapshot()

    def active(self) -> ActivePolicy | None:
        return None if self.observer is None else self.observer.active


class QueueDriver:
    """One for each job.

    Args:
        takes_tickets: whether there is a ZooKeeper.
        observer: the observer of the queue's policy; ``None`` if it has none.
        reports: the job's reports to the policy.
    """

    def __init__(
        self,
        job: SimJob,
        world: World,
        *,
        takes_tickets: bool,
        observer: ScheduleObserver | None = None,
        reports: PolicyReports | None = None,
    ) -> None:
        self._job = job
        self._world = world
        self._takes_tickets = takes_tickets
        self._observer = observer
        self._reports = reports
        self._targets: tuple[Target, ...] = ()
        self._never: NoFit | None = None
        self._shapes: tuple[Demand, ...] = ()
        """In how many containers of which size it may be, the largest first; of an elastic gang, at
        its least."""
        self._kind = 0
        """Jobs of one kind are alike to the planner."""
        self._probing: Appointment | None = None
        self._pausing: Appointment | None = None
        self._waking: Appointment | None = None
        self._action: RequestPlan | None = None
        """The request that is to be answered."""
        self._is_first_poll = False
        self._has_foreseen = False
        self._events: deque[ce.ClientEvent] = deque()
        self._is_folding = False
        self._is_look_due = False
        self._gang: Gang | None = None
        chosen = NOTHING_CHOSEN
        if observer is not None:
            chosen = QueuePolicy(observer.active.name, version=observer.active.version)
        self._listed = SimTicketList(policy=chosen, world=world, observer=observer)
        self._deliver: Deliver
        self.client: QueueClient

    # ---- for the job -------------------------------------------------------------------------

    def open(self, deliver: Deliver) -> None:
        """Submission: the targets are declared on what the cluster is now."""
        self._deliver = deliver
        job = self._job
        ladder = elastic_ladder(self._snapshot(), job.spec, memory=self._world.indexes)
        if isinstance(ladder, NoFit):
            self._never = ladder
        else:
            self._targets = declared_targets(ladder)
            gpus = self._least_gpus(None)
            sizes = {target.resources.gpus: target.resources for target in self._targets}
            without = sum(r.tasks for r in job.spec.roles if not r.resources.gpus)
            self._shapes = tuple(
                Demand(sizes[size], gpus // size if size else without)
                for size in sorted(sizes, reverse=True)
            )
            roles = tuple((role.tasks, role.resources) for role in job.spec.roles)
            self._kind = self._world.poll_batch.kind_of(job.queue, self._shapes, roles)
        self.client = new_client(self._queued_job())
        if self._takes_tickets:
            self._fold(ce.Opened(), ce.Connected())
        if self._observer is not None:
            # All know the policy from the start, so their schedules are one.
            active = self._observer.active
            self.client = replace(self.client, chosen=self._listed.policy, policy=active)
            self._observer.join(job.spec.name, self)

    def _queued_job(self) -> QueuedJob:
        job = self._job
        ticket = Ticket(
            number=0,
            job=job.spec.name,
            name=job.spec.name,
            queue=job.queue,
            demands=self._shapes[-1:],
            taken_at_s=0.0,
            duration_s=job.declared_s,
        )
        return QueuedJob(
            application=job.spec.name,
            gang_ticket=ticket,
            pre_run_ticket=ticket,
            duration_s=job.declared_s,
            pre_run_duration_s=job.declared_s,
            takes_tickets=self._takes_tickets,
            respects_cells=job.spec.placement.cells,
            size=policy_for(job.spec).size,
            # Sessions do not end here, so tickets need no renewal.
            limits=ClientLimits(sign_of_life_s=inf),
            explains=False,
        )

    def request(self, action: RequestPlan) -> None:
        """Answered by an event."""
        self._cancel(self._probing)
        self._cancel(self._pausing)
        self._leave()
        self._action, self._is_first_poll = action, True
        self._fold(ce.PlanWanted(needs_admission(self._job.spec, action)))

    def probe(self, action: ProbeCluster) -> None:
        """Answered by an event, as by the ``GrowthProbe`` of the ApplicationMaster."""
        self._cancel(self._probing)
        poll_s = self._world.rm.settings.poll_s
        self._probing = self._world.timeline.after(poll_s, lambda: self._see(action))

    def _see(self, action: ProbeCluster) -> None:
        job, snapshot, world = self._job.spec, self._snapshot(), self._world
        waiters = waiting_jobs(world.tickets.tickets.values(), job.queue)
        spare, each = 0, action.growth.wanted[0].target.resources.gpus
        if world.rm.nodes.could_hold(1, each):
            spare = spare_for_growth(snapshot, job, self._targets, action.growth, action.excluded)
        found = cluster_probe(spare, snapshot.queue, job, action.growth, waiters)
        seen = ClusterSeen(
            world.timeline.now_s, action.attempt, found.spare, found.excess, found.waiting,
            world.dice.random(), found.outranked,
        )  # fmt: skip
        self._deliver(seen)

    def report(self, event: Event) -> TrainingReported | None:
        """The report of the processes before this event."""
        if self._reports is None or self._gang is None:
            return None
        return self._reports.before(event, self._gang, self._now_s)

    def stepped(self, before: Gang, event: Event, after: Gang) -> None:
        """The gang machine has made a step."""
        self._gang = after
        if self._reports is not None:
            self._reports.stepped(before, event, after)
            if after.phase is Phase.RUNNING and before.phase is not Phase.RUNNING:
                self._report_after_start(self._reports, after.attempt)
        if not self._takes_tickets:
            return
        if (
            after.phase is not before.phase
            or after.phase in CHANGING
            or after.resizing.growth is not before.resizing.growth
            or after.resizing.leaving is not before.resizing.leaving
            or (self._reports is not None and isinstance(event, TrainingReported))
        ):
            self._fold(ce.GangChanged(gang_view(after, self.client.job.size)))

    def _report_after_start(self, reports: PolicyReports, attempt: int) -> None:
        """A program that can continue has its first checkpoint when it begins."""

        def report() -> None:
            if self._gang is not None:
                event = reports.first(self._gang, attempt, self._now_s)
                if event is not None:
                    self._deliver(event)

        self._world.timeline.after(self._world.start_cost_s, report)

    def finished(self) -> None:
        """The job is over."""
        for appointment in (self._probing, self._pausing, self._waking):
            self._cancel(appointment)
        self._leave()
        if self._observer is not None:
            self._observer.leave(self._job.spec.name)
        if self._takes_tickets:
            self._fold(ce.PlanWithdrawn())
            self._world.tickets.give_back(self.client.number)
            self._world.tickets.gone(self._job.spec.name)

    # ---- while it waits ----------------------------------------------------------------------

    @property
    def queue(self) -> str:
        """Of YARN."""
        return self._job.queue

    def poll_at(self, moment: Moment, *, is_first: bool) -> None:
        """One of the polls of all jobs that wait."""
        client, action = self.client, self._action
        ticket, last = client.ticket, client.admission.last
        assert ticket is not None
        assert last is not None
        assert action is not None
        if self._observer is not None:
            is_out = ticket.blocked_reason == NOT_ITS_TURN
            if not is_out or self._job.spec.name in self._observer.schedule().schedule.gpus:
                self._poll_now()
            return
        kind = (self._kind, action.excluded, action.least_tasks, action.most_tasks)
        fits = moment.fits(kind, lambda: self._may_fit(action))
        if not fits and not (is_first and self._may_claim_or_accumulate(ticket)):
            if client.admission.delay.fits_since_s is not None:
                self._fold(ce.StillRefused(last, fits=False))
            return
        may_pass = self._world.tickets.may_pass(ticket, self._now_s)
        refusal = moment.refusal(kind, may_pass=may_pass)
        if refusal is not None:
            self._fold(ce.StillRefused(refusal, fits))
            return
        self._poll_now()
        if self.client.admission.stage is Stage.PAUSING and self.client.admission.last:
            moment.refuse(kind, self.client.admission.last, may_pass=may_pass)

    def _poll_now(self) -> None:
        self._fold(ce.PauseOver(self.client.admission.awaits))

    def _may_claim_or_accumulate(self, ticket: Ticket) -> bool:
        """Whether it could claim what others hold, or what will be free soon."""
        seen = self._world.tickets.queue_snapshot(self._snapshot(), self._now_s)
        if self.client.admission.claims.may_claim(self._now_s) and entitlement(ticket, seen):
            return True
        return unknown_gpus(seen) > 0 and not wait_queue(ticket, seen).ahead_of(ticket)

    def _leave(self) -> None:
        """It polls no more with the others."""
        if self._takes_tickets:
            self._world.poll_batch.leave(self.client.number)

    # ---- while its gang runs, or is suspended ------------------------------------------------

    def may_act(self, found: QueueSchedule, interrupted: frozenset[str]) -> bool:
        """Whether its decision has it act, and no poll of it is due."""
        view = self.client.gang
        if self._is_look_due or view is None:
            return False
        if view.is_suspended:
            return self._job.spec.name in found.schedule.gpus
        return view.phase is Phase.RUNNING and self._job.spec.name in interrupted

    def look_after(self, delay_s: float) -> None:
        self._is_look_due = True
        self._world.timeline.after(delay_s, self._look_at_policy)

    def _look_at_policy(self) -> None:
        self._is_look_due = False
        if self._gang is None or self._observer is None:
            return
        self._fold(ce.PolicyLookDue(gang_view(self._gang, self.client.job.size)))
        before = self.client.following.before
        if before is not None and before.act is Act.RESIZE:
            self.look_after(self._observer.pause_s())

    # ---- folding -----------------------------------------------------------------------------

    @property
    def _now_s(self) -> float:
        return self._world.timeline.now_s

    def _fold(self, *events: ce.ClientEvent) -> None:
        """Steps these events and all that they lead to at this instant."""
        self._events += events
        if self._is_folding:
            return
        self._is_folding = True
        while self._events:
            event = self._events.popleft()
            self.client, actions = step(self.client, event, self._moment(event))
            for action in actions:
                self._perform(action)
        self._is_folding = False

    def _moment(self, event: ce.ClientEvent | None = None) -> ce.Moment:
        """A draw counts in the pause of a job without tickets alone: the others poll together."""
        ticket, u = None, 0.5
        if self._reports is not None and self._gang is not None:
            ticket = self._reports.policy_ticket(self._gang, self._now_s)
        is_alone = not self._takes_tickets or self.client.admission.stage is Stage.POLLING_ALONE
        if is_alone and isinstance(event, ce.ClusterPolled):
            u = self._world.dice.random()
        return ce.Moment(self._now_s, u, ticket)

    def _perform(self, action: ca.ClientAction) -> None:
        match action:
            case ca.AnswerPlan(outcome=outcome):
                self._reply(outcome)
            case ca.Send(event=event):
                self._deliver(event)
            case ca.PollCluster(serial=serial):
                self._poll(serial)
            case ca.Pause(serial=serial, pause_s=pause_s):
                self._pause(serial, pause_s)
            case ca.WakeAt(at_s=at_s):
                self._cancel(self._waking)
                if at_s < inf:
                    self._waking = self._world.timeline.at(at_s, lambda: self._fold(ce.Woken()))
            case ca.Foresee():
                self._foresee(action)
            case ca.Remember():
                pass  # No ApplicationMaster dies here.
            case _:
                self._events.append(self._answered(action))

    def _answered(  # noqa: RET503 - assert_never does not return
        self,
        action: ca.WriteTicket
        | ca.WriteRunning
        | ca.ReadTickets
        | ca.ReadPolicy
        | ca.ReadSnapshot
        | ca.ClaimTurn,
    ) -> ce.ClientEvent:
        """Answer by the models of the queue and of the ResourceManager."""
        tickets, listed = self._world.tickets, self._listed
        match action:
            case ca.WriteTicket(serial=serial, ticket=ticket, is_taken=is_taken):
                taken = tickets.write(ticket)
                return ce.TicketWritten(serial, None if is_taken else taken)
            case ca.WriteRunning(serial=serial, gang=gang):
                tickets.launched(gang)
                tickets.give_back(self.client.number)
                return ce.TicketWritten(serial)
            case ca.ReadTickets(serial=serial):
                return ce.TicketsRead(serial, listed)
            case ca.ReadPolicy(serial=serial):
                return ce.PolicyRead(serial, listed.policy, listed.active())
            case ca.ReadSnapshot(serial=serial):
                return ce.SnapshotRead(serial, self._snapshot())
            case ca.ClaimTurn(serial=serial, poll=poll):
                decided = action.decided or claim_decision(
                    self.client, poll, listed, self._moment()
                )
                is_ours = isinstance(decided[0], Ask)
                if isinstance(decided[0], Ask):
                    tickets.write(decided[0].ticket)
                return ce.ClaimEnded(serial, is_ours, *decided, listed)
            case _:
                assert_never(action)

    def _poll(self, serial: int) -> None:
        """The first poll of a request takes the time of a REST call; those at a common moment, and
        those after a pause, take none."""
        action = self._action
        assert action is not None

        def done() -> None:
            self._fold(ce.ClusterPolled(serial, self._polled(action)))

        if self._is_first_poll:
            self._is_first_poll = False
            self._cancel(self._pausing)
            self._pausing = self._world.timeline.after(self._world.rm.settings.poll_s, done)
        else:
            self._events.append(ce.ClusterPolled(serial, self._polled(action)))

    def _polled(self, action: RequestPlan) -> ClusterPoll:
        known: list[PlanOutcome] = []

        def plan(avoid: tuple[NodeId, ...] = (), *, blind: bool = False) -> PlanOutcome:
            if avoid or blind:
                return self._plan(action, avoid, blind=blind)
            if not known:
                known.append(self._plan(action))
            return known[0]

        fits = not needs_admission(self._job.spec, action) or self._may_fit(action)
        return ClusterPoll(
            self._snapshot(),
            plan,
            fits,
            None if fits else BUSY,
            frozenset(action.excluded),
            partial(self._may_keep_clear, action),
            # The snapshot is that of this very moment: no gang has started since.
            asked_at_s=inf,
        )

    def _pause(self, serial: int, pause_s: float) -> None:
        if self.client.admission.stage is Stage.PAUSING:
            self._world.poll_batch.join(self.client.number, self)
            return
        self._cancel(self._pausing)
        over = ce.PauseOver(serial)
        self._pausing = self._world.timeline.after(pause_s, lambda: self._fold(over))

    def _foresee(self, action: ca.Foresee) -> None:
        """Only the first forecast of a job is of interest here."""
        on_wait, expected_s = self._world.on_wait, None
        if on_wait is not None and not self._has_foreseen:
            self._has_foreseen = True
            expected_s = on_wait(self._job, action.me, action.seen)
        self._events.append(ce.ForecastMade(action.serial, None, expected_s))

    def _reply(self, outcome: PlanOutcome) -> None:
        action, self._action = self._action, None
        assert action is not None
        self._leave()
        nodes = self._world.rm.settings.nodes
        if isinstance(outcome, NoFit):
            self._deliver(PlanRefused(self._now_s, action.attempt, outcome, nodes))
        else:
            self._deliver(PlanReady(self._now_s, action.attempt, outcome, nodes))

    # ---- the planner -------------------------------------------------------------------------

    def _plan(
        self, action: RequestPlan, avoid: tuple[NodeId, ...] = (), *, blind: bool = False
    ) -> PlacementPlan | NoFit:
        if self._never is not None:
            return self._never
        job, snapshot = self._job.spec, self._snapshot()
        return plan_request(
            snapshot, job, self._targets, action, also_excluded=avoid, blind=blind or None,
            memory=self._world.indexes,
        )  # fmt: skip

    def _may_keep_clear(self, action: RequestPlan, avoid: Collection[NodeId]) -> bool:
        """Before a plan that has to: the most of those that wait for a head are refused by it."""
        return self._never is not None or may_keep_clear(
            self._snapshot(), self._job.spec, self._targets, action, avoid, self._world.indexes
        )

    def _may_fit(self, action: RequestPlan) -> bool:
        """Whether there is room for the whole gang, by GPUs alone. Where nodes are excluded the
        planner may know more: that it can never fit."""
        if self._never is not None or action.excluded:
            return True
        queue, gpus = self._world.rm.queues.leaves[self._job.queue], self._least_gpus(action)
        if gpus > queue.usable_gpus():
            return False
        sizes = (shape.resources.gpus for shape in self._shapes)
        nodes = self._world.rm.nodes
        return any(not size or nodes.could_hold(gpus // size, size) for size in sizes)

    def _least_gpus(self, action: RequestPlan | None) -> int:
        """The GPUs of the smallest gang that will do now; without an action, of any that will ever
        do."""
        role = self._job.spec.elastic_role
        if role is None or role.min_tasks is None:
            return self._job.gpus
        tasks = None if action is None else action.least_tasks
        return (tasks or role.min_tasks) * role.resources.gpus

    def _snapshot(self) -> ClusterSnapshot:
        return self._world.rm.snapshot(self._job.queue)

    def _cancel(self, appointment: Appointment | None) -> None:
        if appointment is not None:
            appointment.cancel()
