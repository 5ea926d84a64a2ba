"""Answer ``RequestPlan`` in the simulator, as ``am.plan_service`` does in the ApplicationMaster:
when ``admission.decide`` says so, or without tickets after a second poll. A job that waits for long
for others to take idle GPUs goes on without tickets too (``delay_limit``).

The planner is real too. A count of free GPUs goes before it, since it costs the most: where that
says no, the planner would too (tests/sim holds it to that).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from math import inf

from yarnam.core.accounting.attained_service import HOLDING
from yarnam.core.admission import Ask, Decision, decide
from yarnam.core.admission.decision import unknown_gpus
from yarnam.core.admission.delay_limit import Delay
from yarnam.core.admission.entitlement import ClaimHistory, entitlement
from yarnam.core.admission.forecast import wait_ratio
from yarnam.core.admission.polling import confirm_delay_s, must_confirm
from yarnam.core.admission.wait_queue import wait_queue
from yarnam.core.gang import Gang
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
from yarnam.core.model.tickets import BACKS_OFF, Demand, MustWait, RunningGang, Ticket
from yarnam.core.placement import declared_targets
from yarnam.core.placement.elastic_sizes import elastic_ladder, spare_for_growth
from yarnam.core.placement.plan_request import may_keep_clear, plan_request
from yarnam.core.placement.prelaunch import has_spare_capacity
from yarnam.sim.common_looks import Moment
from yarnam.sim.sim_settings import SimJob
from yarnam.sim.timeline import Appointment
from yarnam.sim.world import World
from yarnam.sim.yarn_model.containers import Container

Deliver = Callable[[Event], None]

BUSY = NoFit(Reason.TOO_FEW_FREE_GPUS, is_never=False, message="the whole gang does not fit now")


class JitterPlanner:
    """Without tickets: poll; where room is scarce pause at random and poll again; then answer."""

    def __init__(self, job: SimJob, world: World) -> None:
        self._job = job
        self._world = world
        self._targets: tuple[Target, ...] = ()
        self._never: NoFit | None = None
        self._shapes: tuple[Demand, ...] = ()
        """In how many containers of which size it may be, the largest first; of an elastic gang, at
        its least."""
        self._kind = 0
        """Jobs of one kind are alike to the planner."""
        self._coming: Appointment | None = None
        self._probing: Appointment | None = None
        self._has_waited = False
        self._deliver: Deliver

    def open(self, now_s: float, deliver: Deliver) -> None:
        """Submission: the targets are declared on what the cluster is now."""
        self._deliver = deliver
        ladder = elastic_ladder(self._snapshot(), self._job.spec, memory=self._world.indexes)
        if isinstance(ladder, NoFit):
            self._never = ladder
            return
        self._targets = declared_targets(ladder)
        gpus = self._least_gpus(None)
        sizes = {target.resources.gpus: target.resources for target in self._targets}
        self._shapes = tuple(
            Demand(sizes[size], gpus // size) for size in sorted(sizes, reverse=True)
        )
        roles = tuple((role.tasks, role.resources) for role in self._job.spec.roles)
        self._kind = self._world.common_looks.kind_of(self._job.queue, self._shapes, roles)

    def request(self, action: RequestPlan) -> None:
        """Answered by an event. Lost tasks are replaced at once, as in the ApplicationMaster: the
        rest of the gang is idle meanwhile. Who does not look before asking waits for nobody."""
        self._cancel_probe()
        looks = action.supplement is None and self._job.spec.gang.look_before_ask
        poll = self._poll if looks else self._reply_at_once
        self._after(self._world.rm.settings.poll_s, lambda: poll(action))

    def probe(self, action: ProbeCluster) -> None:
        """Answered by an event, as by the ``GrowthProbe`` of the ApplicationMaster."""
        self._cancel_probe()
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
        """What the processes report before this event; None: nothing that counts here."""

    def stepped(self, before: Gang, event: Event, after: Gang) -> None:
        """The gang machine has made a step."""

    def entered(self, phase: Phase) -> None:
        """The gang machine has changed its phase."""

    def launched(self, containers: Sequence[Container]) -> None:
        """The whole gang is there, in these containers."""

    def finished(self) -> None:
        """The job is over."""
        self._cancel()
        self._cancel_probe()

    def _poll(self, action: RequestPlan) -> None:
        snapshot = self._snapshot()
        outcome = self._plan(action) if self._may_fit(action) else BUSY
        has_spare = isinstance(outcome, PlacementPlan) and has_spare_capacity(
            snapshot, outcome.rungs[0]
        )
        if must_confirm(outcome, has_spare=has_spare, has_waited=self._has_waited):
            pause_s = confirm_delay_s(self._world.dice.random())
            self._after(pause_s, lambda: self._confirm(action))
            return
        self._has_waited = isinstance(outcome, NoFit)
        self._reply(action, outcome)

    def _confirm(self, action: RequestPlan) -> None:
        outcome = self._plan(action) if self._may_fit(action) else BUSY
        self._has_waited = isinstance(outcome, NoFit)
        self._reply(action, outcome)

    def _reply_at_once(self, action: RequestPlan) -> None:
        self._reply(action, self._plan(action))

    def _reply(self, action: RequestPlan, outcome: PlacementPlan | NoFit) -> None:
        now_s = self._world.timeline.now_s
        nodes = self._world.rm.settings.nodes
        if isinstance(outcome, NoFit):
            self._deliver(PlanRefused(now_s, action.attempt, outcome, nodes))
        else:
            self._deliver(PlanReady(now_s, action.attempt, outcome, nodes))

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
        return any(self._world.rm.nodes.could_hold(gpus // size, size) for size in sizes)

    def _least_gpus(self, action: RequestPlan | None) -> int:
        """Of the smallest gang that will do now; None: that will ever do."""
        role = self._job.spec.elastic_role
        if role is None or role.min_tasks is None:
            return self._job.gpus
        tasks = None if action is None else action.least_tasks
        return (tasks or role.min_tasks) * role.resources.gpus

    def _snapshot(self) -> ClusterSnapshot:
        return self._world.rm.snapshot(self._job.queue)

    def _cancel(self) -> None:
        if self._coming is not None:
            self._coming.cancel()
            self._coming = None

    def _cancel_probe(self) -> None:
        if self._probing is not None:
            self._probing.cancel()
            self._probing = None

    def _after(self, delay_s: float, call: Callable[[], None]) -> None:
        self._cancel()
        self._coming = self._world.timeline.after(delay_s, call)


class TicketPlanner(JitterPlanner):
    """With tickets: one from the first request of a gang until it is launched."""

    def __init__(self, job: SimJob, world: World) -> None:
        super().__init__(job, world)
        self._ticket: Ticket | None = None
        """The job's own: its place stays the same for all attempts."""
        self._is_waiting = False
        self._last: MustWait | None = None
        self._delay = Delay()
        self._claims = ClaimHistory()
        self._claimed_at_s: float | None = None
        self._ran_at_s = -inf
        self._asked: RequestPlan | None = None
        """What is to be answered."""
        self._launched_at_s: float | None = None
        """Since when the gang has been held; None: it is not."""

    def request(self, action: RequestPlan) -> None:
        if action.supplement is None:
            self._note_claim()
            self._ticket = self._world.tickets.take(self._ticket or self._wanted())
            self._is_waiting = True
            self._asked = action
            # What it asks now it looks at by itself first: else it would decide twice.
            self._world.common_looks.leave(self._ticket.number)
        super().request(action)

    def _note_claim(self) -> None:
        """As the ApplicationMaster's ``AdmissionPoller`` does."""
        if self._claimed_at_s is not None:
            now_s = self._world.timeline.now_s
            has_run = self._ran_at_s >= self._claimed_at_s
            lasted_s = now_s - self._claimed_at_s if has_run else 0.0
            self._claims = self._claims.after(now_s, lasted_s)
            self._claimed_at_s = None

    def stepped(self, before: Gang, event: Event, after: Gang) -> None:
        running = self._world.tickets.running.get(self._job.spec.name)
        if running is not None and after.growth is not before.growth:
            nodes = after.gpus_by_node
            shown = replace(running, gpus=sum(gpus for _, gpus in nodes), nodes=nodes)
            if shown != running:
                self._world.tickets.launched(shown)

    def entered(self, phase: Phase) -> None:
        if phase not in HOLDING:
            self._launched_at_s = None
        if phase is Phase.BACKING_OFF:
            self._leave()
            self._world.tickets.gone(self._job.spec.name)
            if self._is_waiting and self._ticket is not None:
                self._world.tickets.update(replace(self._ticket, aside=BACKS_OFF))

    def launched(self, containers: Sequence[Container]) -> None:
        self._give_back()
        now_s, ticket, ratio = self._world.timeline.now_s, self._ticket, None
        self._ran_at_s = now_s
        since_s = self._launched_at_s = self._launched_at_s or now_s
        if ticket is not None and ticket.forecast_s is not None:
            ratio = wait_ratio(now_s - ticket.taken_at_s, ticket.forecast_s)
            self._ticket = replace(ticket, forecast_s=None)
        gpus: dict[NodeId, int] = {}
        for container in containers:
            name = self._world.rm.nodes.names[container.node]
            gpus[name] = gpus.get(name, 0) + container.resources.gpus
        declared_s = self._job.declared_s
        self._world.tickets.launched(
            RunningGang(
                job=self._job.spec.name,
                queue=self._job.queue,
                gpus=sum(gpus.values()),
                ends_at_s=None if declared_s is None else since_s + declared_s,
                nodes=tuple(sorted(gpus.items())),
                since_s=since_s,
                wait_ratio=ratio,
            )
        )

    def finished(self) -> None:
        super().finished()
        self._give_back()
        self._world.tickets.gone(self._job.spec.name)

    def _give_back(self) -> None:
        self._leave()
        if self._is_waiting and self._ticket is not None:
            self._is_waiting = False
            self._world.tickets.give_back(self._ticket.number)

    @property
    def queue(self) -> str:
        """Of YARN."""
        return self._job.queue

    def poll_at(self, moment: Moment, *, is_first: bool) -> None:
        """One of the looks of all who wait."""
        action = self._asked
        assert action is not None
        kind = (self._kind, action.excluded, action.least_tasks, action.most_tasks)
        fits = moment.fits(kind, lambda: self._may_fit(action))
        if not fits and not (is_first and self._may_claim_or_accumulate()):
            if self._delay.fits_since_s is not None:
                self._delay = self._delay.not_fitting(self._world.timeline.now_s)
            return
        assert self._ticket is not None
        may_pass = self._world.tickets.may_pass(self._ticket, self._world.timeline.now_s)
        refusal = moment.refusal(kind, may_pass=may_pass)
        if refusal is not None:
            self._wait(refusal, action, fits=fits)
            return
        self._poll(action)
        if self._asked is not None and self._last is not None:
            moment.refuse(kind, self._last, may_pass=may_pass)

    def _may_claim_or_accumulate(self) -> bool:
        """Whether it could claim what others hold, or what will be free soon."""
        assert self._ticket is not None
        now_s = self._world.timeline.now_s
        seen = self._world.tickets.contention(self._snapshot(), now_s)
        if self._claims.may_claim(now_s) and entitlement(self._ticket, seen):
            return True
        return unknown_gpus(seen) > 0 and not wait_queue(self._ticket, seen).ahead_of(self._ticket)

    def _poll(self, action: RequestPlan) -> None:
        decision = self._decide(action)
        if isinstance(decision, MustWait):
            self._wait(decision, action, fits=self._may_fit(action))
            return
        self._leave()
        if isinstance(decision, Ask):
            self._world.tickets.update(decision.ticket)
            self._claimed_at_s = self._world.timeline.now_s if decision.is_claim else None
        self._reply(action, decision.plan if isinstance(decision, Ask) else decision)

    def _wait(self, decision: MustWait, action: RequestPlan, *, fits: bool) -> None:
        assert self._ticket is not None
        self._last = decision
        self._note_wait(decision, fits=fits)
        if not self._delay.is_over(self._ticket, decision):
            self._world.common_looks.join(self._ticket.number, self)
            return
        # The others do not take what is free: on by jitter, as without tickets.
        self._leave()
        super()._poll(action)

    def _note_wait(self, decision: MustWait, *, fits: bool) -> None:
        self._delay = self._delay.after(decision, self._world.timeline.now_s, fits=fits)

    def _decide(self, action: RequestPlan) -> Decision:
        assert self._ticket is not None
        seen = self._world.tickets.contention(self._snapshot(), self._world.timeline.now_s)

        def plan(avoid: tuple[NodeId, ...] = (), *, blind: bool = False) -> PlacementPlan | NoFit:
            return self._plan(action, avoid, blind=blind)

        may_fit = self._may_fit(action)
        decision = decide(
            self._ticket, seen, plan, may_fit=may_fit, excluded=action.excluded,
            may_claim=self._claims.may_claim(seen.now_s), explain=False,
            may_keep_clear=partial(self._may_keep_clear, action),
        )  # fmt: skip
        on_wait = self._world.on_wait
        if on_wait is not None and self._last is None and isinstance(decision, MustWait):
            self._ticket = replace(self._ticket, forecast_s=on_wait(self._job, self._ticket, seen))
            self._world.tickets.update(self._ticket)
        return decision

    def _leave(self) -> None:
        """It looks no more."""
        self._asked = None
        if self._ticket is not None:
            self._world.common_looks.leave(self._ticket.number)

    def _wanted(self) -> Ticket:
        job = self._job
        return Ticket(
            number=0,
            job=job.spec.name,
            name=job.spec.name,
            queue=job.queue,
            demands=self._shapes[-1:],
            taken_at_s=self._world.timeline.now_s,
            duration_s=job.declared_s,
        )
