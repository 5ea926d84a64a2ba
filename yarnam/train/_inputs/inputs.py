"""A data input, file by file: each process its share, each record once an epoch.

The list of files was fixed when the job was submitted. What was read is kept with the checkpoint
(``state``, ``resume``), so that after a restart, or at another size of the gang, reading continues
where all processes together had stopped. See ``yarnam.train._inputs.file_shares`` for how and why.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from yarnam.train._inputs.excluded_files import (
    excluded_files,
    excluded_uris,
    excluded_when_launched,
)
from yarnam.train._inputs.file_shares import (
    NOTHING_READ,
    InputFile,
    Merged,
    Progress,
    ReaderState,
    in_order,
    merge_states,
)
from yarnam.train._inputs.input_listing import InputListing, read_input_manifest
from yarnam.train._job.job_context import setting
from yarnam.train._reports.reporting import note_epoch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

T = TypeVar("T")

STATE_VERSION = 1


def inputs(name: str, default: str | None = None) -> Inputs:
    """The files of a data input of the spec that this process is to read.

    Args:
        name: of the input in the spec.
        default: outside of a job, a file or directory of this machine with the same data.

    Raises:
        KeyError: the job has no such input; outside of a job, no default.
        ValueError: the input has too many files for a list (see ``yarnam data shard``).
    """
    # Loaded here: code without inputs does without it.
    from pathlib import Path

    listing = setting("inputs_file")
    if listing:
        known = read_input_manifest(Path(listing))
        if name in known:
            share, shares = _share()
            return Inputs(known[name], share, shares, os.environ.get("YARNAM_LOCAL_INPUTS", ""))
        if _has_uri(name):
            raise ValueError(f"input {name!r} has too many files for a list of them")
    if listing or default is None:
        names = ", ".join(sorted(read_input_manifest(Path(listing)))) if listing else "none"
        raise KeyError(f"the job has no data input {name!r}; it has: {names or 'none'}")
    return Inputs(_listed_here(name, default), 0, 1, "")


class _Reading:
    """The reads of one process of an input, and the files that are left."""

    def __init__(self, listed: InputListing, share: int, shares: int) -> None:
        self.listed = listed
        self.partitioner = listed.partitioner
        self.merged = Merged(0, {})
        self.state = ReaderState(share, shares)

    def excluded(self, epoch: int) -> frozenset[str]:
        """Files that the job excludes from the epoch; outside of a job none."""
        return excluded_files(self.listed.name, epoch) if setting("inputs_file") else frozenset()

    def todo(self, seed: int) -> list[int]:
        """The numbers of the files that are left of the epoch, in order."""
        state = self.state
        before = self.merged.read.get(state.epoch, NOTHING_READ)
        mine = self.partitioner.share(
            state.epoch, state.share, state.shares, self.excluded(state.epoch), before
        )
        # The list of an epoch stays as it is; what has been proved corrupt since is passed over.
        known = excluded_when_launched(self.listed.name)
        left = [
            number
            for number in mine
            if number not in state.own.done and self.listed.files[number].path not in known
        ]
        return in_order(self.partitioner.files, left, f"{seed} {state.epoch}")

    def start_of(self, number: int) -> int:
        """How many of the file's records were read in this epoch."""
        before = self.merged.read.get(self.state.epoch, NOTHING_READ)
        return before.plus(self.state.own).begun.get(number, 0)

    def note(self, number: int, records: int) -> None:
        """Notes that this many of the file's records have been read."""
        own = self.state.own
        self._own(Progress(own.done, {**own.begun, number: records}))

    def note_done(self, number: int) -> None:
        """Notes that the file has been read to its end."""
        own = self.state.own
        begun = {n: records for n, records in own.begun.items() if n != number}
        self._own(Progress(own.done | {number}, begun))

    def end_epoch(self) -> None:
        """Ends the epoch; skips what was not read of it."""
        s = self.state
        self.state = ReaderState(s.share, s.shares, s.first, s.epoch + 1, before=s.before)

    def _own(self, own: Progress) -> None:
        s = self.state
        self.state = ReaderState(s.share, s.shares, s.first, s.epoch, own, s.before)


@dataclass(frozen=True)
class Part:
    """A file to read.

    Attributes:
        path: a path on this machine if the file was staged on the node, else its URI.
        uri: where it came from.
        length: bytes.
        start: how many of its first records were read before; ``records`` skips them.
    """

    path: str
    uri: str
    length: int
    start: int
    _reading: _Reading
    _number: int

    def records(self, records: Iterable[T]) -> Iterator[T]:
        """The records of this file that are still to be read, each noted as it is yielded.

        Args:
            records: all of them, in the file's order, bad ones too (or the count is wrong).
        """
        for taken, record in enumerate(records, 1):
            if taken > self.start:
                self._reading.note(self._number, taken)
                yield record
        self.done()

    def done(self) -> None:
        """The whole file was read; for code that reads files, not records."""
        self._reading.note_done(self._number)


class Epoch:
    """One epoch of an input: iterate over its parts, once.

    Attributes:
        number: from 0.
    """

    def __init__(self, number: int, parts: Iterator[Part]) -> None:
        self.number = number
        self._parts = parts

    def __iter__(self) -> Iterator[Part]:
        return self._parts


class Inputs:
    """An input as one process reads it. For one thread at a time.

    Attributes:
        name: in the spec.
        share, shares: which share is this process's, of how many.
    """

    def __init__(self, listed: InputListing, share: int, shares: int, local: str) -> None:
        if not listed.is_shared:
            # Every process reads all of it.
            share, shares = 0, 1
        self.name = listed.name
        self.share = share
        self.shares = shares
        self._reading = _Reading(listed, share, shares)
        self._local = local if listed.is_staged else ""

    @property
    def files(self) -> Sequence[InputFile]:
        """The files of the input as they were at submit, without those that were excluded when this
        process was started. What an epoch reads, ``epochs`` knows: it also leaves out what was
        found since."""
        listed = self._reading.listed
        excluded = set(excluded_uris(self.name))
        return [file for file in listed.files if listed.uri_of(file) not in excluded]

    def epochs(self, count: int, *, seed: int = 0) -> Iterator[Epoch]:
        """The epochs from the unfinished one up to number ``count - 1``.

        Taking the next epoch ends the one before, whether all of it was read or not.

        Args:
            count: epochs in all, those read before included.
            seed: of the order in which files come: the same seed, the same order.
        """
        reading = self._reading
        if reading.state.epoch >= count:
            text = f"yarnam: input {self.name!r}: all {count} epochs were read before"
            print(text, file=sys.stderr, flush=True)  # noqa: T201 - the log of the process
        while reading.state.epoch < count:
            note_epoch(reading.state.epoch)
            yield Epoch(reading.state.epoch, self._parts(seed))
            reading.end_epoch()

    def state(self) -> dict[str, Any]:
        """The reading position of this process, to be saved in a checkpoint: small, plain JSON."""
        state = self._reading.state
        return {
            "version": STATE_VERSION,
            "input": self.name,
            "files": len(self._reading.listed.files),
            "share": state.share,
            "shares": state.shares,
            "first": state.first,
            "epoch": state.epoch,
            "own": _plain(state.own),
            "before": {str(epoch): _plain(p) for epoch, p in state.before.items()},
        }

    def resume(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Continue after what these processes have read: the states of *all* of them, in any order.
        Call it before the first epoch.

        Raises:
            StatesMissing: it is not all of them (a ValueError).
            ValueError: they are of another input, or of another list of its files.
        """
        reading = self._reading
        readers = [self._reader(state) for state in states]
        reading.merged = merge_states(reading.partitioner, readers, reading.excluded)
        reading.state = reading.merged.state(self.share, self.shares)

    def _parts(self, seed: int) -> Iterator[Part]:
        reading, listed = self._reading, self._reading.listed
        for number in reading.todo(seed):
            file = listed.files[number]
            uri = listed.uri_of(file)
            path = f"{self._local}/{self.name}/{file.path}" if self._local else uri
            yield Part(path, uri, file.length, reading.start_of(number), reading, number)

    def _reader(self, plain: Mapping[str, Any]) -> ReaderState:
        if plain.get("version") != STATE_VERSION or plain.get("input") != self.name:
            raise ValueError(f"not a state of input {self.name!r}: {str(dict(plain))[:200]}")
        known = len(self._reading.listed.files)
        if plain["files"] != known:
            raise ValueError(
                f"input {self.name!r} had {plain['files']} files when this state was made, and has "
                f"{known} in this job: start over, or use the same files"
            )
        return ReaderState(
            plain["share"],
            plain["shares"],
            plain["first"],
            plain["epoch"],
            _progress(plain["own"]),
            {int(epoch): _progress(p) for epoch, p in plain["before"].items()},
        )


def _share() -> tuple[int, int]:
    """Roles that do not train (evaluator) read everything."""
    share, shares = setting("input_share") or (0, 1)
    return int(share), int(shares)


def _has_uri(name: str) -> bool:
    return any(
        key.startswith("YARNAM_INPUT_") and key[13:].lower() == name.lower() for key in os.environ
    )


def _listed_here(name: str, path_or_uri: str) -> InputListing:
    """A file or directory of this machine, as if it were an input of a job."""
    from pathlib import Path

    path = Path(path_or_uri[7:] if path_or_uri.startswith("file://") else path_or_uri).absolute()
    if path.is_file():
        found = [(path.name, path)]
    else:
        found = sorted(
            (each.relative_to(path).as_posix(), each)
            for each in path.rglob("*")
            if each.is_file()
            and not any(part.startswith(("_", ".")) for part in each.relative_to(path).parts)
        )
    if not found:
        raise KeyError(f"there is no data in {path}")
    files = [InputFile(relative, each.stat().st_size) for relative, each in found]
    return InputListing(name, str(path), str(path), path.is_file(), "stream", True, files)


def _plain(progress: Progress) -> dict[str, Any]:
    """Numbers in a row as ``[first, last]``."""
    rows: list[list[int]] = []
    for number in sorted(progress.done):
        if rows and rows[-1][1] == number - 1:
            rows[-1][1] = number
        else:
            rows.append([number, number])
    return {"done": rows, "begun": [list(pair) for pair in sorted(progress.begun.items())]}


def _progress(plain: Mapping[str, Any]) -> Progress:
    done = frozenset(n for first, last in plain["done"] for n in range(first, last + 1))
    return Progress(done, dict(plain["begun"]))
