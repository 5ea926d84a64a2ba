"""Looks for a gang that hangs: when it seems to, all agents dump the stacks of their processes, and
the gang machine is told, with what they found."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace

from yarnam.am.serial_executor import SerialExecutor
from yarnam.core.failures.hang_detection import (
    find_hang,
    hang_finding,
    looks_like_hang,
    where_text,
)
from yarnam.core.gang import Gang, MemberState
from yarnam.core.model.events import GangHung
from yarnam.core.model.job_spec import HangSpec
from yarnam.core.model.job_status import Phase
from yarnam.ports import Clock, Inbox, TaskMailbox

log = logging.getLogger("yarnam.am")

DUMP_LIMIT_S = 8.0
"""For all agents to answer: a call (2 s at most until they hear of it), and what the slowest tool
takes (3 s) once or twice."""

MAX_STACKS = 16
"""Ranks whose stacks are in the event; the logs have all of them."""


class HangWatcher:
    """``poll`` is to be called once a second."""

    def __init__(
        self,
        spec: HangSpec,
        mailbox: TaskMailbox,
        executor: SerialExecutor,
        clock: Clock,
        inbox: Inbox,
        unwatched: Collection[str] = (),
    ) -> None:
        """``unwatched``: roles that are not looked at, since they may be idle, or end, on their
        own."""
        self._spec = spec
        self._mailbox = mailbox
        self._executor = executor
        self._clock = clock
        self._inbox = inbox
        self._unwatched = frozenset(unwatched)
        self._asked_at_s: float | None = None
        self._reported = 0
        """The attempt that was reported."""

    async def poll(self, gang: Gang) -> None:
        """Nothing is looked for while some tasks have ended: the others may wait for their end."""
        members = [one for one in gang.members if one.target.role not in self._unwatched]
        is_whole = all(member.state is MemberState.STARTED for member in members)
        if gang.phase is not Phase.RUNNING or not is_whole or self._reported == gang.attempt:
            self._asked_at_s = None
            return
        watched = {member.ask for member in members}
        ranks = [one for one in self._mailbox.activity() if one.ask in watched]
        if len(ranks) < sum(member.target.processes_per_task for member in members):
            return  # not all have been heard of
        why, now_s = find_hang(ranks, self._spec), self._clock.now_s()
        if not why and not looks_like_hang(ranks, self._spec):
            self._asked_at_s = None
            return
        if self._asked_at_s is None:
            text = why or "a process is stopped"
            log.warning("the gang seems to hang (%s): dumping the stacks of all processes", text)
            self._asked_at_s = now_s
            asks = [member.ask for member in members]
            await self._executor.call(lambda: self._mailbox.dump(asks, gang.attempt))
            return
        # One that is stopped is to blame wherever it is: nobody waits for the slow tools' answer.
        has_all = all(one.stack is not None or one.is_stopped for one in ranks)
        if not why or (not has_all and now_s < self._asked_at_s + DUMP_LIMIT_S):
            return
        self._reported = gang.attempt
        missing, finding = hang_finding(ranks, why)
        # Those to blame first, then the others.
        shown = sorted(ranks, key=lambda one: one.rank not in missing)[:MAX_STACKS]
        where = tuple(where_text(one) for one in shown)
        self._inbox(GangHung(now_s, gang.attempt, missing, replace(finding, at_s=now_s), where))
