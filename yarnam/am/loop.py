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
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from yarnam.am.executor import Executor
from yarnam.am.line import Line
from yarnam.am.outside import AmPorts, Lanes
from yarnam.am.planning import Planning
from yarnam.am.recovery import first_event, replayed
from yarnam.am.settings import AmSettings
from yarnam.am.status import AmFacts, addressed, job_status, kept_place, progress, with_suspects
from yarnam.am.storing import Storing
from yarnam.am.turn_taking import TurnTaking
from yarnam.errors import Unavailable, YarnamError
from yarnam.gang import Gang, initial, policy_for, step
from yarnam.gang.sizing import Waiter
from yarnam.model.actions import Action
from yarnam.model.events import AgentRegistered, Event, TimerKind
from yarnam.model.outcomes import Verdict, VerdictKind
from yarnam.model.status import JobStatus
from yarnam.ports import Clock, Inbox, Superseded
from yarnam.wire.codec import decode, encode, encode_event
from yarnam.wire.protocol import AM_FILE, STATUS_FILE, TICKET_FILE, VERDICT_FILE
from yarnam.wire.records import AmRecord, JobRecord, TicketRecord

if TYPE_CHECKING:
    # Loaded for jobs that have inputs.
    from yarnam.am.inputs import Inputs

log = logging.getLogger("yarnam.am")

T = TypeVar("T")


class ApplicationMaster:
    """One attempt of a job's ApplicationMaster, from its start to the job's verdict."""

    def __init__(
        self,
        record: JobRecord,
        facts: AmFacts,
        ports: AmPorts,
        settings: AmSettings | None = None,
    ) -> None:
        self._record = record
        self._facts = facts
        self._ports = ports
        self._settings = settings or AmSettings()
        self._policy = policy_for(record.job)
        self._gang: Gang = initial(record.job)
        self._queue: asyncio.Queue[Event] = asyncio.Queue()
        self._lanes = Lanes(ports.lane)
        self._trouble = ""
        self._published: JobStatus | None = None
        self._progress_told: tuple[float, float] = (0.0, 0.0)
        self._asides: set[asyncio.Task[None]] = set()
        self._clock: Clock
        self._line: Line
        self._turns: TurnTaking
        self._planning: Planning
        self._storing: Storing
        self._inputs: Inputs | None = None
        self._is_end_told = False
        self._executor: Executor

    @property
    def gang(self) -> Gang:
        return self._gang

    async def run(self) -> Verdict:
        """The job's verdict, carried out: persisted, agents sent off, the application ended.

        Raises Superseded when a newer AM attempt has the journal, Unavailable when HDFS stays
        away longer than ``AmSettings.journal_patience_s``; the application has not been ended then.
        """
        ports = self._ports
        inbox = self._thread_safe_inbox(asyncio.get_running_loop())
        self._clock = ports.clock(inbox)
        self._line = Line(
            self._record.job, self._record.targets, self._facts.application, ports.office,
            self._lanes.office, self._clock, self._settings, self._remember, ports.sleep,
        )  # fmt: skip
        self._turns = TurnTaking(
            self._line, self._lanes.view, self._clock, self._settings, ports.draw, ports.sleep,
            lambda: self._gang.deadline_s(TimerKind.WAIT),
        )  # fmt: skip
        self._planning = Planning(
            self._record, ports.view, self._lanes.view, self._clock, inbox,
            self._settings, ports.sleep, self._waiters, self._turns,
        )  # fmt: skip
        self._storing = Storing(
            self._record.job, ports.outputs, self._lanes.outputs, self._clock, inbox,
            self._settings, ports.sleep,
        )  # fmt: skip
        self._executor = Executor(
            ports.broker, ports.mailbox, self._clock, self._planning, inbox, ports.draw,
            self._lanes.broker, self._lanes.mailbox, ports.hints, self._lanes.courtesy,
            self._storing,
        )  # fmt: skip
        if ports.data is not None:
            from yarnam.am.inputs import Inputs

            self._inputs = Inputs(
                self._record.job, self._facts.application, ports.data, ports.store, inbox,
                self._clock.now_s,
            )  # fmt: skip
        aside: list[asyncio.Task[None]] = []
        try:
            where = await self._open(inbox)
            loop = asyncio.get_running_loop()
            # Clients only read it: the agents have the address in their environment.
            aside.append(loop.create_task(self._announce(where)))
            aside.append(loop.create_task(self._watch()))
            verdict = self._addressed(await self._serve())
            await self._farewell(verdict)
        finally:
            self._planning.close()
            await self._storing.close()
            if self._inputs is not None:
                await self._lanes.inputs.call(self._inputs.close)
            ports.hints.close()
            for task in aside:
                task.cancel()
            await asyncio.gather(*aside, *self._asides, return_exceptions=True)
            await self._line.close()
            self._lanes.close()
        return verdict

    # ---- life ----------------------------------------------------------------------------

    async def _open(self, inbox: Inbox) -> AmRecord:
        """Listen, read the journal, say where we are, begin."""
        ports = self._ports
        self._line.open()
        # Side by side: the first word with Skein's cold JVM takes as long as the journal.
        address, events, _, _ = await asyncio.gather(
            self._lanes.mailbox.call(lambda: ports.mailbox.start(inbox)),
            self._patiently("read the journal", ports.journal.replay),
            self._lanes.broker.call(lambda: ports.broker.start(inbox)),
            self._resume_in_line(),
        )
        self._gang = replayed(self._record.job, events)
        if events:
            log.info("read %d events of the journal: %s", len(events), self._gang.phase.value)
            ports.desk.record([encode_event(event) for event in events])
        log.info("agents and clients reach this ApplicationMaster at %s", address)
        inbox(first_event(self._facts.am_attempt, self._clock.now_s()))
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

    def _learn(self, batch: Sequence[Event]) -> None:
        """What the agents have seen of their nodes, for later plans of anybody's."""
        for event in batch:
            if isinstance(event, AgentRegistered) and event.gpu_model:
                self._aside(partial(self._ports.learn, event.node, event.gpu_model))

    def _aside(self, call: Callable[[], None]) -> None:
        """A courtesy to others: nothing waits for it."""
        task = asyncio.get_running_loop().create_task(self._lanes.courtesy.call(call))
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)

    async def _resume_in_line(self) -> None:
        """At the place that an earlier AM attempt had; a new one, where that cannot be read."""
        if self._facts.am_attempt == 1 or not self._line.is_there:
            return
        try:
            told = await self._lanes.store.call(lambda: self._ports.store.get(TICKET_FILE))
            if told is not None:
                self._line.resume(decode(told, TicketRecord))
        except YarnamError as error:
            log.warning("the place in the line is lost: %s", error)

    def _remember(self, place: TicketRecord) -> None:
        """For a later AM attempt. Nothing waits for it."""
        task = asyncio.get_running_loop().create_task(self._write_place(place))
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)

    async def _write_place(self, place: TicketRecord) -> None:
        try:
            await self._put(TICKET_FILE, encode(place))
        except Superseded as error:
            log.warning("%s", error)  # The journal will say so too, and end this attempt.

    def _waiters(self) -> Sequence[Waiter]:
        """As YARN knows them, and those who ask it for nothing before their turn."""
        return (*self._ports.waiters(), *self._line.waiters())

    async def _announce(self, where: AmRecord) -> None:
        try:
            await self._put(AM_FILE, encode(where))
        except Superseded as error:
            log.warning("%s", error)  # The journal will say so too, and end this attempt.

    async def _serve(self) -> Verdict:
        """Events until the verdict."""
        while True:
            batch = [await self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get_nowait())
            verdict = await self._turn(batch)
            if verdict is not None:
                return verdict

    async def _turn(self, batch: Sequence[Event]) -> Verdict | None:
        actions = self._step(batch)
        await self._patiently("write the journal", lambda: self._ports.journal.append(batch))
        self._ports.desk.record([encode_event(event) for event in batch])
        self._line.show(self._gang)
        self._learn(batch)
        if self._inputs is not None:
            self._inputs.see(batch)
        self._publish()
        return await self._executor.perform(actions)

    def _step(self, batch: Sequence[Event]) -> list[Action]:
        actions: list[Action] = []
        for event in batch:
            before = self._gang
            self._gang, more = step(before, event, self._policy)
            actions += more
            log.debug("event %s", event)
            if self._gang.phase is not before.phase:
                log.info(
                    "%s -> %s on %s%s", before.phase.value, self._gang.phase.value,
                    type(event).__name__, f": {self._gang.reason}" if self._gang.reason else "",
                )  # fmt: skip
        return actions

    async def _farewell(self, verdict: Verdict) -> None:
        """Persist, let the agents go, end the application, in this order: from the first line on
        a later AM attempt obeys the verdict."""
        self._planning.close()
        verdict = await self._look_at_suspects(verdict)
        status = self._status()
        if self._storing.is_unsettled(self._gang):
            # When the tasks are gone, and while a later AM attempt would still come back here.
            await self._send_off()
            await self._storing.settle(self._gang)
        await self._put(VERDICT_FILE, encode(verdict))
        self._publish()
        await asyncio.gather(self._put(STATUS_FILE, encode(status)), self._send_off())
        await self._lanes.broker.call(lambda: self._ports.broker.shutdown(verdict))
        log.info("the application ends: %s", verdict.kind.value)

    async def _look_at_suspects(self, verdict: Verdict) -> Verdict:
        """A failure that may be an input's fault is told with what was found in it."""
        inputs = self._inputs
        if inputs is not None:
            has_failed = verdict.kind is VerdictKind.FAILED
            limit_s = self._settings.recheck_s if has_failed else 0.0
            await self._lanes.inputs.call(lambda: inputs.finish(limit_s))
            verdict = with_suspects(verdict, inputs.status().suspects)
        self._is_end_told = True
        return verdict

    def _addressed(self, verdict: Verdict) -> Verdict:
        application = self._facts.application
        return addressed(
            verdict, application, kept_place(self._gang, self._record.job, application)
        )

    async def _send_off(self) -> None:
        """Wait for the agents to fetch their order to leave, and a moment for them to follow it."""
        waiting = await self._lanes.mailbox.call(
            lambda: self._ports.mailbox.drain(self._settings.farewell_s)
        )
        if waiting:
            log.warning("%d agents did not come for their order to leave", waiting)
        elif self._gang.members:
            await self._ports.sleep(self._settings.leave_pause_s)

    # ---- what others see -----------------------------------------------------------------

    def _status(self) -> JobStatus:
        return job_status(
            self._gang,
            self._record,
            self._facts,
            self._ports.mailbox.metrics(),
            self._clock.now_s(),
            self._trouble or self._planning.trouble,
            self._turns.waiting,
            self._line.trouble,
            self._storing.status(self._gang),
            self._inputs.status() if self._inputs is not None else None,
            self._ports.mailbox.staging(),
        )

    def _publish(self) -> JobStatus:
        """Show the status, if anything but its time has changed. An end is shown as a whole: who
        watches the job leaves with it."""
        status = self._status()
        if self._inputs is not None and self._gang.verdict is not None and not self._is_end_told:
            return status
        shown = self._published
        if shown is None or replace(status, at_s=shown.at_s) != shown:
            self._published = status
            self._ports.desk.publish(encode(status))
        return status

    async def _watch(self) -> None:
        """Metrics and troubles come without events: look at them now and then."""
        while True:
            await self._ports.sleep(self._settings.status_period_s)
            try:
                status = self._publish()
                fraction = progress(status)
                now_s = self._clock.now_s()
                told, told_at_s = self._progress_told
                is_due = now_s - told_at_s >= self._settings.progress_period_s
                if fraction is not None and fraction != told and is_due:
                    self._progress_told = (fraction, now_s)
                    await self._lanes.courtesy.call(
                        partial(self._ports.broker.set_progress, fraction)
                    )
            except Exception:  # The job does not depend on its being watched.
                log.exception("cannot publish the status")

    # ---- HDFS with patience --------------------------------------------------------------

    async def _patiently(self, doing: str, call: Callable[[], T]) -> T:
        """Again and again while HDFS does not answer, up to the named limit."""
        deadline_s = self._clock.now_s() + self._settings.journal_patience_s
        while True:
            try:
                result = await self._lanes.journal.call(call)
            except Unavailable as error:
                left_s = deadline_s - self._clock.now_s()
                if left_s <= 0:
                    raise
                self._trouble = f"cannot {doing}: HDFS does not answer"
                log.warning("%s (%.0f s of patience left): %s", self._trouble, left_s, error)
                await self._ports.sleep(min(self._settings.retry_pause_s, left_s))
            else:
                self._trouble = ""
                return result

    async def _put(self, name: str, value: bytes) -> None:
        """A record for others; given up after a while, for the journal holds what matters."""
        deadline_s = self._clock.now_s() + self._settings.store_patience_s
        while True:
            try:
                await self._lanes.store.call(lambda: self._ports.store.put(name, value))
            except Unavailable as error:
                if self._clock.now_s() >= deadline_s:
                    log.error("%s could not be written: %s", name, error)
                    return
                log.warning("%s is not written yet: %s", name, error)
                await self._ports.sleep(self._settings.retry_pause_s)
            else:
                return

    def _thread_safe_inbox(self, loop: asyncio.AbstractEventLoop) -> Inbox:
        def put(event: Event) -> None:
            # After the end nobody reads any more: a late report is dropped.
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._queue.put_nowait, event)

        return put
