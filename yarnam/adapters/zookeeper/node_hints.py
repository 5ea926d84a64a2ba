"""What jobs tell one another about nodes, in ZooKeeper.

::

    <root>/hints/<node>@<job>    a strike of this job against this node; its content is the reason

The nodes outlive the job that made them and count for ``HINT_LIFE_S`` after they were last written;
whoever shares a strike clears away what is older. Best effort: nothing here raises.

Anybody may have written any of it. A job reads only names, never contents; only those that begin
with a node of this cluster count; and how much of it reaches the job is limited, since a job keeps
what it hears in its journal. ``recent_strikes`` reads contents too, for an administrator's eyes.
"""

from __future__ import annotations

import logging
import random
import re
import threading
import time
from collections.abc import Callable, Collection
from math import inf

from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.protocol.states import ZnodeStat

from yarnam.adapters.zookeeper.lazy_session import LazySession
from yarnam.adapters.zookeeper.session import ZooKeeper
from yarnam.core.model.events import NodesSuspected
from yarnam.core.model.ids import NodeId
from yarnam.core.model.snapshot import NodeStrike
from yarnam.errors import Unavailable, YarnamError
from yarnam.ports import Inbox

log = logging.getLogger("yarnam.am")

HINTS = "hints"

HINT_LIFE_S = 1800.0
"""How long a strike is shared with other jobs. Half of what a job's own strike counts
(``BlacklistSpec.expiry_s``): it may be that job's own fault."""

GATHER_S = 0.5
"""Strikes that come together (a rack fails) are reported in one event."""

READ_EVERY_S = 10.0
"""So often at most the names are read and an event is reported."""

MOST_AT_ONCE = 32
"""Nodes in one event; the others are in the next ones. A rack has about this many."""

REPEAT_S = 300.0
"""A strike that is shared again counts anew after this long: half a dozen times in its life."""

MOST_CHILDREN = 10_000
"""Names that are read at all. With more the hints are out of use until somebody clears them."""

MOST_OF_A_NODE = 4
"""Strikes of other jobs against one node that are looked at: the newest counts, one is enough."""

CLEARED_AT_ONCE = 200
"""Strikes that are looked at with each new one, to clear away the old ones among them."""


MOST_SHOWN = 500
"""Strikes that ``recent_strikes`` returns, the newest."""

MAX_REASON_BYTES = 2000
"""A reason that is longer is not read."""

_STRIKE = re.compile(r"[^@\s]{1,255}@application_[0-9]{1,20}_[0-9]{1,10}")


def recent_strikes(zookeeper: ZooKeeper, now_s: float) -> tuple[NodeStrike, ...]:
    """The strikes that count now, the newest first; whether there are such nodes is for the caller
    to judge. Raises Unavailable."""
    folder = zookeeper.path(HINTS)
    [stat] = zookeeper.together([zookeeper.checking(folder)], "looking at strikes")
    if stat is None:
        return ()
    if stat.numChildren > MOST_CHILDREN:
        raise Unavailable(
            f"ZooKeeper: {folder} has {stat.numChildren} nodes, more than {MOST_CHILDREN}",
            hint="An administrator removes them (deleteall in zkCli.sh): yarnam docs zookeeper",
        )
    names = [name for name in zookeeper.children(folder) if _STRIKE.fullmatch(name)]
    stats = zookeeper.together(
        [zookeeper.checking(f"{folder}/{name}") for name in names], "looking at strikes"
    )
    live = sorted(
        (
            (stat.mtime / 1000, stat.dataLength, name)
            for name, stat in zip(names, stats, strict=True)
            if stat is not None and now_s - stat.mtime / 1000 < HINT_LIFE_S
        ),
        reverse=True,
    )[:MOST_SHOWN]
    short = [name for _, size, name in live if size <= MAX_REASON_BYTES]
    entries = zookeeper.read(*(f"{folder}/{name}" for name in short))
    reasons = {
        name: entry.data[:MAX_REASON_BYTES].decode("utf-8", "replace")
        for name, entry in zip(short, entries, strict=True)
        if entry is not None
    }
    return tuple(
        NodeStrike(NodeId(node), job, at_s, reasons.get(name, ""))
        for at_s, _, name in live
        for node, _, job in [name.rpartition("@")]
    )


class ZooKeeperHints:
    """One job's side; ``job`` is its application. ``nodes``: those of the cluster, as far as they
    are known."""

    def __init__(
        self,
        session: LazySession,
        job: str,
        nodes: Callable[[], Collection[NodeId]],
        *,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._session = session
        self._job = job
        self._nodes = nodes
        self._now_s = now_s
        self._inbox: Inbox = lambda event: None
        self._lock = threading.Lock()
        self._reported: dict[NodeId, tuple[float, float]] = {}
        # When, and when the strike had been shared.
        self._changed = threading.Event()
        self._is_closed = threading.Event()

    def start(self, inbox: Inbox) -> None:
        self._inbox = inbox
        threading.Thread(target=self._follow, name="hints", daemon=True).start()

    def share(self, node: NodeId, reason: str) -> None:
        try:
            zookeeper = self._session.connected()
            self._write(zookeeper, zookeeper.path(HINTS, f"{node}@{self._job}"), reason)
            self._clear_old(zookeeper)
        except YarnamError as error:
            log.info("could not report the strike against %s to other jobs: %s", node, error)

    def close(self) -> None:
        self._is_closed.set()
        self._changed.set()

    # ---- inside ------------------------------------------------------------------------------

    def _write(self, zookeeper: ZooKeeper, path: str, reason: str) -> None:
        """Made anew if it is there, so that those who follow the names notice."""
        try:
            zookeeper.delete(path)
        except NoNodeError:
            pass
        try:
            zookeeper.create(path, reason.encode())
        except NodeExistsError:
            pass  # Of this very moment.

    def _clear_old(self, zookeeper: ZooKeeper) -> None:
        folder = zookeeper.path(HINTS)
        names = self._names(zookeeper)
        chosen = random.sample(names, min(len(names), CLEARED_AT_ONCE))
        paths = [f"{folder}/{name}" for name in chosen]
        found = zookeeper.together([zookeeper.checking(path) for path in paths], "reading hints")
        for path, stat in zip(paths, found, strict=True):
            if stat is not None and not self._counts(stat):
                try:
                    zookeeper.delete(path)
                except NoNodeError:
                    pass

    def _names(
        self, zookeeper: ZooKeeper, watch: Callable[[object], None] | None = None
    ) -> list[str]:
        folder = zookeeper.path(HINTS)
        [stat] = zookeeper.together([zookeeper.checking(folder, watch)], "looking at hints")
        if stat is None:
            return []
        if stat.numChildren > MOST_CHILDREN:
            log.warning(
                "ZooKeeper: %s has %d nodes, more than %d: it has been flooded, and other jobs' "
                "strikes are not read. An administrator removes them (deleteall in zkCli.sh): "
                "yarnam docs zookeeper", folder, stat.numChildren, MOST_CHILDREN,
            )  # fmt: skip
            return []
        [names] = zookeeper.together([zookeeper.listing(folder, watch)], "listing hints")
        return sorted(names or ())

    def _follow(self) -> None:
        """In a thread of its own: loads kazoo, waits for the connection, then reads the names as
        they change."""
        self._changed.set()
        while not self._is_closed.is_set():
            self._changed.wait()
            if self._is_closed.wait(GATHER_S):
                return
            self._changed.clear()
            try:
                zookeeper = self._session.connected()
                is_all = self._report(zookeeper)
            except YarnamError as error:
                log.info("other jobs' strikes are not known now: %s", error)
                is_all = False
            if not is_all:
                self._changed.set()
            if self._is_closed.wait(READ_EVERY_S if self._nodes() else GATHER_S):
                return

    def _report(self, zookeeper: ZooKeeper) -> bool:
        """Whether there is no more to report for now."""
        known = frozenset(self._nodes())
        if not known:
            return False  # The cluster has not been seen yet.
        names = self._names(zookeeper, lambda event: self._changed.set())
        of_node: dict[NodeId, list[str]] = {}
        for name in names:
            node, _, job = name.rpartition("@")
            if node in known and job != self._job:
                of_node.setdefault(NodeId(node), []).append(name)
        now_s = self._now_s()
        chosen: list[NodeId] = []
        for node in sorted(of_node):
            at_s, written_s = self._reported.get(node, (-inf, -inf))
            if len(chosen) == MOST_AT_ONCE:
                break
            if now_s - at_s < REPEAT_S:
                continue
            newest_s = self._newest_s(zookeeper, of_node[node])
            if newest_s > written_s:
                self._reported[node] = now_s, newest_s
                chosen.append(node)
        if chosen and not self._is_closed.is_set():
            self._inbox(NodesSuspected(now_s, tuple(chosen)))
        return len(chosen) < MOST_AT_ONCE

    def _newest_s(self, zookeeper: ZooKeeper, names: list[str]) -> float:
        """When a strike against this node was shared last, of those that count."""
        paths = [zookeeper.path(HINTS, name) for name in names[:MOST_OF_A_NODE]]
        found = zookeeper.together([zookeeper.checking(path) for path in paths], "reading hints")
        live = (stat.mtime / 1000 for stat in found if stat is not None and self._counts(stat))
        return max(live, default=-inf)

    def _counts(self, stat: ZnodeStat) -> bool:
        written_s: float = stat.mtime / 1000
        return self._now_s() - written_s < HINT_LIFE_S
