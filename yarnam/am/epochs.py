"""What the epochs of an input leave out, and what the job's policy makes of what is known. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from hdfs_utils.blacklist import CorruptPolicy, Known, OnCorrupt, Skipped, State, decide
from hdfs_utils.filesystem import FileStatus
from yarnam.model.job import DataInput
from yarnam.model.status import LeftOut
from yarnam.wire.records import EpochsRecord, InputEpochs

MAX_EPOCHS = 10_000
"""Of one input that are remembered: the newest. A checkpoint goes back by a few."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What is to be left out of an input from now on.

    Attributes:
        left_out: paths relative to the input, in order.
        share: of the input, from 0 to 1: of files or of bytes, whichever is more.
        still_read: suspected files that are read all the same.
        refusal: why the job must not go on; empty: it may.
        proved: those of ``left_out`` (or of the refusal) that are proved corrupt.
    """

    left_out: tuple[str, ...] = ()
    share: float = 0.0
    still_read: int = 0
    refusal: str = ""
    proved: tuple[Skipped, ...] = ()


def at_submit(given: DataInput) -> Standing:
    """As long as nothing else is known."""
    return Standing(given.skipped, given.skipped_share)


def judge(
    given: DataInput, root: str, files: Iterable[FileStatus], known: Known, now_s: float
) -> Standing:
    """The policy applied to what is known now.

    Suspicions alone never end a job that runs: where they would leave out more than the job
    allows, only what is proved is left out, and the rest is read on.

    Args:
        root: plain path of the input.
        files: those of the input that something is known about, as they are now.
    """
    listed = tuple(files)
    policy = CorruptPolicy(OnCorrupt(given.on_corrupt.value), given.max_skipped)
    totals = (max(given.files, len(listed)), given.length) if given.files else None
    decision = decide(listed, known, policy, now_s, totals)
    proved = tuple(s for s in decision.skipped if s.state is State.PROVED)
    suspected = len(decision.skipped) - len(proved)
    if decision.refusal and suspected:
        sure = {s.path for s in proved}
        decision = decide([f for f in listed if f.path in sure], known, policy, now_s, totals)
    else:
        suspected = 0
    if decision.refusal:
        refusal = f"input '{given.name}': {decision.refusal}"
        return Standing((), decision.share, suspected, refusal, proved)
    names = sorted(relative(root, s.path) for s in decision.skipped)
    share = decision.share if names else 0.0
    return Standing(tuple(names), share, suspected, "", proved)


def relative(root: str, path: str) -> str:
    """``path`` as the SDK names it: within the input, or the file's name where it is the input."""
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
        """None: the epoch has not begun."""
        return self.given_out.get(name, {}).get(epoch)

    def fix(self, name: str, epoch: int, left_out: Sequence[str]) -> None:
        """The first word counts."""
        epochs = self.given_out.setdefault(name, {})
        epochs.setdefault(epoch, tuple(left_out))
        while len(epochs) > MAX_EPOCHS:
            del epochs[min(epochs)]

    def copy(self) -> EpochBook:
        """To fix something in, and to throw away if that cannot be written down."""
        return EpochBook({name: dict(epochs) for name, epochs in self.given_out.items()})

    def newest(self, name: str) -> int | None:
        """The furthest epoch that has begun."""
        return max(self.given_out.get(name, {}), default=None)

    def record(self) -> EpochsRecord:
        """For a later AM attempt. Lists seldom differ from epoch to epoch: each is kept once."""
        inputs = []
        for name, epochs in sorted(self.given_out.items()):
            lists = list(dict.fromkeys(epochs.values()))
            numbers = {left_out: number for number, left_out in enumerate(lists)}
            pairs = tuple((epoch, numbers[epochs[epoch]]) for epoch in sorted(epochs))
            inputs.append(InputEpochs(name, tuple(lists), pairs))
        return EpochsRecord(tuple(inputs))


def book_of(record: EpochsRecord) -> EpochBook:
    """Back from ``EpochBook.record``."""
    given_out = {
        one.input: {epoch: one.lists[number] for epoch, number in one.epochs}
        for one in record.inputs
    }
    return EpochBook(given_out)


def left_out_words(
    inputs: Iterable[DataInput], standings: Mapping[str, Standing], book: EpochBook
) -> tuple[LeftOut, ...]:
    """For the status: what is left out in the newest epoch, and what comes on top of it."""
    told = []
    for given in inputs:
        now = standings.get(given.name, at_submit(given))
        epoch = book.newest(given.name)
        current = given.skipped if epoch is None else book.of(given.name, epoch) or ()
        later = len(set(now.left_out) - set(current))
        if current or later or now.still_read:
            share = given.skipped_share if epoch is None else share_of(given, current, now)
            told.append(LeftOut(given.name, len(current), share, epoch, later, now.still_read))
    return tuple(told)


def share_of(given: DataInput, current: Sequence[str], now: Standing) -> float:
    """Of the input: exactly, where the list is the present one or that of the submit."""
    if set(current) == set(now.left_out):
        return now.share
    if set(current) == set(given.skipped):
        return given.skipped_share
    return len(current) / given.files if given.files else 0.0
