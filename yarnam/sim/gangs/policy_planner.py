"""A job in the model of YARN whose queue has a policy: the counterpart of ``AdmissionPoller`` and
``PolicyWatcher`` in the ApplicationMaster. The functions are theirs: what the job tells
(``attained_service``), the schedule (``queue_schedule``), whether it asks (``decide_by_schedule``),
and what its gang machine is told (``event_of``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from yarnam.core.accounting.attained_service import (
    HOLDING,
    JobFacts,
    Service,
    policy_ticket,
    served,
    tasks_for,
)
from yarnam.core.accounting.ledger import account, open_accounts
from yarnam.core.accounting.training_reports import is_due
from yarnam.core.admission import Decision
from yarnam.core.admission.delay_limit import Delay
from yarnam.core.gang import Gang, initial, policy_for
from yarnam.core.model.actions import RequestPlan
from yarnam.core.model.events import Event, TrainingReported
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_status import Phase
from yarnam.core.model.plans import NoFit, PlacementPlan
from yarnam.core.model.tickets import NOT_ITS_TURN, SUSPENDED, MustWait, PolicyTicket, RunningGang
from yarnam.core.policies.queue_schedule import (
    QueueSchedule,
    as_running,
    decide_by_schedule,
    event_of,
)
from yarnam.core.policies.schedule import Act, JobDecision
from yarnam.sim.common_looks import Moment
from yarnam.sim.gangs.job_training import JobTraining
from yarnam.sim.gangs.schedule_watcher import ScheduleWatcher
from yarnam.sim.planners import TicketPlanner
from yarnam.sim.sim_settings import SimJob
from yarnam.sim.world import World
from yarnam.sim.yarn_model.containers import Container


class PolicyPlanner(TicketPlanner):
    """Every job carries out its own row of the schedule that all jobs of the queue compute."""

    def __init__(
        self, job: SimJob, world: World, watcher: ScheduleWatcher, training: JobTraining
    ) -> None:
        super().__init__(job, world)
        self._training = training
        self._watcher = watcher
        self._gang = initial(job.spec)
        self._size = policy_for(job.spec).size
        self._service = Service()
        self._books = open_accounts(job.submit_s)
        self._is_polling = False
        self._reported: TrainingReported | None = None
        self._before: JobDecision | None = None
        """Its row at the last look, while its gang ran or was suspended."""
        watcher.join(job.spec.name, self)

    # ---- what it tells -----------------------------------------------------------------------

    def stepped(self, before: Gang, event: Event, after: Gang) -> None:
        super().stepped(before, event, after)
        self._gang = after
        self._books = account(self._books, before, event, after)
        self._service = served(self._service, before, event, after, self._books)
        running = self._world.tickets.running.get(self._job.spec.name)
        has_moved = after.phase is not before.phase and after.phase in HOLDING
        has_moved = has_moved or after.growth is not before.growth
        if running is not None and (has_moved or isinstance(event, TrainingReported)):
            self._show(running)

    def _policy_ticket(self) -> PolicyTicket:
        now_s = self._world.timeline.now_s
        version, left_s = self._watcher.in_force.version, self._training.left_s(now_s)
        facts = JobFacts(self._job.spec.name, self._job.submit_s, version, left_s)
        return policy_ticket(
            self._job.spec, self._gang, self._size, self._service, self._books, facts, now_s
        )

    def request(self, action: RequestPlan) -> None:
        if action.supplement is None:
            mine = self._ticket or self._wanted()
            self._ticket = replace(mine, policy=self._policy_ticket(), aside="")
        super().request(action)

    def entered(self, phase: Phase) -> None:
        tickets, mine = self._world.tickets, self._ticket
        if phase is Phase.BACKING_OFF and mine is not None:
            self._ticket = replace(mine, policy=None)  # No affair of the policy.
        super().entered(phase)
        if phase is Phase.SUSPENDED and mine is not None:
            shown = replace(mine, aside=SUSPENDED, policy=self._policy_ticket(), is_acquiring=False)
            self._ticket = tickets.take(shown)
            tickets.gone(self._job.spec.name)
        elif phase is Phase.RUNNING:
            attempt = self._gang.attempt
            self._world.timeline.after(
                self._world.start_cost_s, lambda: self._report_training(attempt)
            )

    def _report_training(self, attempt: int) -> None:
        """A program that can go on has its first checkpoint when it begins."""
        if self._gang.phase is not Phase.RUNNING or self._gang.attempt != attempt:
            return
        step = self._training.step(self._world.timeline.now_s) if self._size is not None else 0
        report = TrainingReported(self._world.timeline.now_s, attempt, step, saved_step=step)
        self._reported = report
        self._deliver(report)

    def report(self, event: Event) -> TrainingReported | None:
        """Of an elastic gang its steps: by them the speed at its size is known."""
        last = self._reported
        if last is None or self._size is None or isinstance(event, TrainingReported):
            return None
        now_s, gang = self._world.timeline.now_s, self._gang
        if gang.phase is not Phase.RUNNING or gang.attempt != last.attempt:
            return None
        new = replace(last, at_s=now_s, step=self._training.step(now_s))
        if not is_due(last, new, at_once=True):
            return None
        self._reported = new
        return new

    def launched(self, containers: Sequence[Container]) -> None:
        super().launched(containers)
        self._show(self._world.tickets.running[self._job.spec.name])

    def _show(self, gang: RunningGang) -> None:
        shown = replace(gang, policy=as_running(self._policy_ticket(), gang))
        if shown != gang:
            self._world.tickets.launched(shown)

    def finished(self) -> None:
        self._watcher.leave(self._job.spec.name)
        super().finished()

    # ---- while it waits ----------------------------------------------------------------------

    def poll_at(self, moment: Moment, *, is_first: bool) -> None:
        """By its row of the schedule."""
        del moment, is_first
        is_out = self._ticket is not None and self._ticket.aside == NOT_ITS_TURN
        if is_out and self._job.spec.name not in self._watcher.schedule().schedule.gpus:
            return
        if self._asked is not None:
            self._poll(self._asked)

    def _note_wait(self, decision: MustWait, *, fits: bool) -> None:
        """As the ``AdmissionPoller`` does: a policy may keep GPUs idle, as ``fifo`` does for the
        first in the queue."""
        if not decision.is_by_policy:
            super()._note_wait(decision, fits=fits)
        else:
            self._delay = Delay()
        aside = NOT_ITS_TURN if decision.is_by_policy else ""
        if self._ticket is not None and self._ticket.aside != aside:
            self._ticket = replace(self._ticket, aside=aside)
            self._world.tickets.update(self._ticket)

    def _decide(self, action: RequestPlan) -> Decision:
        assert self._ticket is not None

        def plan(avoid: tuple[NodeId, ...] = (), *, blind: bool = False) -> PlacementPlan | NoFit:
            return self._plan(action, avoid, blind=blind)

        watcher = self._watcher
        decision, _ = decide_by_schedule(
            watcher.schedule(), self._ticket, watcher.contention(), plan,
            may_fit=self._may_fit(action), excluded=action.excluded,
            may_claim=self._claims.may_claim(self._world.timeline.now_s), explain=False,
        )  # fmt: skip
        return decision

    # ---- while its gang runs, or is suspended ------------------------------------------------

    @property
    def _is_suspended(self) -> bool:
        return self._gang.phase is Phase.SUSPENDED and self._gang.is_yielding

    def may_act(self, found: QueueSchedule, interrupted: frozenset[str]) -> bool:
        job = self._job.spec.name
        if self._is_polling:
            return False
        if self._is_suspended:
            return job in found.schedule.gpus
        return self._gang.phase is Phase.RUNNING and job in interrupted

    def poll_after(self, delay_s: float) -> None:
        self._is_polling = True
        self._world.timeline.after(delay_s, self._poll_policy)

    def _poll_policy(self) -> None:
        self._is_polling = False
        if not (self._gang.phase is Phase.RUNNING or self._is_suspended):
            self._before = None
            return
        found, job, size = self._watcher.schedule(), self._job.spec, self._size
        before, self._before = self._before, found.row(job.name)
        event = event_of(
            self._before,
            "the queue's policy",
            self._world.timeline.now_s,
            is_suspended=self._is_suspended,
            before=before,
            tasks_for=None if size is None else partial(tasks_for, job, self._gang, size),
            has_made_way=self._gang.is_sized_by_policy and not self._watcher.resizes,
        )
        if event is not None:
            self._before = None
            self._deliver(event)
        elif self._before.act is Act.RESIZE:
            self.poll_after(self._watcher.pause_s())
