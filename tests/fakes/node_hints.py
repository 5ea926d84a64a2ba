"""Other jobs' words about nodes, of the test's making."""

from __future__ import annotations

from collections.abc import Callable

from yarnam.core.model.events import NodesSuspected
from yarnam.core.model.ids import NodeId
from yarnam.ports import Inbox


class FakeHints:
    """``shared`` is what this job has told the others."""

    def __init__(self, now_s: Callable[[], float] = lambda: 0.0) -> None:
        self._now_s = now_s
        self._inbox: Inbox = lambda event: None
        self.shared: list[tuple[NodeId, str]] = []
        self.is_closed = False

    # ---- the port ------------------------------------------------------------------------

    def start(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def share(self, node: NodeId, reason: str) -> None:
        self.shared.append((node, reason))

    def close(self) -> None:
        self.is_closed = True

    # ---- what a test does ----------------------------------------------------------------

    def others_suspect(self, *nodes: str) -> None:
        self._inbox(NodesSuspected(self._now_s(), tuple(NodeId(node) for node in nodes)))
