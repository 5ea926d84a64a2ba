"""Whether a job's inputs are known to be corrupt, and what its policy makes of that at submit.

Nothing is read again of what the blacklist knows already. Deciding is ``hdfs_utils.blacklist``'s
``decide``; here is what it needs, and what follows from it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice

from hdfs_utils import FileSystem, HdfsError
from hdfs_utils import blacklist as lists
from hdfs_utils import uri as uris
from hdfs_utils.blacklist import CorruptPolicy, Entry, FileBlacklist, InputDecision, KnownEntries
from hdfs_utils.filesystem import FileStatus
from hdfs_utils.validation import FindingKind, choose_sample, verify
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.client.data.blacklist_entries import open_blacklist, proved_entry
from yarnam.client.data.data_location import DataLocation, locate_data
from yarnam.client.site import Site
from yarnam.client.submit.input_files import input_files, why_unusable
from yarnam.core.model.job_spec import DataInput, JobSpec, OnCorrupt, VerifyInput
from yarnam.errors import BadSpec
from yarnam.wire.input_manifest import ListedInput

MAX_FILES = 200_000
"""The most files of one input that are checked; listing them takes a few seconds. A warning reports
it when there are more."""

SAMPLE_FRACTION, MAX_SAMPLE = 0.01, 200
"""Files that ``verify: sample`` reads: enough to find a data set that was written wrongly as a
whole, few enough for a person to wait for."""

MAX_SKIPPED_BYTES = 100_000
"""Bytes of the names of one input's skipped files: they travel in one variable (execve(2): 128
KiB)."""


@dataclass(frozen=True, slots=True)
class InputOutcome:
    """The outcome for one input.

    Attributes:
        given: the input with its excluded files filled in.
        to_quarantine: files to move away, each with the reason.
        proved: files that a check at submit has proved corrupt, not on the blacklist yet.
        root: its plain path.
        files: all of them, the excluded ones included; empty if there are more than can be listed.
    """

    given: DataInput
    location: DataLocation
    warnings: tuple[str, ...] = ()
    to_quarantine: tuple[tuple[FileStatus, str], ...] = ()
    proved: tuple[Entry, ...] = ()
    root: str = ""
    files: tuple[FileStatus, ...] = ()

    @property
    def listed(self) -> ListedInput | None:
        """The files for the job's list of inputs; ``None`` if there are too many."""
        if not self.files:
            return None
        files = [(_relative(self.root, s.path), s.length, s.mtime_ms) for s in self.files]
        is_file = len(self.files) == 1 and self.files[0].path == self.root
        return ListedInput(self.given, self.root, is_file, sorted(files))


def nothing_recorded(outcome: InputOutcome) -> list[str]:
    """The notice of a dry run, which does not record proved corrupt files."""
    return [f"input '{outcome.given.name}': nothing was recorded; a submit records it"]


def decide_inputs(
    site: Site, job: JobSpec, record: Callable[[InputOutcome], list[str]] = nothing_recorded
) -> tuple[InputOutcome, ...]:
    """Look at all inputs. An input that does not exist is left to others. Writes nothing, except by
    ``record``: of a job that is refused it gets the inputs with files that were proved corrupt, so
    that the next job need not prove it again, and returns what it has done, in words. Raises
    BadSpec with the list of files: known to be corrupt, or more than may be skipped."""
    outcomes, refusals = [], []
    for given in job.inputs:
        location = locate_data(given.uri, lambda: site)
        with hdfs_errors(f"listing the files of input '{given.name}'"):
            if not location.files.exists(given.uri):
                continue
            outcome, refusal = _judge(location, job, given)
        outcomes.append(outcome)
        if refusal:
            refusals.append(f"input '{given.name}': {refusal}")
    if refusals:
        for outcome in outcomes:
            refusals += record(outcome) if outcome.proved else []
        raise BadSpec(
            "\n".join(refusals),
            hint="Repair or rewrite the files (a rewritten file is no longer listed), exclude them "
            "with on_corrupt: skip and max_skipped, or see 'yarnam blacklist'.",
        )
    return tuple(outcomes)


def _judge(location: DataLocation, job: JobSpec, given: DataInput) -> tuple[InputOutcome, str]:
    files, user = location.files, job.user
    root = files.own_path(given.uri)
    listed = list(islice(input_files(files, root, given.pattern), MAX_FILES + 1))
    directories = {uris.parent(status.path) for status in listed if status.path != root}
    looked = FileBlacklist(files).read([root], sorted(_up_to(root, directories)))
    warnings = [f"input '{given.name}': not read: {problem}" for problem in looked.problems]
    if len(listed) > MAX_FILES:
        warnings.append(f"input '{given.name}': only the first {MAX_FILES} files were checked")
    proved, told = _check_now(location, given, listed[:MAX_FILES], user)
    warnings += told
    known = KnownEntries(
        lists.merge_blacklists(looked.known.trusted, lists.gather_entries(proved)),
        looked.known.open,
    )
    policy = CorruptPolicy(lists.OnCorrupt(given.on_corrupt.value), given.max_skipped)
    decision = lists.decide(listed[:MAX_FILES], known, policy, time.time())
    warnings += [f"input '{given.name}': {warning}" for warning in decision.warnings]
    skipped = tuple(_relative(root, s.path) for s in decision.excluded)
    refusal = decision.refusal
    if not refusal and len("\n".join(skipped).encode()) > MAX_SKIPPED_BYTES:
        refusal = f"{len(skipped)} files would be excluded, more than can be passed to the job"
    is_all = len(listed) <= MAX_FILES
    refusal = refusal or why_unusable(files, job, given, decision.kept, is_all=is_all)
    share = decision.share if skipped else 0.0
    length = sum(status.length for status in listed)
    settled = replace(given, skipped=skipped, skipped_share=share, files=len(listed), length=length)
    moved = _to_quarantine(given, listed, decision)
    seen = tuple(listed) if is_all else ()
    return InputOutcome(
        settled, location, tuple(warnings), moved, tuple(proved), root, seen
    ), refusal


def _up_to(root: str, directories: Iterable[str]) -> set[str]:
    """The directories with all those between them and ``root``."""
    found: set[str] = set()
    for directory in directories:
        while directory not in found and directory.startswith(f"{root}/"):
            found.add(directory)
            directory = uris.parent(directory)
    return found


def _relative(root: str, path: str) -> str:
    return uris.name(path) if path == root else path.removeprefix(f"{root}/")


def _to_quarantine(
    given: DataInput, listed: list[FileStatus], decision: InputDecision
) -> tuple[tuple[FileStatus, str], ...]:
    if given.on_corrupt is not OnCorrupt.QUARANTINE:
        return ()
    by_path = {status.path: status for status in listed}
    moved = set(decision.to_quarantine)
    return tuple((by_path[s.path], s.reason) for s in decision.excluded if s.path in moved)


def _check_now(
    location: DataLocation, given: DataInput, listed: list[FileStatus], user: str
) -> tuple[list[Entry], list[str]]:
    """Checks what ``verify`` asks for; returns proved entries and warnings."""
    if given.verify is VerifyInput.OFF:
        return [], []
    chosen = listed
    if given.verify is VerifyInput.SAMPLE:
        chosen = choose_sample(listed, min(SAMPLE_FRACTION, MAX_SAMPLE / max(1, len(listed))))
    proved, unchecked, why = [], 0, ""
    for report in verify(location.files, chosen):
        if report.has_bad_content:
            proved.append(proved_entry(location.files, report, user))
        elif report.verdict.value != "clean":
            unchecked += 1
            first = next(f for f in report.findings if f.kind is not FindingKind.NOTE)
            why = why or f"{report.path}: {first.message}"
    if not unchecked:
        return proved, []
    return proved, [f"input '{given.name}': {unchecked} files could not be checked; {why}"]


def record_proved(outcome: InputOutcome) -> list[str]:
    """Put proved files on the blacklist; for a user who may not write there, on the open one, as a
    suspicion. A failure to write is reported, and harmless."""
    name, count = outcome.given.name, len(outcome.proved)
    try:
        blacklist = open_blacklist(outcome.location)
        try:
            blacklist.add(outcome.proved)
        finally:
            blacklist.close()
    except Exception as error:  # noqa: BLE001 - the decision stands without it
        return [f"input '{name}': not added to the blacklist: {error}"]
    files = "1 file is" if count == 1 else f"{count} files are"
    return [f"input '{name}': {files} on the input blacklist from now on"]


def apply_input_decisions(outcomes: Iterable[InputOutcome], user: str) -> tuple[str, ...]:
    """Put what was proved on the blacklist, and move files to quarantine; returns warnings. That a
    job leaves files out does not depend on this: what cannot be written is a warning."""
    warnings: list[str] = []
    for outcome in outcomes:
        warnings += record_proved(outcome) if outcome.proved else []
        warnings += _quarantine(outcome.location.files, outcome, user)
    return tuple(warnings)


def _quarantine(files: FileSystem, outcome: InputOutcome, user: str) -> list[str]:
    told = []
    for status, reason in outcome.to_quarantine:
        try:
            moved = lists.quarantine(files, status, reason=reason, by=user, at_s=time.time())
            told.append(f"input '{outcome.given.name}': {status.path} moved to {moved.now}")
        except HdfsError as error:
            told.append(f"input '{outcome.given.name}': not moved to quarantine: {error}")
    return told
