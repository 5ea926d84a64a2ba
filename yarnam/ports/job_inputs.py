"""The exchange between agents and ApplicationMaster about the job's inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hdfs_utils.validation.check_in_subprocess import CheckOutcome


@dataclass(frozen=True, slots=True)
class SuspectReport:
    """A training process has skipped records of a file. ``first`` and ``last``: records; -1 means
    not known."""

    path: str
    reason: str
    times: int = 1
    first: int = -1
    last: int = -1


@dataclass(frozen=True, slots=True)
class CheckOrder:
    """A file to be looked at, on the node that asked for work."""

    number: int
    uri: str
    limit_s: float


class InputService(Protocol):
    """The AM's side. Thread-safe."""

    def excluded_now(self) -> Mapping[str, Sequence[str]]:
        """The files, by input, that processes starting now do not read: paths relative to its URI.
        Returns immediately."""

    def settle(self, name: str, epoch: int) -> tuple[str, ...]:
        """The files that this epoch excludes from the input, decided at the first call for good.
        At most 60 s. Raises YarnamError: there is no such input, HDFS does not answer."""

    def complain(self, node: str, complaints: Sequence[SuspectReport]) -> None:
        """A process on this node has met possible damage. Returns immediately."""

    def next_check(self, node: str) -> CheckOrder | None:
        """Return the next check for this node; the call is its sign of life. Returns
        immediately."""

    def checked(self, number: int, outcome: CheckOutcome) -> None:
        """A check has ended. Returns immediately."""


class InputEndpoint(Protocol):
    """Where agents ask."""

    def serve(self, service: InputService) -> None:
        """Answer from now on by this service; agents wait until then."""

    def wake(self) -> None:
        """There may be something to check: agents that wait for work ask again. Thread-safe."""
