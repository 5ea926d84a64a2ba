"""The ApplicationMaster's loop: events in, one step each, journal, act.

::

    inbox ──drain──► step, step, … ──one append──► journal ──► executor ──► ports
      ▲                                                                      │
      └────────────── answers, grants, reports, timers ◄─────────────────────┘

Everything that happens comes through one inbox, so the journal's order is the order of steps.
Nothing is done before the events that led to it are durable: a later AM attempt that folds the
journal knows at least as much as this one ever acted upon.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from yarnam.am.am_ports import AmPorts, PortExecutors
from yarnam.am.am_settings import AmSettings
from yarnam.am.executor import Executor
from yarnam.am.job_accounts import JobAccounts
from yarnam.am.output_storer import OutputStorer
from yarnam.am.plan_service import PlanService
from yarnam.am.probes.awaited_jobs_probe import AwaitedJobsProbe
from yarnam.am.probes.closures_probe import ClosuresProbe
from yarnam.am.probes.gang_observers import GangObservers
from yarnam.am.queue_client_shell import QueueClientShell
from yarnam.am.status_report import (
    AmFacts,
    StatusFacts,
    addressed,
    is_news,
    job_status,
    kept_place,
    progress,
    with_suspects,
)
from yarnam.core.accounting.attained_service import JobFacts
from yarnam.core.gang import RECENT_EVENTS, Gang, initial, policy_for, step
from yarnam.core.gang.am_attempts import is_obeyed, replaced_from_s
from yarnam.core.gang.elastic.sizing import WaitingJob
from yarnam.core.gang.state import departed
from yarnam.core.model.actions import Action
from yarnam.core.model.events import AgentRegistered, AmRestarted, Event, JobStarted, TimerKind
from yarnam.core.model.ids import ContainerId
from yarnam.core.model.job_status import JobStatus, PolicyStatus
from yarnam.core.model.metrics import AgentMetrics
from yarnam.core.model.outcomes import Verdict, VerdictKind
from yarnam.core.model.tickets import PolicyTicket
from yarnam.core.queues.queue_state import names_queue
from yarnam.errors import QuotaFull, Unavailable, YarnamError
from yarnam.ports import Clock, StateStore, Superseded
from yarnam.wire.codec import decode, encode, encode_event
from yarnam.wire.protocol import AM_FILE, SECRET_FILES, STATUS_FILE, TICKET_FILE, VERDICT_FILE
from yarnam.wire.records import AmRecord, JobRecord, TicketRecord

if TYPE_CHECKING:
    # Loaded for jobs that notify somebody.
    # Loaded for jobs that have inputs.
    from yarnam.am.inputs.input_integrity import InputIntegrity
    from yarnam.am.notifier import Notifier


log = logging.getLogger("yarnam.am")

LARGE_GANG = 100
"""Tasks of a gang whose status is not published after every event."""

TASKS_WATCHED_A_SECOND = 500
"""A look at a thousand tasks takes 50 to 200 ms of CPU: those of a larger gang come less often.
Their agents bring news every 4 s."""

T = TypeVar("T")


class EventInbox:
    """The queue of events. Thread-safe from ``open`` on. After the end of the loop nothing reads
    it, and a late report is dropped."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event] = asyncio.Queue()
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self) -> None:
        """Call it in the event loop that reads."""
        self._loop = asyncio.get_running_loop()

    def __call__(self, event: Event) -> None:
        if self._loop is None:
            self._queue.put_nowait(event)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._queue.put_nowait, event)

    async def batch(self) -> list[Event]:
        """All events that have come, in order: at least one."""
        events = [await self._queue.get()]
        while not self._queue.empty():
            events.append(self._queue.get_nowait())
        return events


@dataclass(frozen=True, slots=True)
class AmParts:
    """The parts of an ApplicationMaster, built by the composition root."""

    inbox: EventInbox
    clock: Clock
    executors: PortExecutors
    queue: QueueClientShell
    planning: PlanService
    storing: OutputStorer
    executor: Executor
    observers: GangObservers
    inputs: InputIntegrity | None
    """``None`` means the job has no inputs."""
    notifier: Notifier | None
    """``None`` means the job notifies nobody."""
    awaited_jobs: AwaitedJobsProbe
    closures: ClosuresProbe


class ApplicationMaster:
    """One attempt of a job's ApplicationMaster, from its start to the job's verdict. ``build``
    makes the parts; some of them ask for what only this object knows, once it runs."""

    def __init__(
        self,
        record: JobRecord,
        facts: AmFacts,
        ports: AmPorts,
        settings: AmSettings,
        build: Callable[[ApplicationMaster], AmParts],
    ) -> None:
        self._record = record
        self._facts = facts
        self._ports = ports
        self._settings = settings
        self._policy = policy_for(record.job)
        self._gang: Gang = initial(record.job)
        self._recent: deque[Event] = deque(maxlen=RECENT_EVENTS)
        self._trouble = ""
        self._published: JobStatus | None = None
        self._reported_progress: tuple[float, float] = (0.0, 0.0)
        self._accounts = JobAccounts(record)
        self._asides: set[asyncio.Task[None]] = set()
        self._has_reported_end = False
        self._begun = asyncio.Event()
        """The first events are journaled, and their actions performed."""
        parts = build(self)
        self._inbox = parts.inbox
        self._clock = parts.clock
        self._executors = parts.executors
        self._queue = parts.queue
        self._planning = parts.planning
        self._storing = parts.storing
        self._inputs = parts.inputs
        self._notifier = parts.notifier
        self._executor = parts.executor
        self._observers = parts.observers
        self._awaited_jobs = parts.awaited_jobs
        self._closures = parts.closures

    @property
    def gang(self) -> Gang:
        return self._gang

    def wait_ends_at_s(self) -> float | None:
        """When the gang machine's WAIT timer ends the job; ``None`` means it does not run."""
        return self._gang.deadline_s(TimerKind.WAIT)

    async def run(self) -> Verdict:
        """The job's verdict, carried out: persisted, agents sent off, the application ended.

        Raises Superseded when a newer AM attempt has the journal, Unavailable when HDFS stays
        away longer than ``AmSettings.journal_patience_s``; the application has not been ended then.
        """
        self._inbox.open()
        aside: list[asyncio.Task[None]] = []
        try:
            loop = asyncio.get_running_loop()
            # YARN's placement rules may have chosen another queue than the spec: it is asked while
            # the journal is read.
            aside.append(loop.create_task(self._follow_queue()))
            where = await self._open()
            # For clients, and for the agents of an earlier attempt: the others have the address in
            # their environment.
            aside.append(loop.create_task(self._announce(where)))
            aside.append(loop.create_task(self._watch()))
            aside.append(loop.create_task(self._awaited_jobs.run(lambda: self._gang)))
            aside.append(loop.create_task(self._follow_closures()))
            verdict = self._addressed(await self._serve())
            await self._farewell(verdict)
        finally:
            self._planning.close()
            await self._storing.close()
            if self._inputs is not None:
                await self._executors.inputs.call(self._inputs.close)
            self._ports.hints.close()
            if self._notifier is not None:
                await self._notifier.close()
            for task in aside:
                task.cancel()
            await asyncio.gather(*aside, *self._asides, return_exceptions=True)
            await self._queue.close()
            self._executors.close()
        return verdict

    # ---- life ----------------------------------------------------------------------------

    async def _open(self) -> AmRecord:
        """Listen, read the journal, publish the address, begin."""
        ports, inbox = self._ports, self._inbox
        self._queue.open()
        # Side by side: the first word with Skein's cold JVM takes as long as the journal.
        address, events, kept, _, _ = await asyncio.gather(
            self._executors.mailbox.call(lambda: ports.mailbox.start(inbox)),
            self._patiently("read the journal", ports.journal.replay),
            self._executors.broker.call(lambda: ports.broker.start(inbox)),
            self._resume_ticket(),
            self._executors.outputs.call(ports.confirm_claims),
        )
        if self._notifier is not None and self._facts.am_attempt > 1:
            await self._notifier.open()
        self._gang = self._accounts.replay(events)
        if events:
            log.info("read %d events of the journal: %s", len(events), self._gang.phase.value)
            self._show(events)
        log.info("agents and clients reach this ApplicationMaster at %s", address)
        inbox(first_event(self._facts.am_attempt, self._clock.now_s(), kept))
        if self._facts.am_attempt > 1:
            await self._take_requests(events)
        ports.hints.start(inbox)
        if self._inputs is not None:
            self._inputs.open(is_first_life=self._facts.am_attempt == 1)
        host, _, port = address.rpartition(":")
        return AmRecord(
            application=self._facts.application,
            am_attempt=self._facts.am_attempt,
            host=host.strip("[]"),
            port=int(port),
        )

    async def _take_requests(self, journal: Sequence[Event]) -> None:
        """The owner's requests since no AM answered, each once."""
        try:
            left = await self._executors.store.call(self._ports.left_requests)
        except YarnamError as error:
            log.warning("requests for this ApplicationMaster cannot be read: %s", error.message)
            return
        for request in left:
            if not is_obeyed(request, journal):
                log.info("left for this ApplicationMaster: %s", request)
                self._inbox(replace(request, at_s=self._clock.now_s()))
        if left:
            self._detach(self._forget_requests())

    async def _forget_requests(self) -> None:
        await self._begun.wait()
        await self._executors.store.call(self._ports.forget_requests)

    def _learn(self, batch: Sequence[Event]) -> None:
        """Keeps what the agents found on their nodes, for later plans of any job."""
        for event in batch:
            if isinstance(event, AgentRegistered) and event.gpu_model:
                self._aside(partial(self._ports.learn, event.node, event.gpu_model))

    def _settle_pre_run(self) -> None:
        """In a thread. Best effort: a pass that is not noted costs another pre-run."""
        store, status = self._ports.pre_runs, self._gang.pre_run
        if store is None or status is None:
            return
        try:
            store.settle(status, self._clock.now_s())
        except YarnamError as error:
            log.warning("the pre-run is not settled: %s", error.message)

    def _aside(self, call: Callable[[], None]) -> None:
        """Helps other jobs only: nothing waits for it."""
        self._detach(self._executors.courtesy.call(call))

    def _detach(self, work: Coroutine[None, None, None]) -> None:
        """Nothing waits for it but the end of this attempt."""
        task = asyncio.get_running_loop().create_task(work)
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)

    async def _resume_ticket(self) -> None:
        """Resumes the earlier AM attempt's position in the queue; the job gets a new one where that
        cannot be read."""
        if self._facts.am_attempt == 1 or not self._queue.client.has_queue:
            return
        try:
            reported = await self._executors.store.call(lambda: self._ports.store.get(TICKET_FILE))
            if reported is not None:
                self._queue.resume(decode(reported, TicketRecord))
        except YarnamError as error:
            log.warning("the job's position in the wait queue is lost: %s", error)

    def remember(self, record: TicketRecord) -> None:
        """Keeps the ticket's number for a later AM attempt."""
        self._detach(self._write_ticket(record))

    async def _write_ticket(self, record: TicketRecord) -> None:
        try:
            await self._put(TICKET_FILE, encode(record))
        except Superseded as error:
            log.warning("%s", error)  # The journal will say so too, and end this attempt.

    def waiters(self) -> Sequence[WaitingJob]:
        """The waiting jobs that YARN knows, and those that wait with a ticket and have not asked
        YARN yet."""
        return (*self._ports.waiters(), *self._queue.waiters())

    def _counted_end_s(self) -> float | None:
        """The end by the program's own count of steps; ``None`` if unknown. A prediction by the
        loss does not count: the program may train on."""
        predicted = self._published.predicted_end if self._published is not None else None
        return None if predicted is None or predicted.is_by_loss else predicted.end_at_s

    def policy_ticket(self, version: int = 0) -> PolicyTicket:
        """The job's report to the policy of its queue, of which it knows this version."""
        status = self._published
        predicted = status.predicted_end if status is not None else None
        steps_left = None
        if status is not None and status.total_steps and status.step is not None:
            steps_left = float(max(0, status.total_steps - status.step))
        elif predicted is not None and predicted.steps_left is not None:
            steps_left = float(predicted.steps_left)
        facts = JobFacts(self._facts.application, self._record.submitted_at_s, version, steps_left)
        return self._accounts.policy_ticket(self._gang, facts, self._clock.now_s())

    def open_checks(self) -> int:
        """Inputs that processes have reported and that are not checked yet."""
        return self._inputs.open_checks if self._inputs is not None else 0

    async def _announce(self, where: AmRecord) -> None:
        ends_s: Iterable[float] = ()
        if where.am_attempt > 1:
            ends_s = await self._executors.courtesy.call(self._ports.attempt_ends)
            # An agent that came before its gang is adopted would be told to leave.
            await self._begun.wait()
        where = replace(where, replaced_from_s=replaced_from_s(self._record.job.am, ends_s))
        try:
            await self._put(AM_FILE, encode(where))
        except Superseded as error:
            log.warning("%s", error)  # The journal will say so too, and end this attempt.

    async def _serve(self) -> Verdict:
        """Handles events until there is a verdict."""
        while True:
            verdict = await self._process(await self._inbox.batch())
            self._begun.set()
            if verdict is not None:
                return verdict

    async def _process(self, batch: Sequence[Event]) -> Verdict | None:
        metrics = self._ports.mailbox.metrics()
        batch = (*self._training_reports(metrics, at_once=True), *batch)
        before = self._gang
        actions = self._step(batch)
        await self._patiently("write the journal", lambda: self._ports.journal.append(batch))
        self._show(batch)
        self._queue.show(self._gang, self._counted_end_s())
        self._learn(batch)
        if before.is_pre_run and not self._gang.is_pre_run:
            self._aside(self._settle_pre_run)
        if self._inputs is not None:
            self._inputs.see(batch)
        if self._is_worth_publishing(before):
            self._show_status()
        verdict = await self._executor.perform(actions)
        await self._executor.dismiss(departed(before, self._gang))
        return verdict

    def _step(self, batch: Sequence[Event]) -> list[Action]:
        actions: list[Action] = []
        for event in batch:
            before = self._gang
            self._gang, more = step(before, event, self._policy, self._recent)
            self._accounts.take(before, event, self._gang)
            self._recent.append(event)
            actions += more
            log.debug("event %s", event)
            if self._gang.phase is not before.phase:
                log.info(
                    "%s -> %s on %s%s", before.phase.value, self._gang.phase.value,
                    type(event).__name__, f": {self._gang.reason}" if self._gang.reason else "",
                )  # fmt: skip
        return actions

    async def _farewell(self, verdict: Verdict) -> None:
        """Persists the verdict, lets the agents go and ends the application, in this order: once it
        is persisted, a later AM attempt obeys it."""
        self._planning.close()
        verdict = await self._recheck_suspects(verdict)
        status = self._status()
        if self._storing.is_unsettled(self._gang):
            # When the tasks are gone, and while a later AM attempt would still come back here.
            await self._send_off()
            await self._storing.settle(self._gang)
        await self._put(VERDICT_FILE, encode(verdict))
        self._show_status()
        if self._gang.is_pre_run:
            await self._executors.courtesy.call(self._settle_pre_run)
        # A journal left open cannot be read once its DataNode has been restarted, until HDFS gives
        # up the lease: 20 minutes later, or never where the NameNode restarts as well.
        await asyncio.gather(
            self._put(STATUS_FILE, encode(status)),
            self._notify_end(replace(status, verdict=verdict)),
            self._send_off(),
            self._executors.journal.call(self._ports.journal.close),
            self._keep_record(verdict, status),
        )
        # The tasks are gone. Before the shutdown, when the job's watchers submit the next one.
        await self._executors.outputs.call(self._ports.release_claims)
        # Before the shutdown, which ends this process. After a deliberate failure YARN starts the
        # next attempt, which cannot start without these files: the last one removes them.
        if verdict.kind is not VerdictKind.FAILED or self._facts.is_last_attempt:
            await self._executors.store.call(lambda: remove_secrets(self._ports.store))
        await self._executors.broker.call(lambda: self._ports.broker.shutdown(verdict))
        log.info("the application ends: %s", verdict.kind.value)

    async def _keep_record(self, verdict: Verdict, status: JobStatus) -> None:
        """Writes what stays of the job. Where that fails, a client completes it."""
        try:
            record = self._accounts.history_record(
                self._gang, verdict, self._facts, status.excluded_files
            )
            await self._executors.courtesy.call(lambda: self._ports.keep(record))
        except Exception:  # The job does not depend on its being remembered.
            log.exception("the history record is not written")

    async def _notify_end(self, status: JobStatus) -> None:
        """After the verdict, and before the application ends: an AM that dies here is followed by
        one that obeys the verdict and comes back here."""
        if self._notifier is not None:
            await self._notifier.finish(status)

    async def _recheck_suspects(self, verdict: Verdict) -> Verdict:
        """A failure that an input may have caused is reported with what was found in it."""
        inputs = self._inputs
        if inputs is not None:
            has_failed = verdict.kind is VerdictKind.FAILED
            limit_s = self._settings.recheck_s if has_failed else 0.0
            await self._executors.inputs.call(lambda: inputs.finish(limit_s))
            verdict = with_suspects(verdict, inputs.status().suspects)
        self._has_reported_end = True
        return verdict

    def _addressed(self, verdict: Verdict) -> Verdict:
        application = self._facts.application
        return addressed(
            verdict, application, kept_place(self._gang, self._record.job, application)
        )

    async def _send_off(self) -> None:
        """Wait for the agents to fetch their order to leave, and a moment for them to follow it."""
        waiting = await self._executors.mailbox.call(
            lambda: self._ports.mailbox.drain(self._settings.farewell_s)
        )
        if waiting:
            log.warning("%d agents did not come for their order to leave", waiting)
        elif self._gang.members:
            await self._ports.sleep(self._settings.leave_pause_s)

    # ---- what others see -----------------------------------------------------------------

    def _training_reports(
        self, metrics: Sequence[AgentMetrics], *, at_once: bool = False
    ) -> Sequence[Event]:
        return self._accounts.reports(self._gang, metrics, self._clock.now_s(), at_once=at_once)

    def _status(self, metrics: Sequence[AgentMetrics] | None = None) -> JobStatus:
        """``metrics``: what has just been read of them; ``None`` means nothing has."""
        now_s = self._clock.now_s()
        facts = StatusFacts(
            gang=self._gang,
            record=self._record,
            am=self._facts,
            now_s=now_s,
            metrics=self._ports.mailbox.metrics() if metrics is None else metrics,
            trouble=self._trouble
            or self._planning.trouble
            or self._awaited_jobs.trouble
            or self._ports.budget_trouble(),
            wait_queue=self._queue.client.waiting,
            no_ticket_reason=self._queue.trouble,
            output=self._storing.status(self._gang),
            inputs=self._inputs.status() if self._inputs is not None else None,
            staging=self._ports.mailbox.staging(),
            ledger=self._accounts.ledger(self._gang, now_s),
            holdings=self._accounts.holdings,
            policy=self._policy_status(),
        )
        return self._observers.completed(job_status(facts))

    def _policy_status(self) -> PolicyStatus | None:
        active, row = self._queue.client.policy, self._queue.client.decision
        if active is None:
            return None
        ticket = self.policy_ticket(active.version)
        shown = PolicyStatus(
            active.name,
            active.version,
            trouble=active.trouble,
            service_gpu_s=round(ticket.service(self._clock.now_s()), 1),
            pause_cost_s=ticket.pause_cost_s,
            can_suspend=ticket.can_suspend,
        )
        if row is None:
            return shown
        return replace(shown, act=row.act.value, gpus=row.gpus, rank=row.rank, why=row.why)

    def _publish(self, metrics: Sequence[AgentMetrics] | None = None) -> JobStatus:
        """Publishes the status if anything but its time has changed. The final status is published
        complete, since clients stop watching when they see it."""
        status = self._status(metrics)
        if self._notifier is not None and not status.state.is_final:
            self._notifier.see(status)
        if (
            self._inputs is not None
            and self._gang.verdict is not None
            and not self._has_reported_end
        ):
            return status
        shown = self._published
        if shown is None or is_news(status, shown, self._settings.ledger_period_s):
            self._published = status
            self._ports.publisher.publish(encode(status))
        return status

    def _show(self, events: Sequence[Event]) -> None:
        """To readers, on whom the job does not depend."""
        try:
            self._ports.publisher.record([encode_event(event) for event in events])
        except Exception:
            log.exception("cannot show the events")

    def _show_status(self) -> None:
        try:
            self._publish()
        except Exception:  # The job does not depend on its being watched.
            log.exception("cannot publish the status")

    def _is_worth_publishing(self, before: Gang) -> bool:
        """The status of a thousand tasks takes 20 ms of CPU, and they register and start one by
        one: what has changed of a large gang is seen at the next look (``status_period_s``)."""
        return self._gang.phase is not before.phase or len(self._gang.members) <= LARGE_GANG

    async def _watch(self) -> None:
        """Polls for metrics and troubles, which come without events."""
        while True:
            tasks = len(self._gang.members)
            least_s = self._settings.status_period_s
            await self._ports.sleep(max(least_s, tasks / TASKS_WATCHED_A_SECOND))
            try:
                # Of 1,000 ranks both take milliseconds to read: once for all.
                metrics = self._ports.mailbox.metrics()
                activity = self._ports.mailbox.activity()
                for report in self._training_reports(metrics):
                    self._inbox(report)
                await self._observers.observe(self._gang, metrics, activity)
                status = self._publish(metrics)
                fraction = progress(status)
                now_s = self._clock.now_s()
                reported, reported_at_s = self._reported_progress
                is_due = now_s - reported_at_s >= self._settings.progress_period_s
                if fraction is not None and fraction != reported and is_due:
                    self._reported_progress = (fraction, now_s)
                    await self._executors.courtesy.call(
                        partial(self._ports.broker.set_progress, fraction)
                    )
            except Exception:  # The job does not depend on its being watched.
                log.exception("cannot publish the status")

    async def _follow_closures(self) -> None:
        await self._closures.run(lambda: self._gang, lambda: self._record.job.queue)

    async def _follow_queue(self) -> None:
        """Where YARN has the job, its share, ticket and policy are."""
        while True:
            try:
                known = self._record.job.queue
                ask = partial(self._ports.queue_now, known)
                self._moved_to(await self._executors.courtesy.call(ask))
            except Exception:  # The job runs on in the queue that it knows.
                log.exception("cannot ask which queue the job is in")
            await self._ports.sleep(self._settings.queue_period_s)

    def _moved_to(self, reported: str) -> None:
        record, facts = self._record, self._facts
        if not reported or names_queue(reported, record.job.queue):
            return
        log.warning("the job has been moved from queue %s to %s", record.job.queue, reported)
        requested = facts.requested_queue or record.job.queue
        is_back = names_queue(reported, requested)
        self._facts = replace(facts, requested_queue="" if is_back else requested)
        self._record = replace(record, job=replace(record.job, queue=reported))
        for part in (self._planning, self._accounts):
            part.moved(self._record)
        self._queue.moved(reported)

    # ---- HDFS with patience --------------------------------------------------------------

    async def _patiently(self, doing: str, call: Callable[[], T]) -> T:
        """Retries while HDFS does not answer, up to the named limit."""
        deadline_s = self._clock.now_s() + self._settings.journal_patience_s
        while True:
            try:
                result = await self._executors.journal.call(call)
            except (Unavailable, QuotaFull) as error:
                left_s = deadline_s - self._clock.now_s()
                if left_s <= 0:
                    raise
                is_full = isinstance(error, QuotaFull)
                why = "HDFS is full" if is_full else "HDFS does not answer"
                self._trouble = f"cannot {doing}: {why}"
                log.warning("%s (%.0f s of patience left): %s", self._trouble, left_s, error)
                await self._ports.sleep(min(self._settings.retry_pause_s, left_s))
            else:
                self._trouble = ""
                return result

    async def _put(self, name: str, value: bytes) -> None:
        """Writes a record for other readers. Gives up after a while: the journal holds what
        matters."""
        deadline_s = self._clock.now_s() + self._settings.store_patience_s
        while True:
            try:
                await self._executors.store.call(lambda: self._ports.store.put(name, value))
            except (Unavailable, QuotaFull) as error:
                if self._clock.now_s() >= deadline_s:
                    log.error("%s could not be written: %s", name, error)
                    return
                log.warning("%s is not written yet: %s", name, error)
                await self._ports.sleep(self._settings.retry_pause_s)
            else:
                return


def remove_secrets(store: StateStore) -> None:
    """Best effort: where it fails, the next client that looks at the job does it."""
    try:
        for name in SECRET_FILES:
            store.remove(name)
    except YarnamError as error:
        log.warning("the job's secrets are not removed: %s", error)


def first_event(am_attempt: int, at_s: float, kept: Sequence[ContainerId]) -> Event:
    """The event that this AM attempt begins with; ``kept`` as in ``AmRestarted``."""
    if am_attempt == 1:
        return JobStarted(at_s)
    return AmRestarted(at_s, am_attempt, tuple(kept))
