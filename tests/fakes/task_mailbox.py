"""Agents of the test's making."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from yarnam.core.failures.rank_activity import RankActivity
from yarnam.core.model.actions import AdoptGang, CheckNodes, GangMember
from yarnam.core.model.events import (
    AgentRegistered,
    AgentSilent,
    AgentUnable,
    NodeChecked,
    ScaleRequested,
    TaskExited,
    TaskFailing,
    TaskReady,
    TaskStaged,
    TaskStarted,
)
from yarnam.core.model.ids import AskId, ContainerId, NodeId
from yarnam.core.model.metrics import AgentMetrics
from yarnam.core.model.outcomes import ExitKind, NodeMeasures, ProcessExit
from yarnam.ports import AgentStaging, Inbox


class FakeMailbox:
    """``orders`` is what each agent would be told now: park, launch, stop or leave."""

    def __init__(self, now_s: Callable[[], float] = lambda: 0.0) -> None:
        self._now_s = now_s
        self._inbox: Inbox = lambda event: None
        self.orders: dict[AskId, str] = {}
        self.launches: list[tuple[int, tuple[GangMember, ...]]] = []
        self.measured: list[AgentMetrics] = []
        self.preparations: list[tuple[int, tuple[GangMember, ...]]] = []
        self.checks: list[CheckNodes] = []
        self.told_staging: list[AgentStaging] = []
        self.active: list[RankActivity] = []
        self.is_closed = False

    # ---- the port ------------------------------------------------------------------------

    def start(self, inbox: Inbox) -> str:
        self._inbox = inbox
        return "127.0.0.1:1"

    def expect(self, asks: Iterable[AskId]) -> None:
        for ask in asks:
            self.orders.setdefault(ask, "park")

    def adopt(self, action: AdoptGang) -> None:
        for task in action.tasks:
            self.orders[task.ask] = "park" if task.ask in action.waiting else "launch"

    def check(self, action: CheckNodes) -> None:
        self.checks.append(action)
        for one in action.nodes:
            self._order(one.ask, "check")

    def prepare(self, attempt: int, members: Sequence[GangMember]) -> None:
        self.preparations.append((attempt, tuple(members)))
        for member in members:
            self._order(member.ask, "prepare")

    def launch(
        self, attempt: int, members: Sequence[GangMember], waiting: Collection[AskId] = ()
    ) -> None:
        self.launches.append((attempt, tuple(members)))
        for member in (one for one in members if one.ask not in waiting):
            self._order(member.ask, "launch")

    def stop(
        self,
        ask: AskId,
        attempt: int,
        grace_s: float,
        reason: str,
        idle_grace_s: float | None = None,
        agreeing: int = 0,
    ) -> None:
        self._order(ask, "stop")

    def dump(self, asks: Iterable[AskId], attempt: int) -> None:
        for ask in asks:
            self._order(ask, "dump")

    def activity(self) -> Sequence[RankActivity]:
        return self.active

    def dismiss(self, asks: Iterable[AskId]) -> None:
        for ask in asks:
            self.orders[ask] = "leave"

    def drain(self, limit_s: float) -> int:
        return 0

    def metrics(self) -> Sequence[AgentMetrics]:
        return list(self.measured)

    def staging(self) -> Sequence[AgentStaging]:
        return list(self.told_staging)

    def close(self) -> None:
        self.is_closed = True

    def _order(self, ask: AskId, order: str) -> None:
        if self.orders.get(ask) != "leave":
            self.orders[ask] = order

    # ---- what a test does ----------------------------------------------------------------

    def is_expected(self, ask: AskId) -> bool:
        return self.orders.get(ask, "leave") != "leave"

    def register(self, ask: AskId, node: str, container: str = "") -> None:
        if self.is_expected(ask):
            name = ContainerId(container or f"container_{ask}")
            ports = (("coordinator", 4000 + ask.number),)
            self._inbox(
                AgentRegistered(
                    self._now_s(), ask, name, NodeId(node), f"addr-{node}", ("0",), ports
                )
            )

    def checked(
        self, ask: AskId, attempt: int, check: int, measures: NodeMeasures | None = None
    ) -> None:
        found = measures or NodeMeasures(100.0, 1000.0, 10.0)
        self._inbox(NodeChecked(self._now_s(), ask, attempt, check, found))

    def staged(self, ask: AskId, attempt: int) -> None:
        self._inbox(TaskStaged(self._now_s(), ask, attempt))

    def started(self, ask: AskId, attempt: int) -> None:
        self._inbox(TaskStarted(self._now_s(), ask, attempt))

    def ready(self, ask: AskId, attempt: int) -> None:
        self._inbox(TaskReady(self._now_s(), ask, attempt))

    def exited(self, ask: AskId, attempt: int, code: int = 0) -> None:
        kind = ExitKind.NON_ZERO if code else ExitKind.OK
        exits = (ProcessExit(0, kind, code=code, ended_at_s=self._now_s()),)
        self._inbox(TaskExited(self._now_s(), ask, attempt, exits))

    def failing(self, ask: AskId, attempt: int, code: int = 1) -> None:
        exits = (ProcessExit(0, ExitKind.NON_ZERO, code, ended_at_s=self._now_s()),)
        self._inbox(TaskFailing(self._now_s(), ask, attempt, exits))

    def stopped(self, ask: AskId, attempt: int) -> None:
        exits = (ProcessExit(0, ExitKind.STOPPED, ended_at_s=self._now_s()),)
        self._inbox(TaskExited(self._now_s(), ask, attempt, exits))

    def scaled(self, tasks: int | None) -> None:
        """A client's wish comes over the same line."""
        self._inbox(ScaleRequested(self._now_s(), "ann", tasks))

    def unable(self, ask: AskId, message: str, *, is_user_fault: bool = False) -> None:
        self._inbox(AgentUnable(self._now_s(), ask, message, is_user_fault))

    def silent(self, ask: AskId, silent_s: float = 10.0) -> None:
        self._inbox(AgentSilent(self._now_s(), ask, silent_s))
