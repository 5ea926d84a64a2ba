"""What the agent has to tell the AM, in order, each until acknowledged."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

METRICS_PERIOD_S = 1.0
"""Reports that bring nothing but newer metrics are at least this far apart."""


class Mailbox(Protocol):
    """As ``yarnam.agent.mailbox_client.MailboxClient``."""

    async def report(self, report: Any) -> None: ...


class Outbox:
    """No state is skipped, not even a short one; of metrics only the newest are told.

    Args:
        metrics: makes the report that tells them; None: there is nothing to tell now.
    """

    def __init__(self, metrics: Callable[[], Any]) -> None:
        self._metrics = metrics
        self._pending: deque[Any] = deque()
        self._wake = asyncio.Event()
        self._is_metrics_due = False

    @property
    def is_empty(self) -> bool:
        return not self._pending

    def put(self, report: Any) -> None:
        self._pending.append(report)
        self._wake.set()

    def metrics_are_due(self) -> None:
        """There are newer ones."""
        if not self._is_metrics_due:
            self._is_metrics_due = True
            self._wake.set()

    async def send_first(self, mailbox: Mailbox) -> None:
        """The AM knows an agent by its first report: whoever waits for directives sends it."""
        await mailbox.report(self._pending[0])
        self._pending.popleft()
        self._wake.set()

    async def send_for_ever(self, mailbox: Mailbox) -> None:
        """All but the first one."""
        loop = asyncio.get_running_loop()
        metrics_at = 0.0
        first = self._pending[0]
        while self._pending and self._pending[0] is first:
            self._wake.clear()
            await self._wake.wait()
        while True:
            self._wake.clear()
            while self._pending:
                await mailbox.report(self._pending[0])
                self._pending.popleft()
            report = self._metrics() if self._is_metrics_due else None
            if report is None:
                await self._wake.wait()
                continue
            late_s = metrics_at + METRICS_PERIOD_S - loop.time()
            if late_s > 0:
                await self._wake_within(late_s)
                continue
            self._is_metrics_due = False
            metrics_at = loop.time()
            await mailbox.report(report)

    async def _wake_within(self, wait_s: float) -> None:
        try:
            await asyncio.wait_for(self._wake.wait(), wait_s)
        except asyncio.TimeoutError:
            pass
