"""What to do about inputs that are known to be bad: one pure function, the same for everybody.

Submit asks it whether to refuse a job, staging which files to shard; all of them, on every rank,
come to the same files from the same listing and blacklist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from hdfs_utils.blacklist.entries import Blacklist, Claim, Entry, State, version_of
from hdfs_utils.blacklist.merge import leading_claim, state_in_the_open, state_of
from hdfs_utils.filesystem import FileStatus

# Named in a message; the rest is counted.
MAX_NAMED = 10


class OnCorrupt(str, Enum):
    """``fail``: refuse the job, with the list. ``skip``: leave the files out. ``quarantine``: move
    those that are proved corrupt away, and leave them out."""

    FAIL = "fail"
    SKIP = "skip"
    QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True)
class CorruptPolicy:
    """What a job wants.

    Attributes:
        max_skipped: the largest share of an input that may be left out, from 0 to 1: of its files
            and of its bytes, whichever is more.
    """

    on_corrupt: OnCorrupt = OnCorrupt.FAIL
    max_skipped: float = 0.001


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of bad inputs, by whom it comes from.

    Attributes:
        trusted: from places that only those can write to who can write the data.
        open: from places that anybody can write to: it warns, and decides nothing.
    """

    trusted: Blacklist = field(default_factory=Blacklist)
    open: Blacklist = field(default_factory=Blacklist)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that is left out. ``length`` in bytes."""

    path: str
    length: int
    state: State
    reason: str
    evidence: str
    by: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of an input.

    Attributes:
        kept: the files to read, by path.
        skipped: those left out, by path; with ``fail``, those that the job is refused for.
        share: of the input that is left out, from 0 to 1, the larger of files and bytes.
        refusal: why the job must not run; empty: it may.
        warnings: what to tell the user.
    """

    kept: tuple[FileStatus, ...]
    skipped: tuple[Skipped, ...]
    share: float
    refusal: str
    warnings: tuple[str, ...]

    @property
    def to_quarantine(self) -> tuple[str, ...]:
        """Paths that are proved corrupt: a suspicion moves nothing."""
        return tuple(s.path for s in self.skipped if s.state is State.PROVED)


def decide(
    files: Iterable[FileStatus],
    known: Known,
    policy: CorruptPolicy,
    now_s: float,
    totals: tuple[int, int] | None = None,
) -> Decision:
    """Which of the files to read. Only entries of the files' present versions count.

    ``totals``: number and bytes of all files of the input, where ``files`` are only those of them
    that something is known about.
    """
    kept, bad, warnings = [], [], []
    trusted, told = _by_path(known.trusted), _by_path(known.open)
    length = 0
    for status in sorted(files, key=lambda f: f.path):
        length += status.length
        found = _standing(status, trusted.get(status.path, ()), now_s)
        if found is None:
            kept.append(status)
            warnings += _open_warning(status, told.get(status.path, ()), now_s)
        elif found.state is State.SUSPECTED and policy.on_corrupt is OnCorrupt.FAIL:
            kept.append(status)
            warnings.append(f"{status.path} is suspected to be corrupt: {_because(found)}")
        else:
            bad.append(found)
    count, length = totals or (len(kept) + len(bad), length)
    share = _share(bad, count, length)
    refusal = _refusal(bad, share, policy, has_kept=count > len(bad))
    if bad and not refusal:
        warnings.insert(0, f"{_files(len(bad))} left out, {share:.3%} of the input: {_names(bad)}")
    return Decision(tuple(kept), tuple(bad), share, refusal, tuple(warnings))


def standing(status: FileStatus, blacklist: Blacklist, now_s: float) -> Skipped | None:
    """The worst that a blacklist says of the present version of a file; None: nothing."""
    return _standing(status, blacklist.of(status.path), now_s)


def _standing(status: FileStatus, entries: Iterable[Entry], now_s: float) -> Skipped | None:
    version = version_of(status)
    claims = [
        (state, entry)
        for entry in entries
        if entry.key.version.is_that_of(version)
        and (state := state_of(entry.claims, now_s)) is not State.CLEARED
    ]
    if not claims:
        return None
    state, entry = max(claims, key=lambda found: (found[0] is State.PROVED, found[1].key))
    claim = leading_claim(entry.claims, state)
    assert claim is not None
    return Skipped(
        status.path, status.length, state, claim.reason, _evidence(entry, claim), claim.by
    )


_Index = Mapping[str, Sequence[Entry]]


def _by_path(blacklist: Blacklist) -> _Index:
    index: dict[str, list[Entry]] = {}
    for key, entry in blacklist.entries.items():
        index.setdefault(key.path, []).append(entry)
    return index


def _evidence(entry: Entry, claim: Claim) -> str:
    if entry.key.first < 0:
        return claim.evidence
    last = "" if entry.key.last == entry.key.first else f" to {entry.key.last}"
    return f"record {entry.key.first}{last}: {claim.evidence}"


def _open_warning(status: FileStatus, entries: Iterable[Entry], now_s: float) -> list[str]:
    version = version_of(status)
    for entry in entries:
        if not entry.key.version.is_that_of(version):
            continue
        if state_in_the_open(entry.claims, now_s) is State.CLEARED:
            continue
        claim = max(
            (c for c in entry.claims if c.state is not State.CLEARED), key=lambda c: c.last_s
        )
        who = f"{claim.by}, who may not write there"
        what = f"{claim.reason}: {_evidence(entry, claim)}"
        return [f"{status.path} is said to be corrupt by {who}: {what}"]
    return []


def _share(bad: list[Skipped], files: int, length: int) -> float:
    of_files = len(bad) / files if files else 0.0
    of_bytes = sum(skipped.length for skipped in bad) / length if length else 0.0
    return max(of_files, of_bytes)


def _refusal(bad: list[Skipped], share: float, policy: CorruptPolicy, *, has_kept: bool) -> str:
    if not bad:
        return ""
    if policy.on_corrupt is OnCorrupt.FAIL:
        return f"{_files(len(bad))} known to be corrupt: {_names(bad)}"
    if not has_kept:
        return f"nothing is left: {_files(len(bad))} known to be corrupt: {_names(bad)}"
    if share > policy.max_skipped:
        return (
            f"{share:.3%} of the input would be left out, more than max_skipped "
            f"{policy.max_skipped:.3%}: {_names(bad)}"
        )
    return ""


def _because(skipped: Skipped) -> str:
    return f"{skipped.reason}: {skipped.evidence} (by {skipped.by})"


def _files(count: int) -> str:
    return "1 file is" if count == 1 else f"{count} files are"


def _names(bad: list[Skipped]) -> str:
    named = [f"{s.path} ({s.reason}: {s.evidence})" for s in bad[:MAX_NAMED]]
    rest = len(bad) - len(named)
    return "; ".join(named) + (f"; and {rest} more" if rest else "")
