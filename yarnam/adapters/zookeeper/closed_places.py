"""The nodes that administrators have cordoned, and the queues that they have stopped, in ZooKeeper.

::

    <root>/closed/node=<node>      one ``snapshot.Closure``; names are percent-encoded
    <root>/closed/queue=<queue>

With an administrator's credentials the folder is theirs alone and everybody may read it; without,
whoever reaches the ZooKeeper may write there, as with the policies of queues. So a reader takes it
for no more than a text, within its limits of size.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from urllib.parse import quote, unquote

from kazoo.exceptions import NoAuthError, NodeExistsError, NoNodeError
from kazoo.protocol.states import ZnodeStat

from yarnam.adapters.zookeeper.lazy_session import LazySession
from yarnam.adapters.zookeeper.queue_policies import admin_acl, make_folder
from yarnam.adapters.zookeeper.session import Entry, ZooKeeper
from yarnam.core.model.ids import NodeId
from yarnam.core.model.printable import printable
from yarnam.core.model.snapshot import Closure, Closures
from yarnam.errors import NoPermission, Unavailable, UsageError, WireMismatch, YarnamError
from yarnam.wire.codec import decode, encode

log = logging.getLogger("yarnam.am")

CLOSED = "closed"
NODE, QUEUE = "node", "queue"

MAX_BYTES = 4096
"""The largest order that is read. A reason has at most ``MAX_REASON`` characters."""

MAX_REASON = 500

MAX_BY = 100
"""Characters of an administrator's name that are kept."""

MOST_CLOSED = 2_000
"""Orders that are read: as many nodes as a large cluster may have to keep closed."""

MAX_NAME = 300
"""Characters of a name, encoded."""

LATEST_S = 2.0**32
"""A time that is later, as seconds since the epoch, is none."""

MAX_AGE_S = 5.0
"""How old a reader's copy may be while ZooKeeper answers."""


class ClosedPlaces:
    """Not thread-safe. All calls take at most 10 s and raise Unavailable while ZooKeeper does not
    answer."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zk = zookeeper

    def all(self) -> Closures:
        folder = self._zk.path(CLOSED)
        [stat] = self._zk.together([self._zk.checking(folder)], f"looking at {folder}")
        if stat is None:
            return Closures()
        if stat.numChildren > MOST_CLOSED:
            raise Unavailable(
                f"ZooKeeper: {folder} has {stat.numChildren} nodes, more than {MOST_CLOSED}",
                hint="An administrator removes those that nobody needs: yarnam docs zookeeper",
            )
        names = [name for name in sorted(self._zk.children(folder)) if len(name) <= MAX_NAME]
        # A folder that everybody writes to may hold a megabyte a node: nothing is read unseen.
        stats = self._zk.together(
            [self._zk.checking(f"{folder}/{name}") for name in names], f"looking at {folder}"
        )
        names = [name for name, stat in zip(names, stats, strict=True) if _is_readable(name, stat)]
        entries = self._zk.read(*(f"{folder}/{name}" for name in names))
        nodes: dict[NodeId, Closure] = {}
        queues: dict[str, Closure] = {}
        for name, entry in zip(names, entries, strict=True):
            kind, _, place = unquote(name).partition("=")
            closure = decoded(entry) if entry is not None else None
            if closure is None:
                continue
            if kind == NODE:
                nodes[NodeId(place)] = closure
            elif kind == QUEUE:
                queues[place] = closure
        return Closures(nodes, queues)

    def of(self, kind: str, name: str) -> Closure | None:
        path = self._path(kind, name)
        [stat] = self._zk.together([self._zk.checking(path)], f"looking at {path}")
        if not _is_readable(path, stat):
            return None
        [entry] = self._zk.read(path)
        return None if entry is None else decoded(entry)

    def close(self, kind: str, name: str, closure: Closure, *, admin: str = "") -> None:
        """Keeps the order, in place of one before. ``admin``: ``digest:user:password``. Raises
        NoPermission: another administrator's credentials protect it."""
        path, acl = self._path(kind, name), admin_acl(self._zk, admin)
        data = encode(replace(closure, reason=closure.reason[:MAX_REASON]))
        with _rights(path):
            if acl is not None:
                make_folder(self._zk, CLOSED, acl)
            try:
                self._zk.create(path, data, acl=acl)
            except NodeExistsError:
                self._zk.set(path, data)

    def open(self, kind: str, name: str, *, admin: str = "") -> None:
        """Removes the order, if there is one. Raises as ``close``."""
        path = self._path(kind, name)
        admin_acl(self._zk, admin)
        with _rights(path), suppress(NoNodeError):
            self._zk.delete(path)

    def is_protected(self) -> bool:
        """Whether not everybody who reaches the ZooKeeper may write there."""
        try:
            acls, _ = self._zk.kazoo.get_acls(self._zk.path(CLOSED))
        except NoNodeError:
            return False
        return not any(acl.id.scheme == "world" and acl.perms & ~1 for acl in acls)

    def _path(self, kind: str, name: str) -> str:
        encoded = quote(f"{kind}={name}", safe="=")
        if not name or len(encoded) > MAX_NAME:
            raise UsageError(f"{name[:60]!a} is not the name of a {kind}")
        return self._zk.path(CLOSED, encoded)


def _is_readable(name: str, stat: ZnodeStat | None) -> bool:
    if stat is not None and stat.dataLength > MAX_BYTES:
        log.warning(
            "an order of an administrator in ZooKeeper is not readable: %s has %d bytes",
            printable(name), stat.dataLength,
        )  # fmt: skip
        return False
    return stat is not None


@contextmanager
def _rights(path: str) -> Iterator[None]:
    """Raises NoPermission where ZooKeeper's access control list refuses a change."""
    try:
        yield
    except Unavailable as error:
        if not isinstance(error.__cause__, NoAuthError):
            raise
        raise NoPermission(
            f"ZooKeeper: only administrators may write {path}",
            hint="Name their credentials in YARNAM_ZOOKEEPER_ADMIN_AUTH_FILE: yarnam docs nodes",
        ) from error


def decoded(entry: Entry) -> Closure | None:
    """``None`` for what cannot be read: it closes nothing."""
    try:
        found = decode(entry.data, Closure, max_bytes=MAX_BYTES)
    except WireMismatch as error:
        log.warning("an order of an administrator in ZooKeeper is not readable: %s", error.message)
        return None
    at_s = found.at_s if 0.0 <= found.at_s <= LATEST_S else 0.0
    drain_by_s = found.drain_by_s
    if drain_by_s is not None and not 0.0 <= drain_by_s <= LATEST_S:
        drain_by_s = None
    return replace(
        found,
        at_s=at_s,
        drain_by_s=drain_by_s,
        by=found.by[:MAX_BY],
        reason=found.reason[:MAX_REASON],
    )


class ClosureReader:
    """A copy that is at most ``MAX_AGE_S`` old while ZooKeeper answers; else the last one counts,
    since a node that was bad stays so. Thread-safe; raises nothing."""

    def __init__(
        self, session: LazySession, *, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._session = session
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._found: Closures | None = None
        self._read_at_s: float | None = None

    def __call__(self) -> Closures | None:
        """``None`` until ZooKeeper has answered once: what is closed is not known."""
        with self._lock:
            now_s = self._monotonic_s()
            if self._read_at_s is None or now_s - self._read_at_s >= MAX_AGE_S:
                self._read_at_s = now_s
                try:
                    self._found = ClosedPlaces(self._session.connected()).all()
                except YarnamError as error:
                    log.info("cordons and stopped queues are not known now: %s", error.message)
            return self._found
