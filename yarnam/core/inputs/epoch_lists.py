"""Which files the epochs of an input do not read. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from yarnam.core.model.job_spec import DataInput
from yarnam.core.model.job_status import ExcludedFiles

MAX_EPOCHS = 10_000
"""The most epochs of one input that are remembered: the newest. A checkpoint goes back by a few."""


@dataclass(frozen=True, slots=True)
class ProvedFile:
    """A file that is proved corrupt, by its plain path, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Exclusions:
    """The files to exclude from an input from now on.

    Attributes:
        excluded_files: paths relative to the input, in order.
        share: the excluded share of the input's files or bytes, whichever is more, from 0 to 1.
        still_read: suspected files that are read nevertheless.
        refusal: why the job must not continue; empty if it may.
        proved: those of ``excluded_files`` (or of the refusal) that are proved corrupt.
    """

    excluded_files: tuple[str, ...] = ()
    share: float = 0.0
    still_read: int = 0
    refusal: str = ""
    proved: tuple[ProvedFile, ...] = ()


def at_submit(given: DataInput) -> Exclusions:
    """As long as nothing else is known."""
    return Exclusions(given.skipped, given.skipped_share)


def relative(root: str, path: str) -> str:
    """``path`` as the SDK names it: within the input, or the file's name if the input is a file."""
    if path == root:
        return path.rpartition("/")[2]
    return path.removeprefix(f"{root.rstrip('/')}/")


def is_meant(given: DataInput, name: str) -> bool:
    """Whether a file of this relative name is of the input: its pattern speaks of the first parts
    of the name, a directory that fits is meant with all that is in it."""
    wanted = given.pattern.split("/") if given.pattern else []
    parts = name.split("/")
    return len(parts) >= len(wanted) and all(map(fnmatchcase, parts, wanted))


@dataclass(slots=True)
class EpochBook:
    """The lists that have been given out, by input and epoch: they stay as they are."""

    given_out: dict[str, dict[int, tuple[str, ...]]] = field(default_factory=dict)

    def of(self, name: str, epoch: int) -> tuple[str, ...] | None:
        """``None`` if the epoch has not begun."""
        return self.given_out.get(name, {}).get(epoch)

    def fix(self, name: str, epoch: int, excluded_files: Sequence[str]) -> None:
        """The first word counts."""
        epochs = self.given_out.setdefault(name, {})
        epochs.setdefault(epoch, tuple(excluded_files))
        while len(epochs) > MAX_EPOCHS:
            del epochs[min(epochs)]

    def copy(self) -> EpochBook:
        """To fix something in, and to throw away if that cannot be written down."""
        return EpochBook({name: dict(epochs) for name, epochs in self.given_out.items()})

    def newest(self, name: str) -> int | None:
        """The furthest epoch that has begun."""
        return max(self.given_out.get(name, {}), default=None)


def excluded_files_status(
    inputs: Iterable[DataInput], standings: Mapping[str, Exclusions], book: EpochBook
) -> tuple[ExcludedFiles, ...]:
    """The exclusions for the status: those of the newest epoch, and those that the next adds."""
    excluded: list[ExcludedFiles] = []
    for given in inputs:
        now = standings.get(given.name, at_submit(given))
        epoch = book.newest(given.name)
        current = given.skipped if epoch is None else book.of(given.name, epoch) or ()
        later = len(set(now.excluded_files) - set(current))
        if current or later or now.still_read:
            share = given.skipped_share if epoch is None else share_of(given, current, now)
            excluded.append(
                ExcludedFiles(given.name, len(current), share, epoch, later, now.still_read)
            )
    return tuple(excluded)


def share_of(given: DataInput, current: Sequence[str], now: Exclusions) -> float:
    """The excluded share of the input: exact if the list is the present one or that of the
    submit."""
    if set(current) == set(now.excluded_files):
        return now.share
    if set(current) == set(given.skipped):
        return given.skipped_share
    return len(current) / given.files if given.files else 0.0
