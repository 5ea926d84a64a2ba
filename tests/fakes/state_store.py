"""Records in memory, shared by the AM attempts of one job."""

from __future__ import annotations

from dataclasses import dataclass, field

from yarnam.errors import Unavailable
from yarnam.ports import Superseded


@dataclass(slots=True)
class StoreDisk:
    """What outlives an AM attempt. ``outages`` calls from now on fail."""

    records: dict[str, bytes] = field(default_factory=dict)
    newest: int = 0
    outages: int = 0
    no_removal: bool = False
    """HDFS stops answering just before."""


class FakeStore:
    def __init__(self, disk: StoreDisk, epoch: int) -> None:
        self._disk = disk
        self._epoch = epoch

    def put(self, name: str, value: bytes) -> None:
        self._fail()
        if self._disk.newest > self._epoch:
            raise Superseded(f"attempt {self._disk.newest} has taken over")
        self._disk.newest = self._epoch
        self._disk.records[name] = value

    def get(self, name: str) -> bytes | None:
        self._fail()
        return self._disk.records.get(name)

    def remove(self, name: str) -> None:
        self._fail()
        if self._disk.no_removal:
            raise Unavailable("HDFS does not answer")
        if self._disk.newest > self._epoch:
            raise Superseded(f"attempt {self._disk.newest} has taken over")
        self._disk.records.pop(name, None)

    def _fail(self) -> None:
        if self._disk.outages > 0:
            self._disk.outages -= 1
            raise Unavailable("HDFS does not answer")
