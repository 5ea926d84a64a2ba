"""A YARN of the test's making: it grants, loses and refuses when it is told to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from yarnam.core.model.actions import AdoptedTask, AskContainer
from yarnam.core.model.events import BrokerFailed, ContainerEnded, ContainerGranted
from yarnam.core.model.ids import AskId, ContainerId, NodeId, RackId
from yarnam.core.model.outcomes import ContainerEnd, Verdict
from yarnam.core.model.plans import Target
from yarnam.errors import YarnamError
from yarnam.ports import Inbox


class FakeBroker:
    """``pending`` and ``granted`` are what YARN would show."""

    def __init__(self, now_s: Callable[[], float] = lambda: 0.0) -> None:
        self._now_s = now_s
        self._inbox: Inbox = lambda event: None
        self._known: set[AskId] = set()
        self.pending: dict[AskId, Target] = {}
        self.granted: dict[AskId, ContainerGranted] = {}
        self.released: list[AskId] = []
        self.given_back: list[AskId] = []
        self.progress: list[float] = []
        self.verdict: Verdict | None = None
        self.refusal: YarnamError | None = None
        self.keeps = False
        """Whether YARN keeps what is granted for the next AM attempt."""

    # ---- the port ------------------------------------------------------------------------

    def start(self, inbox: Inbox) -> Sequence[ContainerId]:
        self._inbox = inbox
        return [grant.container for grant in self.granted.values()] if self.keeps else ()

    def adopt(self, tasks: Sequence[AdoptedTask]) -> None:
        kept = {grant.container: ask for ask, grant in self.granted.items()}
        for task in tasks:
            self._known.add(task.ask)
            if task.container not in kept:
                text = "not kept"
                self._inbox(ContainerEnded(self._now_s(), task.ask, ContainerEnd.FAILED, text))

    def release_kept(self, containers: Sequence[ContainerId]) -> None:
        gone = [ask for ask, grant in self.granted.items() if grant.container in containers]
        for ask in gone:
            del self.granted[ask]
        self.released += gone

    def ask(self, asks: Sequence[AskContainer]) -> None:
        for ask in asks:
            if ask.ask in self._known:
                continue
            if self.refusal is not None:
                self._inbox(BrokerFailed(self._now_s(), self.refusal.message))
                return
            self._known.add(ask.ask)
            self.pending[ask.ask] = ask.target

    def release(self, asks: Sequence[AskId]) -> None:
        for ask in asks:
            if self.pending.pop(ask, None) or self.granted.pop(ask, None):
                self.released.append(ask)

    def set_progress(self, fraction: float) -> None:
        self.progress.append(fraction)

    def shutdown(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.pending.clear()
        self.granted.clear()

    # ---- what a test does ----------------------------------------------------------------

    def grant(self, ask: AskId, node: str, rack: str = "/rack1") -> None:
        """YARN grants. For a released ask the container goes back at once, in silence."""
        if self.pending.pop(ask, None) is None:
            self.given_back.append(ask)
            return
        container = ContainerId(f"container_{ask}")
        event = ContainerGranted(self._now_s(), ask, container, NodeId(node), RackId(rack))
        self.granted[ask] = event
        self._inbox(event)

    def grant_all(self) -> list[AskId]:
        """Each ask where its target says: the first node, or a node of the first rack."""
        asks = list(self.pending)
        for ask in asks:
            target = self.pending[ask]
            node = target.nodes[0] if target.nodes else "n1"
            self.grant(ask, node, target.racks[0] if target.racks else "/rack1")
        return asks

    def grant_one(self) -> AskId:
        """The first one that is awaited, where its target says."""
        ask = next(iter(self.pending))
        others = {other: self.pending.pop(other) for other in list(self.pending) if other != ask}
        self.grant_all()
        self.pending.update(others)
        return ask

    def end(self, ask: AskId, end: ContainerEnd, text: str = "") -> None:
        """YARN says that the container is gone. Nothing is reported of a released one."""
        known = self.granted.pop(ask, None) or self.pending.pop(ask, None)
        if known is not None:
            self._inbox(ContainerEnded(self._now_s(), ask, end, text))
