"""A journal in memory, shared by the AM attempts of one job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from yarnam.core.model.events import Event
from yarnam.errors import Unavailable
from yarnam.ports import Superseded


@dataclass(slots=True)
class JournalDisk:
    """What outlives an AM attempt. ``outages`` calls from now on fail, *after* having written when
    ``writes_first``: the caller cannot know."""

    events: list[Event] = field(default_factory=list)
    newest: int = 0
    outages: int = 0
    writes_first: bool = False
    is_closed: bool = False


class FakeJournal:
    def __init__(self, disk: JournalDisk, am_attempt: int) -> None:
        self._disk = disk
        self._am_attempt = am_attempt
        self._count = 0

    def replay(self) -> Sequence[Event]:
        self._fail()
        if self._disk.newest >= self._am_attempt:
            raise Superseded(f"attempt {self._disk.newest} has the journal")
        self._disk.newest = self._am_attempt
        self._count = len(self._disk.events)
        return list(self._disk.events)

    def append(self, events: Sequence[Event]) -> None:
        if self._disk.newest != self._am_attempt:
            raise Superseded(f"attempt {self._disk.newest} has the journal")
        if not self._disk.writes_first:
            self._fail()
        done = len(self._disk.events) - self._count
        self._disk.events.extend(list(events)[done:])
        if self._disk.writes_first:
            self._fail()
        self._count = len(self._disk.events)

    def close(self) -> None:
        self._disk.is_closed = True

    def _fail(self) -> None:
        if self._disk.outages > 0:
            self._disk.outages -= 1
            raise Unavailable("HDFS does not answer")
