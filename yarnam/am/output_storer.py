"""Performs ``StoreOutputs`` in the background, and retries while HDFS is in trouble. The gang
machine limits how long that may take (timer STORE); this module only reports the trouble."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from math import inf
from typing import TypeVar

from hdfs_utils.concurrency.retry import Backoff, retry_async
from yarnam.am.am_settings import AmSettings
from yarnam.am.serial_executor import SerialExecutor
from yarnam.am.status_report import is_kept
from yarnam.core.gang import Gang
from yarnam.core.model.actions import LaunchGang, StopStoring, StoreOutputs
from yarnam.core.model.events import OutputsStored, StoringFailed, StoringTroubled
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.job_status import OutputStatus, Phase
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import ExitCode, QuotaFull, Unavailable, YarnamError
from yarnam.ports import Clock, Inbox, Superseded
from yarnam.ports.output_store import OutputStore, StoredOutputs, StoringProgress

log = logging.getLogger("yarnam.am")
T = TypeVar("T")

_UNIQUE = re.compile(r"[0-9a-f]{32}|[0-9]+")
"""The parts of a message in which the same trouble differs from try to try: names of temporary
files, counts."""


@dataclass
class OutputStorer:
    """Stores the outputs of one job. ``store`` None: the job has none, and every call does
    nothing."""

    job: JobSpec
    store: OutputStore | None
    executor: SerialExecutor
    clock: Clock
    inbox: Inbox
    settings: AmSettings
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _progress: StoringProgress | None = None
    _trouble_code: ExitCode = ExitCode.UNAVAILABLE
    """The trouble that was reported last."""
    _stopped: threading.Event = field(default_factory=threading.Event)
    _task: asyncio.Task[None] | None = None

    async def prepare(self, action: LaunchGang) -> None:
        """Makes the tasks' directories in advance. Writing makes them too, so trouble of HDFS
        delays nothing."""
        store = self.store
        if store is None:
            return
        tasks = [member.task for member in action.members]
        try:
            await self.executor.call(lambda: store.prepare(action.attempt, tasks))
        except YarnamError as error:
            log.warning("the outputs' places are not made in advance: %s", error)

    def perform(self, action: StoreOutputs | StopStoring) -> None:
        """Starts storing, or stops it. A store under way notices the stop; without one, the state
        on HDFS is read to tell how far it had come."""
        if isinstance(action, StopStoring):
            self._stopped.set()
        if self._task is None or self._task.done():
            work = (
                self._store(action)
                if isinstance(action, StoreOutputs)
                else self._find_stored(action)
            )
            self._task = asyncio.get_running_loop().create_task(work)

    async def close(self) -> None:
        self._stopped.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def status(self, gang: Gang) -> OutputStatus | None:
        """How much of the output is stored; ``None`` means there is nothing to report."""
        if self.store is None:
            return None
        path, stored, seen = self.job.output, gang.stored, self._progress
        if stored is not None:
            return OutputStatus(
                path, stored.files, stored.size_bytes, stored.files, True, stored.renamed
            )
        if gang.phase is not Phase.STORING or seen is None:
            return None
        return OutputStatus(path, seen.files, seen.size_bytes, seen.moved)

    def is_unsettled(self, gang: Gang) -> bool:
        """Whether the job has ended without success, so that what its tasks wrote must be kept or
        deleted."""
        verdict = gang.verdict
        is_over = verdict is not None and verdict.kind is not VerdictKind.SUCCEEDED
        return self.store is not None and is_over and bool(gang.history)

    async def settle(self, gang: Gang) -> None:
        """Keeps or deletes what the tasks wrote. Where the gang succeeded and storing failed, it is
        always kept."""
        store = self.store
        if store is None:
            return
        keeps = is_kept(gang, self.job)
        try:
            await self._retry(
                lambda: store.give_up(is_kept=keeps), self.settings.store_patience_s,
                (Unavailable, QuotaFull), "what the tasks wrote is not settled yet",
            )  # fmt: skip
        except YarnamError as error:
            log.error("what the tasks wrote is left where it is: %s", error)

    async def _retry(
        self, call: Callable[[], T], limit_s: float, kinds: tuple[type[YarnamError], ...], what: str
    ) -> T:
        pause_s = self.settings.retry_pause_s
        return await retry_async(
            lambda: self.executor.call(call),
            limit_s,
            is_retriable=lambda error: isinstance(error, kinds),
            on_failure=lambda error, _: log.warning("%s: %s", what, error.message),
            backoff=Backoff(pause_s, pause_s, is_jittered=False),
            sleep=self.sleep,
            now_s=self.clock.now_s,
        )

    # ---- beside the loop -------------------------------------------------------------------

    async def _store(self, action: StoreOutputs) -> None:
        store = self.store
        if store is None:
            return
        attempt, reported = action.attempt, ""
        while not self._stopped.is_set():
            try:
                stored = await self.executor.call(
                    lambda: store.store(
                        attempt, action.tasks, self._note_progress, self._stopped.is_set
                    )
                )
            except (Unavailable, QuotaFull, Superseded) as error:
                # Superseded ends this AM when it writes the event down: nothing to do here.
                log.warning("storing the outputs: %s", error.message)
                self._trouble_code = error.exit_code
                if (trouble := _UNIQUE.sub("", error.message)) != reported:
                    reported = trouble
                    self.inbox(StoringTroubled(self.clock.now_s(), attempt, error.message))
                await self.sleep(self.settings.retry_pause_s)
            except Exception as error:  # noqa: BLE001 - the gang must not wait for ever
                self._fail(attempt, error)
                return
            else:
                if stored is not None:
                    self._stored(attempt, stored)
                    return
        await self._find_stored(action)

    async def _find_stored(self, action: StoreOutputs | StopStoring) -> None:
        """Reports the state of the output, in answer to ``StopStoring``. The gang machine waits for
        it for a limited time only."""
        store, attempt = self.store, action.attempt
        if store is None:
            return
        kinds = (Unavailable, QuotaFull, Superseded)
        try:
            stored = await self._retry(store.find_stored, inf, kinds, "checking the outputs")
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(attempt, error)
            return
        if stored is not None:
            self._stored(attempt, stored)
        else:
            now_s = self.clock.now_s()
            self.inbox(StoringFailed(now_s, attempt, int(self._trouble_code), "it was stopped"))

    def _note_progress(self, progress: StoringProgress) -> None:
        """Called in the executor's thread; readers take the newest value."""
        self._progress = progress

    def _stored(self, attempt: int, stored: StoredOutputs) -> None:
        event = OutputsStored(
            self.clock.now_s(), attempt, stored.files, stored.size_bytes, stored.renamed
        )
        self.inbox(event)

    def _fail(self, attempt: int, error: Exception) -> None:
        if isinstance(error, YarnamError):
            code, text, hint = int(error.exit_code), error.message, error.hint
        else:
            log.error("storing the outputs failed", exc_info=error)
            code, text = int(ExitCode.INTERNAL), f"internal: {error!r}"
            hint = "See application.driver.log of the ApplicationMaster; this is worth a report."
        self.inbox(StoringFailed(self.clock.now_s(), attempt, code, text, hint))


def storing_text(action: StoreOutputs | StopStoring) -> str:
    """One line for the log."""
    if isinstance(action, StoreOutputs):
        return f"store the outputs of {len(action.tasks)} tasks, attempt {action.attempt}"
    return f"store no more of attempt {action.attempt}: {action.reason}"
