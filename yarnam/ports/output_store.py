"""The job's output as the ApplicationMaster sees it: prepared, stored, given up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from yarnam.core.model.ids import TaskId


@dataclass(frozen=True, slots=True)
class StoringProgress:
    """``moved`` of ``files`` are in their place."""

    files: int
    size_bytes: int
    moved: int


@dataclass(frozen=True, slots=True)
class StoredOutputs:
    """The stored output. ``renamed`` counts files that got another name than their task's."""

    files: int
    size_bytes: int
    renamed: int = 0


class OutputStore(Protocol):
    """One job's output, in one life of its AM. All calls may block as long as HDFS lets them, and
    are harmless to repeat. Raise Unavailable, Superseded (a later AM attempt has taken over) and
    other YarnamErrors, after which trying again is of no use."""

    def prepare(self, attempt: int, tasks: Sequence[TaskId]) -> None:
        """Make the places that the tasks of this attempt write to. What older attempts wrote is
        taken away, unless the job wants it kept."""

    def store(
        self,
        attempt: int,
        tasks: Sequence[TaskId],
        tell: Callable[[StoringProgress], None],
        is_stopped: Callable[[], bool],
    ) -> StoredOutputs | None:
        """Turn the files that these tasks wrote into the job's output, all together. ``None`` if it
        was stopped before that. If several tasks wrote one name, the first one keeps it."""

    def find_stored(self) -> StoredOutputs | None:
        """After a stop: the outputs stored in spite of it. ``None`` if there are none, so that an
        earlier output is in place again."""

    def give_up(self, *, is_kept: bool) -> None:
        """The job has not succeeded: keep what its tasks wrote beside the output, or take it
        away."""
