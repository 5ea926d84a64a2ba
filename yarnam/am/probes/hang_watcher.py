"""Looks for a gang that hangs: when it seems to, all agents dump the stacks of their processes, and
the gang machine is told, with what they found."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from yarnam.am.serial_executor import SerialExecutor
from yarnam.core.failures.hang_detection import (
    find_hang,
    find_late_exit,
    hang_finding,
    looks_like_hang,
    where_text,
)
from yarnam.core.failures.rank_activity import RankActivity
from yarnam.core.gang import Gang, MemberState
from yarnam.core.model.events import GangHung
from yarnam.core.model.ids import AskId
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
    """``poll`` is to be called at each look at the gang, every second or two."""

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

    async def poll(self, gang: Gang, activity: Sequence[RankActivity]) -> None:
        """While some have ended well, the others may save or evaluate: only that they do nothing is
        looked for."""
        members = [one for one in gang.members if one.target.role not in self._unwatched]
        left = [member for member in members if member.state is MemberState.STARTED]
        done = [member for member in members if member.is_ok]
        is_whole = len(left) + len(done) == len(members)
        if gang.phase is not Phase.RUNNING or not is_whole or self._reported == gang.attempt:
            self._asked_at_s = None
            return
        ended = {member.ask for member in done}
        ranks = _with_ends(activity, {member.ask for member in left}, ended)
        heard_of = sum(one.ask not in ended for one in ranks)
        if heard_of < sum(member.target.processes_per_task for member in left):
            return  # not all have been heard of
        has_some_ended = bool(ended) or any(one.has_ended for one in ranks)
        why = (find_late_exit if has_some_ended else find_hang)(ranks, self._spec)
        is_early = not has_some_ended and looks_like_hang(ranks, self._spec)
        now_s = self._clock.now_s()
        if not why and not is_early:
            self._asked_at_s = None
            return
        if self._asked_at_s is None:
            text = why or "a process is stopped"
            log.warning("the gang seems to hang (%s): dumping the stacks of all processes", text)
            self._asked_at_s = now_s
            asks = [member.ask for member in left]
            await self._executor.call(lambda: self._mailbox.dump(asks, gang.attempt))
            return
        # One that is stopped is to blame wherever it is: nobody waits for the slow tools' answer.
        living = [one for one in ranks if not one.has_ended]
        has_all = all(one.stack is not None or one.is_stopped for one in living)
        if not why or (not has_all and now_s < self._asked_at_s + DUMP_LIMIT_S):
            return
        self._reported = gang.attempt
        missing, finding = hang_finding(ranks, why)
        # Those to blame first, then the others.
        shown = sorted(living, key=lambda one: one.rank not in missing)[:MAX_STACKS]
        where = tuple(where_text(one) for one in shown)
        self._inbox(GangHung(now_s, gang.attempt, missing, replace(finding, at_s=now_s), where))


def _with_ends(
    ranks: Iterable[RankActivity], left: Collection[AskId], ended: Collection[AskId]
) -> list[RankActivity]:
    """Those of these tasks. What is known of a task that has ended is its last report before."""
    known = (one for one in ranks if one.ask in left or one.ask in ended)
    return [replace(one, has_ended=True) if one.ask in ended else one for one in known]
