"""The ticket queue in ZooKeeper.

::

    <root>/queue/tickets/<job>@<AM attempt>-<number>   a ticket: ephemeral, numbered by ZooKeeper
    <root>/queue/running/<job>@<AM attempt>            a running gang: ephemeral
    <root>/queue/claim           written by every claim, so that claims come one by one
    <root>/policies/<queue>      the policy of a YARN queue (``queue_policies``)

A ticket's node goes with its holder's session (``SESSION_TIMEOUT_S``), so that a dead holder blocks
nobody. The holder itself remembers its number: one that was only cut off comes back to its place
under the same name. A claim reads the others afresh and writes ``claim`` and its ticket in one
transaction, which fails if another claim came between or the ticket is no longer its own: of two
jobs that see the same free GPUs one comes first, and the other sees that.

Anybody may have written any of it. A ticket counts as far as the ResourceManager confirms it, and
what lies there in this job's own name without being its own is removed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import TypeVar, Union

from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError

from hdfs_utils.protocols.rejections import Rejections
from yarnam.adapters.zookeeper.queue_policies import QueuePolicies
from yarnam.adapters.zookeeper.session import Entry, ZooKeeper
from yarnam.adapters.zookeeper.ticket_nodes import (
    ADVICE,
    CLAIM,
    MAX_NODE_BYTES,
    QUEUE,
    RUNNING,
    TICKETS,
    QueueNodes,
    TicketNodes,
    am_attempt_of,
    job_of,
    number_of,
)
from yarnam.core.admission.ticket_checks import believed_gang, believed_ticket
from yarnam.core.admission.wait_queue import SILENT_AFTER_S
from yarnam.core.model.tickets import RunningGang, Ticket
from yarnam.core.policies.chosen_policy import NOTHING_CHOSEN, QueuePolicy
from yarnam.core.queue_client.ticket_list import TicketList
from yarnam.errors import Unavailable, WireMismatch
from yarnam.ports import Superseded
from yarnam.ports.ticket_queue import ClaimDecision, LiveApplications
from yarnam.wire.codec import decode, encode

log = logging.getLogger("yarnam.zookeeper")

N = TypeVar("N", Ticket, RunningGang)

HEARTBEAT_S = 15.0
"""A ticket that has not changed is written again no sooner: others take it for silent after 60 s
(``wait_queue.SILENT_AFTER_S``)."""

CLAIM_TRIES = 5
"""Immediate tries of a claim that conflicts with others. The caller's next look follows soon."""

WRITE_TRIES = 3
"""A node of our name that an older session left behind goes away at the second try."""

REMOVED_AT_ONCE = 50
"""Nodes in our name that are not ours: this many are removed at one look."""


@dataclass(frozen=True, slots=True)
class _Owned:
    """A node that this queue has made or found to be its own, in one session."""

    session: int
    version: int
    data: bytes
    at_s: float


@dataclass(frozen=True, slots=True)
class _Sign:
    """The newest sign of life of a ticket's holder: its node has changed."""

    changed: int
    at_s: float
    """When this change was first seen."""
    looked_at_s: float
    """When the node was last looked at."""

    @classmethod
    def of(cls, before: _Sign | None, changed: int, is_looked_at: bool, now_s: float) -> _Sign:
        if before is None or before.changed != changed:
            return cls(changed, now_s, now_s)
        return replace(before, looked_at_s=now_s) if is_looked_at else before

    @property
    def silent_s(self) -> float:
        """For how long there is known to have been no other."""
        return self.looked_at_s - self.at_s


class ZooKeeperTicketQueue:
    """One job's side of the queue; ``job`` is its application. Thread-safe."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        job: str,
        applications: LiveApplications,
        am_attempt: int = 1,
        *,
        queue: str = "",
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
        self._applications = applications
        self._nodes = TicketNodes(zookeeper, job, applications, self._has_changed)
        self._queue = queue
        self._policies = QueuePolicies(zookeeper)
        self._seen: dict[str, _Sign] = {}
        self._acquiring: frozenset[str] = frozenset()
        """Paths of tickets that ask for containers: what they still ask for soon changes."""
        self._changed: Callable[[], None] = lambda: None
        self._refusal = ""
        self._rejections = Rejections(log, "is passed over", ADVICE)

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
            if ticket.blocked_reason and self._gang is not None:
                self._gang = None
                self._remove(self._running_path)

    def policy(self) -> QueuePolicy:
        with self._lock:
            # An administrator may have moved the job since it was opened.
            shown = self._ticket or self._gang
            queue = shown.queue if shown is not None and self._queue else self._queue
            if not queue:
                return NOTHING_CHOSEN
            if not self._zk.is_connected:
                raise Unavailable(self.trouble)
            return self._policies.of(queue, self._on_policy)

    def _on_policy(self, event: object) -> None:
        self._has_changed()

    def others(self) -> TicketList:
        with self._lock:
            if not self._zk.is_connected:
                raise Unavailable(self.trouble)
            nodes = self._nodes.read(is_fresh=False, watched=self._acquiring)
            self._remove_forged(nodes.own)
            return self._listed(nodes)

    def claim(self, claim: ClaimDecision) -> bool:
        with self._lock:
            if self._ticket is None:
                return False
            for _ in range(CLAIM_TRIES):
                nodes = self._nodes.read()
                ticket = claim(self._listed(nodes))
                if ticket is None:
                    return False
                mine = replace(ticket, number=self._ticket.number, is_acquiring=True)
                if self._commit_claim(mine, nodes.claim_version):
                    self._ticket = mine
                    return True
            return False

    def set_running(self, gang: RunningGang) -> None:
        with self._lock:
            self._gang = gang
            path, data = self._running_path, self._gang_data(gang)
            if not self._is_written(path, data):
                self._write(path, data)
            self._drop_ticket()

    def close(self) -> None:
        # Not under the lock: a call that waits for ZooKeeper must not hold this one up.
        self._ticket = self._gang = None
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
        number = number_of(path)
        if not number:
            # ZooKeeper counts to 2**31, which takes a flood of tickets.
            self._remove(path)
            raise Unavailable(f"ZooKeeper: the numbers of {prefix} are used up", hint=ADVICE)
        self._owned[path] = _Owned(self._zk.session, 0, data, self._now_s())
        return replace(ticket, number=number)

    def _earlier_number(self) -> int:
        """The number of a ticket that an earlier AM attempt, or a call of ours that seemed to fail,
        has made; 0 means none. Raises Superseded."""
        names = self._own_names(TICKETS)
        removed = self._remove_all(self._zk.path(QUEUE, TICKETS, name) for name in names)
        return min(map(number_of, removed), default=0)

    def _own_names(self, folder: str) -> list[str]:
        """Nodes of this job that may be removed, whichever AM attempt made them. Raises
        Superseded."""
        return self._removable(self._nodes.own_names(self._zk.path(QUEUE, folder)))

    def _removable(self, names: Iterable[str]) -> list[str]:
        """Of nodes of this job, those of no newer AM attempt. That there is one only the
        ResourceManager knows: anybody can write a name. Raises Superseded."""
        mine = list(names)
        newer = [name for name in mine if am_attempt_of(name) > self._am_attempt]
        if not newer:
            return mine
        newest = self._applications.newest_attempt(self._job)
        if newest > self._am_attempt:
            raise Superseded(f"a newer AM attempt of {self._job} holds its place in the queue")
        return [name for name in mine if newest or name not in newer]

    def _remove_forged(self, paths: Iterable[str]) -> None:
        """What lies there in our name, and is not ours. Raises Superseded."""
        mine = {self._running_path}
        if self._ticket is not None:
            mine.add(self._ticket_path(self._ticket.number))
        found = self._removable(path for path in paths if path not in mine)
        for path in found[:REMOVED_AT_ONCE]:
            error = ValueError("it is in this job's name, and not of its making")
            self._rejections.add(path, error)
        self._remove_all(found[:REMOVED_AT_ONCE])

    def _remove_all(self, paths: Iterable[str]) -> list[str]:
        """As far as that can be done: who writes there may also make what cannot be removed."""
        removed = []
        for path in paths:
            try:
                self._remove(path)
            except Unavailable as error:
                log.info("%s", error.message)
            else:
                removed.append(path)
        return removed

    def _ticket_data(self, ticket: Ticket) -> bytes:
        """Without its lists of nodes where others would not read so much."""
        shown = replace(ticket, number=0, seen_at_s=None)
        data = encode(shown)
        if len(data) <= MAX_NODE_BYTES:
            return data
        return encode(replace(shown, included=(), excluded=()))

    def _gang_data(self, gang: RunningGang) -> bytes:
        data = encode(gang)
        return data if len(data) <= MAX_NODE_BYTES else encode(replace(gang, nodes=()))

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
            # They may stem from an earlier AM attempt, or from a session that was lost.
            self._remove_all(self._zk.path(QUEUE, folder, name) for name in self._own_names(folder))
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

    def _commit_claim(self, ticket: Ticket, claim_version: int | None) -> bool:
        path, data = self._ticket_path(ticket.number), self._ticket_data(ticket)
        if claim_version is None:
            self._make_claim_node()
            return False
        owned = self._owned.get(path)
        if owned is None or owned.session != self._zk.session:
            self._write(path, self._ticket_data(replace(ticket, is_acquiring=False)))
            owned = self._owned[path]
        data_of_claim = f"{self._job} {ticket.number}".encode()
        writes = ((self._claim_path, data_of_claim, claim_version), (path, data, owned.version))
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

    def _listed(self, nodes: QueueNodes) -> TicketList:
        now_s = self._now_s()
        self._seen = seen = {
            path: _Sign.of(self._seen.get(path), entry.changed, path in nodes.looked_at, now_s)
            for path, entry in nodes.tickets.items()
        }
        acquiring: set[str] = set()

        def believed(path: str, ticket: Ticket) -> Union[Ticket, str]:
            if ticket.is_acquiring:
                acquiring.add(path)
            seen_at_s = now_s - seen[path].silent_s
            shown = replace(ticket, number=number_of(path), seen_at_s=seen_at_s)
            return believed_ticket(shown, nodes.applications, now_s)

        def believed_running(path: str, gang: RunningGang) -> Union[RunningGang, str]:
            return believed_gang(gang, nodes.applications)

        waiting = list(self._decoded(nodes.tickets, Ticket, believed))
        self._acquiring = frozenset(acquiring)
        running = self._decoded(nodes.running, RunningGang, believed_running)
        return TicketList(
            tickets=tuple(
                ticket
                for ticket in sorted(waiting, key=lambda ticket: ticket.number)
                if not _is_stuck(ticket, now_s)
            ),
            running=tuple(sorted(running, key=lambda gang: gang.job)),
            trouble=nodes.trouble,
            unread=nodes.unread,
            policy=self.policy(),
            recorded_gpu_s={
                name: app.gpu_s for name, app in (nodes.applications or {}).items() if app.gpu_s
            },
        )

    def _decoded(
        self,
        entries: Mapping[str, Entry],
        kind: type[N],
        believed: Callable[[str, N], Union[N, str]],
    ) -> Iterator[N]:
        """The oldest of each application that can be read and believed. Another version of yarnam
        may have written the rest, or anybody."""
        counted: set[str] = set()
        for path, entry in entries.items():
            job = job_of(path)
            if job in counted:
                continue
            try:
                value = decode(entry.data, kind, max_bytes=MAX_NODE_BYTES)
            except WireMismatch as error:
                self._rejections.add(path, error, owner=job)
                continue
            found = believed(path, value) if value.job == job else "it is not of whom its name says"
            if isinstance(found, str):
                self._rejections.add(path, ValueError(found), owner=job)
                continue
            counted.add(job)
            yield found

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
                    self._write(self._running_path, self._gang_data(self._gang))
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
