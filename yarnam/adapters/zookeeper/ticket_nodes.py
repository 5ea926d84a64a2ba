"""Reads the ticket queue's nodes in ZooKeeper, whatever has been written there.

A reader is an ApplicationMaster, which must not be hurt by what others write. So nothing is listed
before its number is known, and nothing is read before its size is; of each living application one
or two nodes are read, the oldest ones; names of others are passed over unread.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest

from kazoo.protocol.states import ZnodeStat

from hdfs_utils.protocols.rejections import Rejections
from yarnam.adapters.zookeeper.session import Entry, ZooKeeper
from yarnam.core.admission.ticket_checks import Applications
from yarnam.errors import Unavailable
from yarnam.ports.ticket_queue import LiveApplications

log = logging.getLogger("yarnam.zookeeper")

QUEUE = "queue"
TICKETS = "tickets"
RUNNING = "running"
CLAIM = "claim"

MOST_CHILDREN = 10_000
"""Nodes that are listed of one folder: half a megabyte of names. More jobs than wait or run on any
cluster; with more there the queue is out of use until somebody clears it."""

MOST_OF_ONE = 16
"""Nodes of one application and folder that are looked at. It has one, two while an AM attempt
follows another."""

READ_OF_ONE = 2
"""Of these, this many are read: the oldest. Another's forgery comes later than the job's own node,
and one that cannot be read must not hide it."""

MAX_NODE_BYTES = 256 << 10
"""A ticket has some 400 bytes; one that names 5,000 nodes has 200 kB, as has a gang that runs on
this many."""

MAX_LOOK_BYTES = 16 << 20
"""Bytes of all nodes that one look reads, the smallest first."""

USUAL_STRAYS = 100
"""Nodes of no living application that a folder may hold without a word: those of jobs that have
just ended, until ZooKeeper gives up their session (10 s), and of jobs that began since the
ResourceManager was last asked (30 s)."""

RECHECKED = 50
"""Known nodes that one look looks at again, the longest unseen first: with 1,000 jobs in the
queue looks that read them all were 69,000 requests a second for ZooKeeper. Half of them are kept
for nodes that the caller names. Names that are gone are forgotten."""

NEW_AT_ONCE = 50
"""Unknown nodes that one look reads, those of the smallest numbers first: after ZooKeeper has lost
all sessions, the nodes of 1,000 jobs are unknown to each of 1,000 readers, who ask some 34 times a
second in all (docs/evidence/cluster-cost.md). A job behind that many waits at the longest
interval anyway, and a claim reads all of them."""

BATCH = 500
"""Calls in flight together: their answers are in memory together."""

_NAME = re.compile(
    r"(?:.*/)?(?P<job>[^/@]{1,64})@(?P<attempt>[0-9]{1,9})(?:-(?P<number>[0-9]{10}))?"
)

ADVICE = "Another version of yarnam wrote it, or no job at all: see yarnam docs zookeeper."


def job_of(path: str) -> str:
    """Whose node it is; empty means none of ours."""
    match = _NAME.fullmatch(path)
    return match["job"] if match else ""


def am_attempt_of(path: str) -> int:
    """Attempt of the AM that made the node; 0 if the name is not one of ours."""
    match = _NAME.fullmatch(path)
    return int(match["attempt"]) if match else 0


def number_of(path: str) -> int:
    """The number of a ticket's node: 1 for ZooKeeper's 0, since 0 means none."""
    match = _NAME.fullmatch(path)
    return int(match["number"]) + 1 if match and match["number"] else 0


@dataclass(frozen=True, slots=True)
class QueueNodes:
    """What one look has read. Of each application the oldest node first."""

    claim_version: int | None
    """``None`` means nobody has claimed yet."""
    tickets: dict[str, Entry]
    running: dict[str, Entry]
    own: tuple[str, ...]
    """Paths of nodes in the job's own name, whoever made them."""
    applications: Applications | None
    """``None`` means the ResourceManager does not confirm anything."""
    trouble: str
    """Why it does not."""
    looked_at: frozenset[str] = frozenset()
    """Paths of the nodes that this look has seen; the others are as an earlier look saw them."""
    unread: int = 0
    """Jobs that are listed as waiting, or as running, of which no look has seen a node yet."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A node as it was when it was last looked at."""

    stat: ZnodeStat
    read: int
    """The number of the reading that did."""
    entry: Entry | None = None
    """``None`` means it was not read."""


class TicketNodes:
    """Reads them for ``job``; ``changed`` is called, in kazoo's thread, when something has changed
    since the last look: a ticket or a running gang has come or gone, or there is a claim."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        job: str,
        applications: LiveApplications,
        changed: Callable[[], None],
    ) -> None:
        self._zk = zookeeper
        self._job = job
        self._applications = applications
        self._changed = changed
        self._rejections = Rejections(log, "is not read", ADVICE)
        self._known: dict[str, _Known] = {}
        self._reads = 0
        self._claim_version: int | None = None

    def read(self, *, is_fresh: bool = True, watched: Collection[str] = ()) -> QueueNodes:
        """At most 10 s. The claim first: what changes later makes its version change later too.
        Raises Unavailable, also where there is too much to read.

        ``is_fresh`` False: of a long queue most nodes may be as an earlier look saw them. Those at
        the paths ``watched`` come first, and that of the last job to claim."""
        zk = self._zk
        folders = [zk.path(QUEUE, name) for name in (TICKETS, RUNNING)]
        calls = [zk.checking(path, self._on_event) for path in (zk.path(QUEUE, CLAIM), *folders)]
        claim, *stats = zk.together(calls, "looking at the tickets")
        for folder, stat in zip(folders, stats, strict=True):
            _must_be_readable(folder, stat)
        there = [folder for folder, stat in zip(folders, stats, strict=True) if stat is not None]
        listings = [zk.listing(folder, self._on_event) for folder in there]
        listed = zk.together(listings, "listing the tickets")
        names = {
            folder: [name for name in found or () if job_of(name)]
            for folder, found in zip(there, listed, strict=True)
        }
        own = [
            f"{folder}/{name}"
            for folder, found in names.items()
            for name in found
            if job_of(name) == self._job
        ]
        found = self._applications.confirm(
            {job_of(name) for below in names.values() for name in below} - {self._job}
        )
        wanted = {
            folder: self._of_others(folder, below, found.applications)
            for folder, below in names.items()
        }
        version = None if claim is None else claim.version
        paths = [path for below in wanted.values() for path in below]
        if version != self._claim_version:
            watched = {*watched, *self._of_claimer(paths)}
        self._claim_version = version
        entries, looked_at = self._read(paths, None if is_fresh else watched)
        tickets, running = (
            {path: entry for path, entry in entries.items() if path.startswith(f"{folder}/")}
            for folder in folders
        )
        unread = {*map(_owner, paths)} - {*map(_owner, looked_at)} - self._owners()
        return QueueNodes(
            version, tickets, running, tuple(own), found.applications, found.trouble, looked_at,
            len(unread),
        )  # fmt: skip

    def own_names(self, folder: str) -> list[str]:
        """Names in the folder that are in the job's own name. Raises Unavailable."""
        [stat] = self._zk.together([self._zk.checking(folder)], f"looking at {folder}")
        _must_be_readable(folder, stat)
        names = self._zk.children(folder) if stat is not None else []
        return [name for name in names if job_of(name) == self._job]

    def _of_others(
        self, folder: str, names: Sequence[str], applications: Applications | None
    ) -> list[str]:
        """Paths of nodes to look at."""
        by_job: dict[str, list[str]] = {}
        unknown = 0
        for name in names:
            job = job_of(name)
            if job == self._job:
                continue
            if applications is not None and job not in applications:
                unknown += 1
                continue
            by_job.setdefault(job, []).append(name)
        if unknown > USUAL_STRAYS:
            error = ValueError(f"{unknown} of its {len(names)} nodes name no living application")
            self._rejections.add(folder, error)
        return [
            f"{folder}/{name}" for found in by_job.values() for name in sorted(found)[:MOST_OF_ONE]
        ]

    def _of_claimer(self, paths: Sequence[str]) -> list[str]:
        """Paths of the job whose claim was the last one."""
        [claim] = self._zk.read(self._zk.path(QUEUE, CLAIM))
        claimer = claim.data.partition(b" ")[0] if claim is not None else b""
        return [path for path in paths if job_of(path).encode() == claimer]

    def _read(
        self, paths: Sequence[str], watched: Collection[str] | None
    ) -> tuple[dict[str, Entry], frozenset[str]]:
        """Those of them that are read, the oldest of an application first; and which of them are
        as they are now. ``watched`` None: all."""
        self._reads += 1
        self._known = {path: self._known[path] for path in paths if path in self._known}
        due = paths if watched is None else self._due(paths, watched)
        for batch in _batches(due):
            calls = [self._zk.checking(path) for path in batch]
            found = self._zk.together(calls, "looking at the tickets")
            for path, stat in zip(batch, found, strict=True):
                self._take(path, stat)
        chosen = self._chosen({path: known.stat for path, known in self._known.items()})
        for batch in _batches(path for path in chosen if self._known[path].entry is None):
            for path, entry in zip(batch, self._zk.read(*batch), strict=True):
                if entry is not None and len(entry.data) <= MAX_NODE_BYTES:
                    self._known[path] = replace(self._known[path], entry=entry)
        read = [(path, self._known[path].entry) for path in chosen]
        entries = {path: entry for path, entry in read if entry is not None}
        by_age = sorted(entries.items(), key=lambda item: (item[1].created, item[0]))
        return dict(by_age), frozenset(due)

    def _due(self, paths: Sequence[str], watched: Collection[str]) -> list[str]:
        """The nodes that a look reads: the unknown ones, and those whose turn it is."""
        new = self._new(path for path in paths if path not in self._known)
        known = sorted((path for path in paths if path in self._known), key=self._last_read)
        first = [path for path in known if path in watched][: RECHECKED // 2]
        rest = [path for path in known if path not in set(first)]
        return [*new, *first, *rest[: RECHECKED - len(first)]]

    def _new(self, paths: Iterable[str]) -> list[str]:
        """Tickets by their numbers and running gangs, in turn. First those of whose jobs nothing is
        known: another's forgeries must not come before them."""
        seen = self._owners()
        by_folder: dict[str, list[str]] = {}
        for path in sorted(paths, key=lambda path: (_owner(path) in seen, number_of(path))):
            by_folder.setdefault(path.rpartition("/")[0], []).append(path)
        in_turn = (path for row in zip_longest(*by_folder.values()) for path in row if path)
        return list(islice(in_turn, NEW_AT_ONCE))

    def _owners(self) -> set[tuple[str, str]]:
        return {*map(_owner, self._known)}

    def _last_read(self, path: str) -> int:
        return self._known[path].read

    def _take(self, path: str, stat: ZnodeStat | None) -> None:
        if stat is None:
            self._known.pop(path, None)
            return
        known = self._known.get(path)
        entry = known.entry if known is not None else None
        is_same = entry is not None and entry.changed == stat.mzxid
        self._known[path] = _Known(stat, self._reads, entry if is_same else None)

    def _chosen(self, stats: dict[str, ZnodeStat]) -> list[str]:
        """Within all limits."""
        taken: dict[tuple[str, str], int] = {}
        chosen: list[str] = []
        for path in sorted(stats, key=lambda path: (stats[path].czxid, path)):
            kind = (path.rpartition("/")[0], job_of(path))
            if stats[path].dataLength > MAX_NODE_BYTES:
                self._rejections.add(path, ValueError(f"it has {stats[path].dataLength} bytes"))
            elif taken.setdefault(kind, 0) < READ_OF_ONE:
                taken[kind] += 1
                chosen.append(path)
        chosen.sort(key=lambda path: stats[path].dataLength)
        size = 0
        for number, path in enumerate(chosen):
            size += stats[path].dataLength
            if size > MAX_LOOK_BYTES:
                error = ValueError(f"{len(chosen) - number} of its larger nodes are too much")
                self._rejections.add(self._zk.path(QUEUE), error)
                return chosen[:number]
        return chosen

    def _on_event(self, event: object) -> None:
        self._changed()


def _must_be_readable(folder: str, stat: ZnodeStat | None) -> None:
    if stat is not None and stat.numChildren > MOST_CHILDREN:
        raise Unavailable(
            f"ZooKeeper: {folder} has {stat.numChildren} nodes, more than {MOST_CHILDREN}: it has "
            "been flooded",
            hint="An administrator removes them (deleteall in zkCli.sh) and keeps others out: "
            "yarnam docs zookeeper",
        )


def _owner(path: str) -> tuple[str, str]:
    """Folder and job."""
    return path.rpartition("/")[0], job_of(path)


def _batches(paths: Iterable[str]) -> Iterator[list[str]]:
    left = iter(paths)
    while batch := list(islice(left, BATCH)):
        yield batch
