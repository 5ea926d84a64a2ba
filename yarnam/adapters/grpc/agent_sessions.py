"""The sessions of all agents that the AM waits for, and the last reports of those that have left.

A session ends: a preempted gang starts hundreds of times, with new agents each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from yarnam.adapters.grpc.agent_session import AgentSession
from yarnam.core.failures.rank_activity import RankActivity
from yarnam.core.model.actions import AdoptedTask
from yarnam.core.model.ids import AskId
from yarnam.core.model.metrics import AgentMetrics
from yarnam.ports import AgentStaging

NUMBER_BITS = 32
"""More directives than any AM attempt gives one agent."""


class AgentSessions:
    """One thread writes. ``metrics``, ``activity`` and ``staging`` may be read by any thread."""

    def __init__(self, poll_after_s: float, am_attempt: int = 1) -> None:
        self._poll_after_s = poll_after_s
        # An agent takes a directive for new by its number: another AM attempt has other numbers.
        self._first_number = ((am_attempt - 1) << NUMBER_BITS) + 1
        self._sessions: dict[str, AgentSession] = {}
        self._most = 0
        self._last_metrics: dict[int, AgentMetrics] = {}
        """Metrics of agents that have left, by rank, of the launch ``_last_measured``."""
        self._last_measured = 0
        self._last_staging: dict[AskId, AgentStaging] = {}
        """Staging of agents that have left: as many as there were sessions at a time."""

    def __iter__(self) -> Iterator[AgentSession]:
        return iter(list(self._sessions.values()))

    def __len__(self) -> int:
        return len(self._sessions)

    def expect(self, asks: Iterable[AskId]) -> None:
        for ask in asks:
            if str(ask) not in self._sessions:
                self._sessions[str(ask)] = AgentSession(ask, self._poll_after_s, self._first_number)
        self._most = max(self._most, len(self._sessions))

    def adopt(self, tasks: Iterable[AdoptedTask], attempt: int, until: float) -> None:
        """As ``AgentSession.adopt``."""
        tasks = tuple(tasks)
        self.expect(task.ask for task in tasks)
        for task in tasks:
            self._sessions[str(task.ask)].adopt(task, attempt, until)

    def get(self, ask: AskId | str) -> AgentSession | None:
        """``None`` if no agent is expected for this ask, or no longer."""
        return self._sessions.get(str(ask))

    def drop_over(self, now: float, limit_s: float) -> tuple[str, ...]:
        """Drop the sessions whose agents have left, or were dismissed and have been silent for
        longer than the limit. Returns their asks."""
        over = [session for session in self if session.is_over(now, limit_s)]
        for session in over:
            self._keep_last(session)
            del self._sessions[str(session.ask)]
        return tuple(str(session.ask) for session in over)

    def _keep_last(self, session: AgentSession) -> None:
        if session.metrics and session.measured >= self._last_measured:
            older = self._last_metrics if session.measured == self._last_measured else {}
            self._last_metrics = {**older, **session.metrics}
            self._last_measured = session.measured
        if session.staging is not None:
            kept = list({**self._last_staging, session.ask: session.staging}.items())
            self._last_staging = dict(kept[-self._most :])

    def metrics(self) -> Sequence[AgentMetrics]:
        """As ``ports.TaskMailbox.metrics``: the newest launch that has reported any, agents that
        have left included."""
        last, last_measured = self._last_metrics, self._last_measured
        sessions = [session for session in self if session.metrics]
        newest = max((session.measured for session in sessions), default=0)
        found = dict(last) if last_measured >= newest else {}
        for session in sessions:
            if session.measured == max(newest, last_measured):
                found.update(dict(session.metrics))
        return [found[rank] for rank in sorted(found)]

    def activity(self, now_s: float) -> Sequence[RankActivity]:
        sessions = [session for session in self if not session.is_dismissed and session.watches]
        newest = max((session.watched for session in sessions), default=0)
        watches = [
            watch
            for session in sessions
            if session.watched == newest
            for watch in list(session.watches.values())
        ]
        return sorted((watch.activity(now_s) for watch in watches), key=lambda one: one.rank)

    def staging(self) -> Sequence[AgentStaging]:
        last = self._last_staging
        reported = {s.ask: s.staging for s in self if s.staging is not None}
        return list({**last, **reported}.values())
