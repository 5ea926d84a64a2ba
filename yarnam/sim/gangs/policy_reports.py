"""The reports of a job in the model of YARN to the policy of its queue: by the functions of the
ApplicationMaster (``attained_service``), and by the steps of its training here."""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.accounting.attained_service import JobFacts, Service, policy_ticket, served
from yarnam.core.accounting.ledger import account, open_accounts
from yarnam.core.accounting.training_reports import is_due
from yarnam.core.gang import Gang, policy_for
from yarnam.core.model.events import Event, TrainingReported
from yarnam.core.model.job_status import Phase
from yarnam.core.model.tickets import PolicyTicket
from yarnam.sim.gangs.job_training import JobTraining
from yarnam.sim.sim_settings import SimJob


class PolicyReports:
    def __init__(self, job: SimJob, training: JobTraining) -> None:
        self._job = job
        self._training = training
        self._size = policy_for(job.spec).size
        self._service = Service()
        self._books = open_accounts(job.submit_s)
        self._reported: TrainingReported | None = None

    def stepped(self, before: Gang, event: Event, after: Gang) -> None:
        self._books = account(self._books, before, event, after)
        self._service = served(self._service, before, event, after, self._books)

    def policy_ticket(self, gang: Gang, now_s: float) -> PolicyTicket:
        facts = JobFacts(self._job.spec.name, self._job.submit_s, 0, self._training.left_s(now_s))
        return policy_ticket(
            self._job.spec, gang, self._size, self._service, self._books, facts, now_s
        )

    def first(self, gang: Gang, attempt: int, now_s: float) -> TrainingReported | None:
        """The first report of a run, with a checkpoint. ``None`` if the run is over."""
        if gang.phase is not Phase.RUNNING or gang.attempt != attempt:
            return None
        done = self._training.step(now_s) if self._size is not None else 0
        self._reported = TrainingReported(now_s, attempt, done, saved_step=done)
        return self._reported

    def before(self, event: Event, gang: Gang, now_s: float) -> TrainingReported | None:
        """Report the steps of an elastic gang: they give its speed at its size."""
        last = self._reported
        if last is None or self._size is None or isinstance(event, TrainingReported):
            return None
        if gang.phase is not Phase.RUNNING or gang.attempt != last.attempt:
            return None
        new = replace(last, at_s=now_s, step=self._training.step(now_s))
        if not is_due(last, new, at_once=True):
            return None
        self._reported = new
        return new
