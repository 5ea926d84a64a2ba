"""Sends the notifications that a job's spec asks for: each state once to each channel.

What has been sent is recorded on HDFS after it was sent, so an AM that dies in between sends it
once more in its next attempt: at least once, and with the same id. A state that this attempt could
not report is reported by the next one if it reaches it, which holds for every end.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence

from yarnam.am.am_settings import AmSettings
from yarnam.am.plan_service import Sleep
from yarnam.am.serial_executor import SerialExecutor
from yarnam.am.status_report import AmFacts
from yarnam.core.model.job_spec import ChannelSpec
from yarnam.core.model.job_status import JobState, JobStatus
from yarnam.core.model.outcomes import Verdict
from yarnam.core.observers.silence_observer import NAME as SILENCE
from yarnam.errors import YarnamError
from yarnam.ports import StateStore
from yarnam.ports.notifications import Notification, NotificationSender
from yarnam.wire.codec import decode, encode
from yarnam.wire.protocol import NOTIFIED_FILE
from yarnam.wire.records import JobRecord, NotifiedRecord

log = logging.getLogger("yarnam.am")

TRIES = 6
RETRY_FIRST_S = 1.0
"""Doubled after each try: a receiver that restarts gets half a minute."""


class Notifier:
    """The notifications of one AM attempt. All calls from the event loop."""

    def __init__(
        self,
        channels: Sequence[ChannelSpec],
        sender: NotificationSender,
        store: StateStore,
        executor: Callable[[str], SerialExecutor],
        settings: AmSettings,
        sleep: Sleep,
    ) -> None:
        """``executor`` makes one by name. Each channel has its own, so that a slow receiver delays
        no other."""
        self._channels = channels
        self._sender = sender
        self._store = store
        self._of_store = executor("notified")
        self._of_channels = [executor(f"notify-{number}") for number in range(len(channels))]
        self._settings = settings
        self._sleep = sleep
        self._begun: set[tuple[int, str]] = set()
        self._sent: set[tuple[int, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Read what earlier AM attempts have sent. Where that cannot be read, it is sent again."""
        try:
            content = await self._of_store.call(lambda: self._store.get(NOTIFIED_FILE))
            if content is not None:
                self._sent = set(decode(content, NotifiedRecord).sent)
                self._begun = set(self._sent)
        except YarnamError as error:
            log.warning("which notifications have been sent is not known: %s", error.message)

    def see(self, status: JobStatus) -> None:
        """Begin to send what this status asks for, unless that was done. Returns immediately."""
        silence = next((one for one in status.conditions if one.type == SILENCE), None)
        for number, channel in enumerate(self._channels):
            if status.state in channel.states:
                self._begin(number, status.state.value, notification_of(number, status))
            # Whoever wants to know of a failure wants to know of this.
            if silence is not None and JobState.FAILED in channel.states:
                name = f"{SILENCE} {status.attempt}"
                self._begin(number, name, notification_of(number, status, name, silence.message))

    def _begin(self, channel: int, name: str, notification: Notification) -> None:
        if (channel, name) in self._begun:
            return
        self._begun.add((channel, name))
        task = asyncio.get_running_loop().create_task(self._deliver(channel, name, notification))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self, status: JobStatus) -> None:
        """Send what the end asks for, and wait until all is sent, at most ``notify_limit_s``."""
        self.see(status)
        if not self._tasks:
            return
        everything = asyncio.ensure_future(self._all())
        limit = asyncio.ensure_future(self._sleep(self._settings.notify_limit_s))
        await asyncio.wait((everything, limit), return_when=asyncio.FIRST_COMPLETED)
        if not everything.done():
            log.error("%d notifications are not sent at the job's end", len(self._tasks))
        everything.cancel()
        limit.cancel()

    async def _all(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        """Give up what is under way."""
        for task in tuple(self._tasks):
            task.cancel()
        for executor in (self._of_store, *self._of_channels):
            executor.close()

    async def _deliver(self, channel: int, name: str, notification: Notification) -> None:
        about = f"notification of {name} by {self._sender.describe(channel)}"
        for tried in range(1, TRIES + 1):
            try:
                await self._of_channels[channel].call(
                    lambda: self._sender.send(channel, notification)
                )
            except YarnamError as error:
                log.warning("%s failed (%d of %d): %s", about, tried, TRIES, error.message)
                if tried < TRIES:
                    await self._sleep(RETRY_FIRST_S * 2 ** (tried - 1))
                continue
            log.info("%s sent", about)
            await self._record(channel, name)
            return
        log.error("%s given up", about)

    async def _record(self, channel: int, name: str) -> None:
        self._sent.add((channel, name))
        content = encode(NotifiedRecord(tuple(sorted(self._sent))))
        try:
            await self._of_store.call(lambda: self._store.put(NOTIFIED_FILE, content))
        except YarnamError as error:
            log.warning("a later AM attempt may send it again: %s", error.message)


async def notify_failure(
    notifier: Notifier, record: JobRecord, facts: AmFacts, verdict: Verdict
) -> None:
    """The end of a job whose last AM attempt has failed: there is no gang to ask."""
    job = record.job
    await notifier.open()
    await notifier.finish(
        JobStatus(
            application=facts.application,
            name=job.name,
            user=job.user,
            queue=job.queue,
            state=JobState[verdict.kind.name],
            verdict=verdict,
            tracking_url=facts.tracking_url,
        )
    )
    await notifier.close()


def notification_of(
    channel: int, status: JobStatus, finding: str = "", message: str = ""
) -> Notification:
    """The notification of this status for a channel, or of the finding of this name. Its id stands
    for job, channel and state or finding."""
    verdict = status.verdict
    name = f"{status.application}/{channel}/{finding or status.state.value}"
    return Notification(
        id=hashlib.sha256(name.encode()).hexdigest()[:32],
        application=status.application,
        name=status.name,
        user=status.user,
        queue=status.queue,
        state=status.state,
        at_s=verdict.decided_at_s if verdict is not None else status.at_s,
        message=message or (verdict.message if verdict is not None else status.reason),
        hint=verdict.hint if verdict is not None else "",
        exit_code=verdict.exit_code if verdict is not None else None,
        tracking_url=status.tracking_url,
    )
