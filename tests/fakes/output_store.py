"""A job's output in memory, shared by the AM attempts of one job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from yarnam.core.model.ids import TaskId
from yarnam.errors import BadSpec, Unavailable, YarnamError
from yarnam.ports.output_store import StoredOutputs, StoringProgress


@dataclass(slots=True)
class OutputDisk:
    """What outlives an AM attempt.

    ``written``: by attempt and task, files and bytes. ``outages`` calls from now on fail;
    ``refusal`` is raised by every ``store``.
    """

    written: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict)
    prepared: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    stored: StoredOutputs | None = None
    stores: int = 0
    is_kept: bool | None = None
    """After ``give_up``."""
    outages: int = 0
    is_taken: bool = False
    """Somebody else has made the output."""
    refusal: YarnamError | None = None
    hangs: Callable[[], bool] = lambda: False
    """While this is true, ``store`` makes no progress."""


class FakeOutputs:
    def __init__(self, disk: OutputDisk) -> None:
        self._disk = disk

    def prepare(self, attempt: int, tasks: Sequence[TaskId]) -> None:
        self._fail()
        self._disk.prepared.append((attempt, tuple(map(str, tasks))))

    def store(
        self,
        attempt: int,
        tasks: Sequence[TaskId],
        tell: Callable[[StoringProgress], None],
        is_stopped: Callable[[], bool],
    ) -> StoredOutputs | None:
        disk = self._disk
        disk.stores += 1
        self._fail()
        if disk.refusal is not None:
            raise disk.refusal
        found = [disk.written.get((attempt, str(task)), (0, 0)) for task in tasks]
        files, size = sum(n for n, _ in found), sum(size for _, size in found)
        tell(StoringProgress(files, size, 0))
        if disk.hangs():
            raise Unavailable("HDFS is in safe mode")
        if is_stopped():
            return None
        if disk.is_taken and disk.stored is None:
            raise BadSpec("the output is there already")
        if disk.stored is None:
            disk.stored = StoredOutputs(files, size)
        tell(StoringProgress(files, size, files))
        return disk.stored

    def find_stored(self) -> StoredOutputs | None:
        self._fail()
        return self._disk.stored

    def give_up(self, *, is_kept: bool) -> None:
        self._fail()
        self._disk.is_kept = is_kept

    def _fail(self) -> None:
        if self._disk.outages > 0:
            self._disk.outages -= 1
            raise Unavailable("HDFS does not answer")
