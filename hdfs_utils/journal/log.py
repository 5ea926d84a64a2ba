"""An append-only log of records that a restarted process can read back: :class:`AppendLog`.

What it promises
    - ``append`` returns when the records are on every replica: they survive kill -9 of the
      writer and are in the next opener's ``recovered``, in order, each once.
    - One writer at a time. Each opening has an epoch, a number that only grows (an AM's attempt).
      Opening cuts off every older writer, dead or alive: a stale one gets Fenced or
      Unavailable from its next ``append`` and cannot change what is read.
    - A torn last record is dropped; damage before the end is CorruptData, never silence.

How
    Each epoch writes its own segment files ``journal-<epoch>-<part>.log``; a further part is begun
    where the pipeline to the DataNodes broke. An opener first creates its own segment, then takes
    over the lease of every older one, which closes it and refuses its writer, and writes a header
    that names the older segments and the length at which each was cut. A reader believes the
    newest header and nothing else. A writer that begins a further part does so before it looks
    for newer epochs: of two racing processes at least one sees the other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hdfs_utils import errors
from hdfs_utils import uri as uris
from hdfs_utils.concurrency.retry import Backoff, retry
from hdfs_utils.filesystem import FileSystem, Writer
from hdfs_utils.journal import format as fmt
from hdfs_utils.journal.format import Header, Segment

if TYPE_CHECKING:
    from typing_extensions import Self

# The NameNode sets a block's full size aside for each open file: a journal is small.
BLOCK_SIZE = 8 << 20
# Between new parts. The NameNode does not know of a dead DataNode for minutes and may name it
# again, so one new part is not always enough.
BACKOFF = Backoff(first_s=0.01, cap_s=1.0, is_jittered=False)  # a journal has one writer
MAX_EPOCH = 10**10 - 1


@dataclass(frozen=True, slots=True)
class JournalContent:
    """The content of a journal.

    Attributes:
        records: all records in order.
        epoch: of the newest opening; 0 if there was none.
        torn_bytes: bytes of unfinished records that were dropped; never acknowledged ones.
    """

    records: tuple[bytes, ...]
    epoch: int
    torn_bytes: int


class AppendLog:
    """The writing end of a journal; make it with :meth:`open`. For one thread at a time.

    Attributes:
        epoch: of this opening.
        recovered: what was in the journal when it was opened.
    """

    def __init__(
        self, fs: FileSystem, directory: str, epoch: int, recovered: JournalContent
    ) -> None:
        self.epoch = epoch
        self.recovered = recovered
        self._fs = fs
        self._directory = directory
        self._next = len(recovered.records) + 1
        self._cuts: dict[str, int] = {}
        self._part = 0
        self._writer: Writer | None = None
        # The newest segment that was begun, and how many of its bytes were acknowledged. Its
        # number is not always ``_part``: parts that could not be created leave gaps.
        self._segment = fmt.segment_name(epoch, 0)
        self._durable = 0
        self._broken: errors.HdfsError | None = None

    @classmethod
    def open(cls, fs: FileSystem, directory: str, epoch: int | None = None) -> AppendLog:
        """Open for writing and cut off every older writer.

        Takes a few milliseconds after a clean close and about one DataNode heartbeat (3 s by
        default) after a crash; at most ``fs.limits.lease_s`` for each segment.

        Args:
            fs: where.
            directory: of the journal; made if it is missing.
            epoch: greater than that of every opening before; None for one more than the last.

        Raises:
            Fenced: the epoch is taken, or there is a newer one.
            CorruptData: the journal is damaged; nothing is repaired in silence.
            Unavailable: HDFS does not answer, or a lease could not be recovered in time.
        """
        directory = fs.own_path(directory)
        fs.mkdirs(directory)
        names = _segments(fs, directory)
        newest = _epoch(names[-1]) if names else 0
        chosen = newest + 1 if epoch is None else epoch
        if not newest < chosen <= MAX_EPOCH:
            message = f"epoch {chosen} is not newer than {newest}, which has the journal"
            raise errors.Fenced(message, path=directory, operation="open journal")
        # First show oneself, then look again: see the module's text for why in this order.
        writer = _create(fs, directory, chosen, 0)
        names = _segments(fs, directory)
        _check_newest(names, chosen, directory)
        older = [name for name in names if _epoch(name) < chosen]
        for name in older:
            fs.recover_lease(uris.join(directory, name))
        recovered, cuts = _read(fs, directory, older, live=False)
        log = cls(fs, directory, chosen, recovered)
        log._begin(writer, log._segment, cuts)
        return log

    def append(self, records: Sequence[bytes]) -> None:
        """Add records; they are durable and in order when this returns.

        After an error it is unknown whether they are in the journal, and the log refuses
        everything else: open it again to know.

        Raises:
            Fenced: a newer epoch has the journal: stop immediately.
            Unavailable: HDFS does not take it, also in new segments, for ``fs.limits.data_s``.
        """
        if self._broken is not None:
            raise self._broken
        if not records:
            return
        try:
            self._write(fmt.encode_all(self._next, records))
        except errors.HdfsError as error:
            self._broken = error
            raise
        self._next += len(records)

    def close(self) -> None:
        """Let it go. What was acknowledged is safe already, so an error here changes nothing."""
        writer, self._writer = self._writer, None
        self._broken = self._broken or errors.Fenced(
            "closed", path=self._directory, operation="append"
        )
        if writer is not None:
            with contextlib.suppress(errors.HdfsError):
                writer.close()
            self._close_older_parts()

    def _close_older_parts(self) -> None:
        """Parts that were given up are open still, and the restart of a DataNode makes an open file
        unreadable until HDFS takes its lease, 20 minutes after the writer's death
        (dfs.namenode.lease-hard-limit-sec)."""
        with contextlib.suppress(errors.HdfsError):
            for name in _segments(self._fs, self._directory):
                if _epoch(name) == self.epoch and name != self._segment:
                    self._fs.recover_lease(uris.join(self._directory, name))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()

    def _write(self, data: bytes) -> None:
        # One new part is always tried, also where the time went into a stuck call.
        retry(
            lambda: self._send(data), self._fs.limits.data_s, at_least=2, backoff=BACKOFF,
            is_retriable=self._goes_on_after,
        )  # fmt: skip

    def _send(self, data: bytes) -> None:
        if self._writer is None:
            self._new_part()
        assert self._writer is not None
        self._writer.write(data)
        self._writer.sync()
        self._durable += len(data)

    def _goes_on_after(self, error: Exception) -> bool:
        """Whether a new part may take what this one did not. Raises Fenced."""
        if not isinstance(
            error, (errors.Unavailable, errors.LeaseLost, errors.LeaseConflict, errors.NotFound)
        ):
            return False
        # Not closed: its pipeline is broken, and the cut makes its length irrelevant.
        self._writer = None
        self._check_fence()
        return True

    def _begin(self, writer: Writer, name: str, cuts: dict[str, int]) -> None:
        self._writer, self._segment, self._cuts, self._durable = writer, name, cuts, 0
        try:
            self._send(fmt.encode(0, Header(self.epoch, cuts).encode()))
        except errors.HdfsError:
            self._writer = None
            self._check_fence()
            raise

    def _new_part(self) -> None:
        """Go on in a further segment, the last one cut at what was acknowledged."""
        cuts = dict(self._cuts)
        if self._durable:
            cuts[self._segment] = self._durable
        self._part += 1
        writer = _create(self._fs, self._directory, self.epoch, self._part)
        missing = set(cuts).difference(self._check_fence())
        if missing:
            writer.abort()
            message = f"segments are gone: {', '.join(sorted(missing))}"
            raise errors.CorruptData(message, path=self._directory, operation="append")
        self._begin(writer, fmt.segment_name(self.epoch, self._part), cuts)

    def _check_fence(self) -> list[str]:
        names = _segments(self._fs, self._directory)
        _check_newest(names, self.epoch, self._directory)
        return names


def read_journal(fs: FileSystem, directory: str, *, is_over: bool = False) -> JournalContent:
    """Read a journal without disturbing its writer: all that was acknowledged until now.

    Args:
        fs: where.
        directory: of the journal.
        is_over: its writer is known to be dead. A file that it left open may be unreadable, which
            the restart of a DataNode does; it is closed then, and read.

    Raises:
        CorruptData: damaged before its end.
        Unavailable: HDFS does not answer.
    """
    directory = fs.own_path(directory)
    try:
        names = _segments(fs, directory)
    except errors.NotFound:
        names = []
    try:
        return _read(fs, directory, names, live=True)[0]
    except errors.Unavailable:
        if not is_over:
            raise
        for name in names:
            fs.recover_lease(uris.join(directory, name))
        return _read(fs, directory, names, live=True)[0]


def _create(fs: FileSystem, directory: str, epoch: int, part: int) -> Writer:
    path = uris.join(directory, fmt.segment_name(epoch, part))
    try:
        return fs.open_writer(path, block_size=BLOCK_SIZE)
    except (errors.AlreadyExists, errors.LeaseConflict) as error:
        message = f"epoch {epoch} is taken by another writer"
        raise errors.Fenced(message, path=directory, operation="open journal") from error


def _segments(fs: FileSystem, directory: str) -> list[str]:
    names = (uris.name(status.path) for status in fs.list(directory) if not status.is_dir)
    return sorted(name for name in names if fmt.parse_segment_name(name))


def _epoch(name: str) -> int:
    parsed = fmt.parse_segment_name(name)
    assert parsed is not None
    return parsed[0]


def _check_newest(names: Sequence[str], epoch: int, directory: str) -> None:
    newest = _epoch(names[-1]) if names else 0
    if newest > epoch:
        message = f"epoch {newest} has taken over from epoch {epoch}"
        raise errors.Fenced(message, path=directory, operation="journal")


def _read(
    fs: FileSystem, directory: str, names: Sequence[str], *, live: bool
) -> tuple[JournalContent, dict[str, int]]:
    """The content, and where each segment that belongs to it ends."""
    read = fs.read_synced if live else fs.read_bytes
    for name in reversed(names):
        path = uris.join(directory, name)
        data = read(path)
        newest = fmt.parse_segment(data, path)
        # Without a header its writer never got to acknowledge anything.
        if newest.header is not None:
            break
    else:
        return JournalContent((), _epoch(names[-1]) if names else 0, 0), {}
    records: list[bytes] = []
    for old, cut in newest.header.cuts.items():
        _collect(_read_cut(read(uris.join(directory, old)), cut, directory, old), records, old)
    _collect(newest, records, name)
    cuts = {**newest.header.cuts, name: len(data) - newest.torn}
    return JournalContent(tuple(records), _epoch(names[-1]), newest.torn), cuts


def _read_cut(data: bytes, cut: int, directory: str, name: str) -> Segment:
    path = uris.join(directory, name)
    if len(data) < cut:
        message = f"has {len(data)} bytes of {cut} that were acknowledged"
        raise errors.CorruptData(message, path=path, operation="read journal")
    segment = fmt.parse_segment(data[:cut], path)
    if segment.torn:
        message = f"damaged at byte {cut - segment.torn}"
        raise errors.CorruptData(message, path=path, operation="read journal")
    return segment


def _collect(segment: Segment, records: list[bytes], name: str) -> None:
    for frame in segment.records:
        expected = len(records) + 1
        if frame.sequence != expected:
            message = f"record {frame.sequence} where {expected} belongs"
            raise errors.CorruptData(message, path=name, operation="read journal")
        records.append(frame.payload)
