"""Decide which files of an input each process reads in an epoch. Pure: the agent uses it too.

Files are divided into *shares*, one for each process that reads: each file goes to the share that
has the fewest bytes so far, large files first. So no share has more than the mean and one file, and
every process that knows the same files computes the same shares. (Graham's longest-processing-time
rule, SIAM J. Appl. Math. 17, 1969: at most 4/3 of the best possible.)

What has been read of an epoch is a ``Progress``. Each process knows its own; merged over all
processes it gives what is left, and what is left is divided again, into as many shares as there are
then. That is why a restart or a resize in the middle of an epoch reads nothing twice and misses
nothing: see ``merge_states``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    ExcludedFiles = Callable[[int], Collection[str]]
    """Paths that an epoch excludes."""


@dataclass(frozen=True)
class InputFile:
    """One file of an input. ``path`` is relative to the input's root, ``length`` in bytes."""

    path: str
    length: int
    mtime_ms: int = 0


@dataclass(frozen=True)
class Progress:
    """The part of one epoch that has been read. Files are numbers: places in the input's list.

    Attributes:
        done: files read to their end.
        begun: of other files, how many of their first records were read.
    """

    done: frozenset[int] = frozenset()
    begun: Mapping[int, int] = field(default_factory=dict)

    def plus(self, other: Progress) -> Progress:
        """The files that either of two has read; of a file that both have begun, the larger
        count."""
        done = self.done | other.done
        begun: dict[int, int] = {}
        for source in (self.begun, other.begun):
            for number, records in source.items():
                if number not in done:
                    begun[number] = max(records, begun.get(number, 0))
        return Progress(done, begun)


NOTHING_READ = Progress()


class StatesMissing(ValueError):
    """The states of some processes are missing: continuing would read files twice."""


@dataclass(frozen=True)
class Partitioner:
    """How an input is divided into shares.

    Attributes:
        files: all of it, in the order that gives them their numbers.
        is_fixed: a file goes to the same share in every epoch, because the nodes have copies of
            their shares only. If not, each epoch is divided separately.
        is_shared: each file is one share's. If not, every process reads all of them.
    """

    files: Sequence[InputFile]
    is_fixed: bool = False
    is_shared: bool = True

    def share(
        self,
        epoch: int,
        share: int,
        shares: int,
        excluded: Collection[str] = (),
        read: Progress = NOTHING_READ,
    ) -> list[int]:
        """The files, by number, that one share has yet to read in an epoch."""
        left = [
            number
            for number, file in enumerate(self.files)
            if number not in read.done and file.path not in excluded
        ]
        if not self.is_shared or shares == 1:
            return left
        if not self.is_fixed:
            return partition(self.files, left, shares, str(epoch))[share]
        mine = set(partition(self.files, range(len(self.files)), shares)[share])
        return [number for number in left if number in mine]


def partition(
    files: Sequence[InputFile], numbers: Iterable[int], shares: int, salt: str = ""
) -> list[list[int]]:
    """Divide files over shares by size; each share's numbers are in their order.

    Files of about the same size (within a factor of two) are taken in an order that follows from
    ``salt`` and their paths, so that another salt gives other shares.
    """
    import heapq

    order = sorted(
        numbers, key=lambda n: (-files[n].length.bit_length(), _draw(salt, files[n].path), n)
    )
    dealt: list[list[int]] = [[] for _ in range(shares)]
    # Bytes first, then files, so that empty files are divided too.
    heap: list[tuple[int, int, int]] = [(0, 0, share) for share in range(shares)]
    for number in order:
        size, count, share = heap[0]
        dealt[share].append(number)
        heapq.heapreplace(heap, (size + files[number].length, count + 1, share))
    for mine in dealt:
        mine.sort()
    return dealt


def in_order(files: Sequence[InputFile], numbers: Iterable[int], salt: str) -> list[int]:
    """Shuffles in an order that follows from ``salt``: the same on every machine, another one for
    another salt."""
    return sorted(numbers, key=lambda n: (_draw(salt, files[n].path), n))


@dataclass(frozen=True)
class ReaderState:
    """The reads of one process.

    Attributes:
        share, shares: its share, of how many.
        first: the first epoch that it read in with these shares.
        epoch: the one that it is in: of those from ``first`` on it has read its whole share.
        own: its reads of ``epoch``. before: earlier reads, by any process, of the epochs from
            ``first`` on; each process carries its part of that.
    """

    share: int
    shares: int
    first: int = 0
    epoch: int = 0
    own: Progress = NOTHING_READ
    before: Mapping[int, Progress] = field(default_factory=dict)


def merge_states(
    partitioner: Partitioner, states: Sequence[ReaderState], excluded: ExcludedFiles
) -> Merged:
    """Merge what all processes have read.

    Raises:
        StatesMissing: the states are not those of all processes of one and the same gang.
    """
    if not states:
        return Merged(0, {})
    if not partitioner.is_shared:
        # Every process reads everything, as the one share that there is: the slowest decides.
        states = [min(states, key=lambda state: (state.epoch, len(state.own.done)))]
    shares, first = states[0].shares, states[0].first
    if any((state.shares, state.first) != (shares, first) for state in states):
        raise StatesMissing("the states are of gangs of different sizes, or of different times")
    missing = set(range(shares)) - {state.share for state in states}
    if missing:
        text = ", ".join(str(share) for share in sorted(missing)[:8])
        raise StatesMissing(f"states of {shares} processes are needed; missing: {text}")
    read: dict[int, Progress] = {}
    before: dict[int, Progress] = {}
    for state in states:
        for epoch, progress in state.before.items():
            before[epoch] = before.get(epoch, NOTHING_READ).plus(progress)
    # Earlier reads may belong to epochs that no process has reached again.
    last = max(*before, *(state.epoch for state in states), first)
    for epoch in range(first, last + 1):
        whole = before.get(epoch, NOTHING_READ)
        for state in states:
            if state.epoch > epoch:
                mine = partitioner.share(
                    epoch, state.share, shares, excluded(epoch), before.get(epoch, NOTHING_READ)
                )
                whole = whole.plus(Progress(frozenset(mine)))
            elif state.epoch == epoch:
                whole = whole.plus(state.own)
        read[epoch] = whole
    return _without_complete(partitioner, read, excluded)


@dataclass(frozen=True)
class Merged:
    """The reads of all epochs that are not complete.

    Attributes:
        first: the first of them.
        read: by epoch, from ``first`` on; a missing epoch has not been begun.
    """

    first: int
    read: Mapping[int, Progress]

    def state(self, share: int, shares: int) -> ReaderState:
        """The state with which one of this many processes begins."""
        return ReaderState(
            share,
            shares,
            self.first,
            self.first,
            before={epoch: _part(p, share, shares) for epoch, p in self.read.items()},
        )


def _part(progress: Progress, share: int, shares: int) -> Progress:
    """Each process carries some of what was read before; all together carry all of it."""
    return Progress(
        frozenset(number for number in progress.done if number % shares == share),
        {n: records for n, records in progress.begun.items() if n % shares == share},
    )


def _without_complete(
    partitioner: Partitioner, read: dict[int, Progress], excluded: ExcludedFiles
) -> Merged:
    first = min(read)
    while first in read and not partitioner.share(first, 0, 1, excluded(first), read[first]):
        del read[first]
        first += 1
    return Merged(first, read)


def _draw(salt: str, path: str) -> bytes:
    return hashlib.sha256(f"{salt}\0{path}".encode("utf-8", "surrogateescape")).digest()[:8]
