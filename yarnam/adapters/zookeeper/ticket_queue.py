"""The ticket queue in ZooKeeper.

::

    <root>/queue/tickets/<job>@<AM attempt>-<number>   a ticket: ephemeral, numbered by ZooKeeper
    <root>/queue/running/<job>@<AM attempt>            a running gang: ephemeral
    <root>/queue/claim           written by every claim, so that claims come one by one

A ticket's node goes with its holder's session (``SESSION_TIMEOUT_S``), so that a dead holder blocks
nobody. The holder itself remembers its number: one that was only cut off comes back to its place
under the same name. A claim reads the others afresh and writes ``claim`` and its ticket in one
transaction, which fails if another claim came between or the ticket is no longer its own: of two
jobs that see the same free GPUs one comes first, and the other sees that.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import TypeVar

from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError

from hdfs_utils.protocols.rejections import Rejections
from yarnam.adapters.zookeeper.session import Entry, ZooKeeper
from yarnam.adapters.zookeeper.ticket_cache import (
    CLAIM,
    QUEUE,
    RUNNING,
    TICKETS,
    TicketCache,
    am_attempt_of,
    job_of,
    number_of,
)
from yarnam.core.admission.wait_queue import SILENT_AFTER_S
from yarnam.core.model.tickets import RunningGang, Ticket
from yarnam.errors import Unavailable, WireMismatch
from yarnam.ports import Superseded
from yarnam.ports.ticket_queue import MayClaim, TicketList
from yarnam.wire.codec import decode, encode

log = logging.getLogger("yarnam.zookeeper")

N = TypeVar("N")

HEARTBEAT_S = 15.0
"""A ticket that has not changed is written again no sooner: others take it for silent after 60 s
(``queues.line.PASS_OVER_S``)."""

CLAIM_TRIES = 5
"""How often a claim that another one has overtaken is tried again at once; then the caller looks
again, which it does soon."""

MAX_NODE_BYTES = 256 << 10
"""A ticket has some 400 bytes; one that names 5,000 nodes has 200 kB, as has a gang that runs on so
many."""

WRITE_TRIES = 3
"""A node of our name that an older session left behind goes away at the second try."""


@dataclass(frozen=True, slots=True)
class _Owned:
    """A node that this queue has made or found to be its own, in one session."""

    session: int
    version: int
    data: bytes
    at_s: float


class ZooKeeperTicketQueue:
    """One job's side of the queue; ``job`` is its application. Thread-safe."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        job: str,
        am_attempt: int = 1,
        *,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._zk = zookeeper
        self._job = job
        self._am_attempt = am_attempt
        self._now_s = now_s
        self._lock = threading.RLock()
        self._ticket: Ticket | None = None
        self._gang: RunningGang | None = None
        self._owned: dict[str, _Owned] = {}
        self._copy = TicketCache(zookeeper, job, self._has_changed)
        self._seen: dict[str, tuple[int, float]] = {}
        self._changed: Callable[[], None] = lambda: None
        self._lists = 0
        self._refusal = ""
        self._rejections = Rejections(
            log,
            "is passed over",
            "Another version of yarnam wrote it, or no job at all: see docs/how-to/zookeeper.md.",
        )

    def open(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._zk.start(self._on_session)

    @property
    def trouble(self) -> str:
        if self._refusal:
            return self._refusal
        return "" if self._zk.is_connected else f"ZooKeeper at {self._zk.hosts} does not answer"

    def take(self, ticket: Ticket) -> Ticket:
        with self._lock:
            known = self._ticket.number if self._ticket else 0
            number = ticket.number or known or self._earlier_number()
            if number:
                mine = replace(ticket, number=number)
                self._write_ticket(mine)
            else:
                mine = self._new_ticket(ticket)
            self._ticket = mine
            return mine

    def update(self, ticket: Ticket) -> None:
        with self._lock:
            if self._ticket is None:
                return
            self._ticket = replace(ticket, number=self._ticket.number)
            self._write_ticket(self._ticket)

    def others(self) -> TicketList:
        with self._lock:
            self._lists += 1
            if not self._zk.is_connected:
                raise Unavailable(self.trouble)
            # A job that need not wait needs no copy: the first call reads, later ones follow.
            if self._lists > 1:
                self._copy.start()
            nodes = self._copy.nodes()
            return self._listed(*(nodes if nodes is not None else self._read_all()[1:]))

    def claim(self, ticket: Ticket, may: MayClaim) -> bool:
        with self._lock:
            if self._ticket is None:
                return False
            mine = replace(ticket, number=self._ticket.number, is_acquiring=True)
            for _ in range(CLAIM_TRIES):
                claim, tickets, running = self._read_all()
                if not may(self._listed(tickets, running)):
                    return False
                if self._commit_claim(mine, claim):
                    self._ticket = mine
                    return True
            return False

    def set_running(self, gang: RunningGang) -> None:
        with self._lock:
            self._gang = gang
            path, data = self._running_path, encode(gang)
            if not self._is_written(path, data):
                self._write(path, data)
            self._drop_ticket()

    def close(self) -> None:
        # Not under the lock: a call that waits for ZooKeeper must not hold this one up.
        self._ticket = self._gang = None
        self._copy.close()
        self._zk.close()

    # ---- own nodes ---------------------------------------------------------------------------

    @property
    def _running_path(self) -> str:
        return self._zk.path(QUEUE, RUNNING, f"{self._job}@{self._am_attempt}")

    @property
    def _claim_path(self) -> str:
        return self._zk.path(QUEUE, CLAIM)

    def _ticket_path(self, number: int) -> str:
        name = f"{self._job}@{self._am_attempt}-{number - 1:010d}"
        return self._zk.path(QUEUE, TICKETS, name)

    def _new_ticket(self, ticket: Ticket) -> Ticket:
        data = self._ticket_data(ticket)
        prefix = self._zk.path(QUEUE, TICKETS, f"{self._job}@{self._am_attempt}-")
        path = self._zk.create(prefix, data, ephemeral=True, sequence=True)
        self._owned[path] = _Owned(self._zk.session, 0, data, self._now_s())
        return replace(ticket, number=number_of(path))

    def _earlier_number(self) -> int:
        """The number of a ticket that an earlier AM attempt, or a call of ours that seemed to
        fail, has made; 0: none. Raises Superseded."""
        names = self._own_names(TICKETS)
        numbers = sorted(number_of(name) for name in names)
        for name in names:
            self._remove(self._zk.path(QUEUE, TICKETS, name))
        return numbers[0] if numbers else 0

    def _own_names(self, folder: str) -> list[str]:
        """Nodes of this job, whichever AM attempt made them. Raises Superseded."""
        names = self._zk.children(self._zk.path(QUEUE, folder))
        mine = [name for name in names if job_of(name) == self._job]
        if any(am_attempt_of(name) > self._am_attempt for name in mine):
            raise Superseded(f"a newer AM attempt of {self._job} holds its place in the queue")
        return mine

    def _ticket_data(self, ticket: Ticket) -> bytes:
        return encode(replace(ticket, number=0, seen_at_s=None))

    def _write_ticket(self, ticket: Ticket) -> None:
        path, data = self._ticket_path(ticket.number), self._ticket_data(ticket)
        if not self._is_written(path, data, HEARTBEAT_S):
            self._write(path, data)

    def _is_written(self, path: str, data: bytes, for_s: float = inf) -> bool:
        """Whether it lies there as it is already, written within the last ``for_s``."""
        owned = self._owned.get(path)
        return (
            owned is not None
            and owned.session == self._zk.session
            and owned.data == data
            and self._now_s() - owned.at_s < for_s
        )

    def _write(self, path: str, data: bytes) -> None:
        """Ours, in this session, with this content."""
        session = self._zk.session
        owned = self._owned.get(path)
        if owned is not None and owned.session == session:
            try:
                version = self._zk.set(path, data, owned.version)
            except (NoNodeError, BadVersionError):
                pass
            else:
                self._owned[path] = _Owned(session, version, data, self._now_s())
                return
        folder = path.rpartition("/")[0].rpartition("/")[2]
        for _ in range(WRITE_TRIES):
            # Of an earlier AM attempt, or of a session that was lost.
            for name in self._own_names(folder):
                self._remove(self._zk.path(QUEUE, folder, name))
            try:
                self._zk.create(path, data, ephemeral=True)
            except NodeExistsError:
                continue
            self._owned[path] = _Owned(session, 0, data, self._now_s())
            return
        raise Unavailable(f"ZooKeeper: {path} is taken again and again")

    def _drop_ticket(self) -> None:
        if self._ticket is not None:
            path = self._ticket_path(self._ticket.number)
            self._ticket = None
            self._remove(path)

    def _remove(self, path: str, version: int = -1) -> None:
        self._owned.pop(path, None)
        try:
            self._zk.delete(path, version)
        except (NoNodeError, BadVersionError):
            pass

    def _commit_claim(self, ticket: Ticket, claim: Entry | None) -> bool:
        path, data = self._ticket_path(ticket.number), self._ticket_data(ticket)
        if claim is None:
            self._make_claim_node()
            return False
        owned = self._owned.get(path)
        if owned is None or owned.session != self._zk.session:
            self._write(path, self._ticket_data(replace(ticket, is_acquiring=False)))
            owned = self._owned[path]
        data_of_claim = f"{self._job} {ticket.number}".encode()
        writes = ((self._claim_path, data_of_claim, claim.version), (path, data, owned.version))
        results = self._zk.write_together(writes, "claiming")
        if any(isinstance(result, KazooException) for result in results):
            # Another job has claimed, or the ticket is not as we left it: read again.
            if isinstance(results[1], (NoNodeError, BadVersionError)):
                self._owned.pop(path, None)
            return False
        self._owned[path] = _Owned(owned.session, results[1].version, data, self._now_s())
        return True

    def _make_claim_node(self) -> None:
        try:
            self._zk.create(self._claim_path)
        except NodeExistsError:
            pass

    # ---- the others --------------------------------------------------------------------------

    def _read_all(self) -> tuple[Entry | None, dict[str, Entry], dict[str, Entry]]:
        """The claim first: what changes later makes its version change later too."""
        tickets, running = self._zk.path(QUEUE, TICKETS), self._zk.path(QUEUE, RUNNING)
        calls = [self._zk.getting(self._claim_path), *map(self._zk.listing, (tickets, running))]
        claim, waiting, standing = self._zk.together(calls, "reading the tickets")
        paths = [
            f"{folder}/{name}"
            for folder, names in ((tickets, waiting), (running, standing))
            for name in names or ()
            if job_of(name)
        ]
        entries = zip(paths, self._zk.read(*paths), strict=True)
        found = {path: entry for path, entry in entries if entry is not None}
        return (
            claim,
            {path: entry for path, entry in found.items() if path.startswith(f"{tickets}/")},
            {path: entry for path, entry in found.items() if path.startswith(f"{running}/")},
        )

    def _listed(self, tickets: dict[str, Entry], running: dict[str, Entry]) -> TicketList:
        now_s = self._now_s()
        seen = {}
        for path, entry in tickets.items():
            changed, at_s = self._seen.get(path, (entry.changed, now_s))
            seen[path] = (entry.changed, at_s if changed == entry.changed else now_s)
        self._seen = seen
        waiting = [
            replace(ticket, number=number_of(path), seen_at_s=seen[path][1])
            for path, ticket in self._decoded(tickets, Ticket)
        ]
        return TicketList(
            tickets=tuple(
                ticket
                for ticket in sorted(waiting, key=lambda ticket: ticket.number)
                if ticket.job != self._job and not _is_stuck(ticket, now_s)
            ),
            running=tuple(
                gang for _, gang in self._decoded(running, RunningGang) if gang.job != self._job
            ),
        )

    def _decoded(self, entries: Mapping[str, Entry], kind: type[N]) -> Iterator[tuple[str, N]]:
        """Those that can be read: whoever reaches ZooKeeper may have written the rest."""
        for path, entry in sorted(entries.items()):
            try:
                yield path, decode(entry.data, kind, max_bytes=MAX_NODE_BYTES)
            except WireMismatch as error:
                self._rejections.add(path, error, owner=job_of(path))

    # ---- what comes from ZooKeeper -----------------------------------------------------------

    def _on_session(self, is_new: bool) -> None:
        if is_new:
            self._refusal = ""
            self._zk.spawn(self._restore)
        self._has_changed()

    def _restore(self) -> None:
        """A new session has none of our nodes: others pass us over until they are there again."""
        try:
            with self._lock:
                if self._ticket is not None:
                    self._write_ticket(self._ticket)
                if self._gang is not None:
                    self._write(self._running_path, encode(self._gang))
        except Superseded as error:
            self._refusal = error.message
        except Unavailable as error:
            log.warning("cannot take the old place yet: %s", error.message)

    def _has_changed(self) -> None:
        self._changed()


def _is_stuck(ticket: Ticket, now_s: float) -> bool:
    """An AM that hangs while it acquires: its session lives, but its grants are never used."""
    seen_at_s = ticket.seen_at_s
    return ticket.is_acquiring and seen_at_s is not None and now_s - seen_at_s > SILENT_AFTER_S
