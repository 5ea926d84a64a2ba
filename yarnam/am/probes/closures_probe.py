"""Looks which nodes administrators have cordoned or drain, and whether they drain the job's
queue."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from yarnam.am.am_settings import AmSettings
from yarnam.am.serial_executor import SerialExecutor
from yarnam.core.gang import Gang
from yarnam.core.model.events import ContainersMarked, CordonedNode, NodesCordoned
from yarnam.core.model.job_spec import STOP_MARGIN_S
from yarnam.core.model.job_status import Phase
from yarnam.core.model.snapshot import Closures
from yarnam.ports import Clock, Inbox

log = logging.getLogger("yarnam.am")


class ClosuresProbe:
    """``closures`` is asked in ``executor``; ``stop_grace_s``: the job's own."""

    def __init__(
        self,
        closures: Callable[[], Closures | None],
        executor: SerialExecutor,
        clock: Clock,
        inbox: Inbox,
        settings: AmSettings,
        stop_grace_s: float,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._closures = closures
        self._executor = executor
        self._clock = clock
        self._inbox = inbox
        self._settings = settings
        self._stop_s = stop_grace_s + STOP_MARGIN_S
        self._sleep = sleep

    async def run(self, gang: Callable[[], Gang], queue: Callable[[], str]) -> None:
        """Sends ``NodesCordoned`` when that has changed. Stops a gang whose queue is drained, in
        time, as before a preemption."""
        while True:
            try:
                found = await self._executor.call(self._closures)
                # A new ApplicationMaster keeps to what the journal says until ZooKeeper answers.
                if found is not None:
                    self._send(found, gang(), queue())
            except Exception:  # The job continues where it is.
                log.exception("cannot look which nodes are cordoned")
            await self._sleep(self._settings.closures_period_s)

    def _send(self, found: Closures, gang: Gang, queue: str) -> None:
        now_s = self._clock.now_s()
        cordoned = cordoned_nodes(found)
        if cordoned != gang.nodes.cordoned and gang.verdict is None:
            self._inbox(NodesCordoned(now_s, cordoned))
        stopped = found.of_queue(queue)
        if stopped is None or stopped[1].drain_by_s is None or gang.phase is not Phase.RUNNING:
            return
        # With the next look it might be too late.
        due_s = stopped[1].drain_by_s - self._stop_s - self._settings.closures_period_s
        if now_s >= due_s:
            self._inbox(ContainersMarked(now_s, (), f"{stopped[1].by} (drains {stopped[0]})"))


def cordoned_nodes(closures: Closures) -> tuple[CordonedNode, ...]:
    return tuple(
        CordonedNode(node, f"cordoned {one.words}", one.drain_by_s)
        for node, one in sorted(closures.nodes.items())
    )
