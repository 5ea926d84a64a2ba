"""How a job treats corrupt inputs: one pure function for all callers.

Submit refuses a job by it, staging chooses the files by it; all of them, on every rank, get the
same files from the same listing and blacklist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from hdfs_utils.blacklist.claim_merge import leading_claim, state_in_open_directory, state_of
from hdfs_utils.blacklist.entries import Blacklist, Claim, Entry, State, version_of
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
    """A job's policy.

    Attributes:
        max_skipped: the largest share of an input, from 0 to 1, that may be excluded, of files or
            bytes, whichever is larger.
    """

    on_corrupt: OnCorrupt = OnCorrupt.FAIL
    max_skipped: float = 0.001


@dataclass(frozen=True, slots=True)
class KnownEntries:
    """Entries by trust.

    Attributes:
        trusted: from locations that only writers of the data can write to.
        open: from the location that anybody can write to; these only warn.
    """

    trusted: Blacklist = field(default_factory=Blacklist)
    open: Blacklist = field(default_factory=Blacklist)


@dataclass(frozen=True, slots=True)
class ExcludedFile:
    """A file that the job does not read. ``length`` in bytes."""

    path: str
    length: int
    state: State
    reason: str
    evidence: str
    by: str


@dataclass(frozen=True, slots=True)
class InputDecision:
    """Which files of an input a job reads.

    Attributes:
        kept: the files to read, by path.
        excluded: the excluded files, by path; with ``fail``, those that the job is refused for.
        share: of the input that is excluded, from 0 to 1, the larger of files and bytes.
        refusal: why the job must not run; empty if it may.
        warnings: for the user.
    """

    kept: tuple[FileStatus, ...]
    excluded: tuple[ExcludedFile, ...]
    share: float
    refusal: str
    warnings: tuple[str, ...]

    @property
    def to_quarantine(self) -> tuple[str, ...]:
        """Paths of the files proved corrupt; suspected files are never moved."""
        return tuple(s.path for s in self.excluded if s.state is State.PROVED)


def decide(
    files: Iterable[FileStatus],
    known: KnownEntries,
    policy: CorruptPolicy,
    now_s: float,
    totals: tuple[int, int] | None = None,
) -> InputDecision:
    """Decide which files to read. Only entries about the files' present versions count.

    Args:
        files: of the input.
        known: the blacklist entries.
        policy: of the job.
        now_s: seconds since 1970; entries expire.
        totals: number and bytes of all files of the input, if ``files`` are only some of them.
    """
    kept, bad, warnings = [], [], []
    trusted, unproved = _by_path(known.trusted), _by_path(known.open)
    length = 0
    for status in sorted(files, key=lambda f: f.path):
        length += status.length
        found = _worst_known(status, trusted.get(status.path, ()), now_s)
        if found is None:
            kept.append(status)
            warnings += _open_warning(status, unproved.get(status.path, ()), now_s)
        elif found.state is State.SUSPECTED and policy.on_corrupt is OnCorrupt.FAIL:
            kept.append(status)
            why = f"{found.reason}: {found.evidence} (by {found.by})"
            warnings.append(f"{status.path} is suspected to be corrupt: {why}")
        else:
            bad.append(found)
    count, length = totals or (len(kept) + len(bad), length)
    share = _share(bad, count, length)
    refusal = _refusal(bad, share, policy, has_kept=count > len(bad))
    if bad and not refusal:
        warnings.insert(0, f"{_files(len(bad))} excluded, {share:.3%} of the input: {_names(bad)}")
    return InputDecision(tuple(kept), tuple(bad), share, refusal, tuple(warnings))


def worst_known(status: FileStatus, blacklist: Blacklist, now_s: float) -> ExcludedFile | None:
    """The worst entry about the present version of a file; None if there is none."""
    return _worst_known(status, blacklist.of(status.path), now_s)


def _worst_known(status: FileStatus, entries: Iterable[Entry], now_s: float) -> ExcludedFile | None:
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
    return ExcludedFile(
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
        if state_in_open_directory(entry.claims, now_s) is State.CLEARED:
            continue
        claim = max(
            (c for c in entry.claims if c.state is not State.CLEARED), key=lambda c: c.last_s
        )
        who = f"{claim.by}, who may not write there"
        what = f"{claim.reason}: {_evidence(entry, claim)}"
        return [f"{status.path} is reported as corrupt by {who}: {what}"]
    return []


def _share(bad: list[ExcludedFile], files: int, length: int) -> float:
    of_files = len(bad) / files if files else 0.0
    of_bytes = sum(skipped.length for skipped in bad) / length if length else 0.0
    return max(of_files, of_bytes)


def _refusal(
    bad: list[ExcludedFile], share: float, policy: CorruptPolicy, *, has_kept: bool
) -> str:
    if not bad:
        return ""
    if policy.on_corrupt is OnCorrupt.FAIL:
        return f"{_files(len(bad))} known to be corrupt: {_names(bad)}"
    if not has_kept:
        return f"no file remains: {_files(len(bad))} known to be corrupt: {_names(bad)}"
    if share > policy.max_skipped:
        return (
            f"{share:.3%} of the input would be excluded, more than max_skipped "
            f"{policy.max_skipped:.3%}: {_names(bad)}"
        )
    return ""


def _files(count: int) -> str:
    return "1 file is" if count == 1 else f"{count} files are"


def _names(bad: list[ExcludedFile]) -> str:
    named = [f"{s.path} ({s.reason}: {s.evidence})" for s in bad[:MAX_NAMED]]
    rest = len(bad) - len(named)
    return "; ".join(named) + (f"; and {rest} more" if rest else "")
