"""Which files of ``checkpoint.mirror`` are whole, and when they are kept as a set.

The shell scans the directory again and again; ``scanned`` decides. A set is everything that stands
there at one scan, so a single file that may be in the midst of a save holds the set back:

- a file is settled when its writer has closed it and two scans in a row have seen the same version,
  or when that has stood for ``SETTLED_S`` although it is open; its format has to prove then that it
  is whole;
- a file that is not whole by its format, a temporary one, one that stays open, or one that is
  written to without a pause is left aside in the end, unless the last set had it: then that set
  stays the newest.

A set that only lacks files of the last one is not kept: it saves nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

SETTLED_S = 10.0
"""After this a file counts whose writer has not closed it, if its format reads to its end."""

RESTLESS_S = 600.0
"""A file that is not closed for this long, or never stands still, is a log and not a save: a save
of 100 GB takes less on any disk that can hold it."""

SCAN_S = 2.0
"""Between two scans, so that a set is kept some seconds after its last file was closed."""

QUIET_S = 1.5
"""Since a closed file was first seen: another file of the same save would have been begun by then.
"""

RETRY_FIRST_S, RETRY_CAP_S = 10.0, 300.0
"""Between two tries of a set that HDFS does not take."""

CHANGES_SHOWN = 3
"""Sets in a row that were written to while they were sent: from then on status shows it."""

_TEMPORARY_ENDS = (".tmp", ".temp", ".part", ".partial", ".incomplete", "~")
_TEMPORARY_STARTS = (".", "tmp-")
"""``tmp-checkpoint-500`` is what transformers renames when it is complete."""


class FileVersion(NamedTuple):
    """Another version of a file differs in one of these."""

    size: int
    mtime_ns: int
    inode: int


class ScannedFile(NamedTuple):
    """``is_open``: a process may be writing to it."""

    name: str
    version: FileVersion
    is_open: bool = False


class Scan(NamedTuple):
    """``problem``: why the directory cannot be kept as it is."""

    at_s: float
    """By a clock that only grows."""
    files: tuple[ScannedFile, ...] = ()
    problem: str = ""
    is_last: bool = False
    """The processes have ended."""
    has_succeeded: bool = False
    """All of them ended with exit code 0: what looks like half a save is a leftover."""


class KeptSet(NamedTuple):
    """The newest set on HDFS. ``size`` in bytes; ``saved_at_s`` since the epoch."""

    number: int
    files: int
    size: int
    saved_at_s: float


class _Record(NamedTuple):
    """A file's version: when it was first seen, and since when the file has been written to without
    a pause."""

    version: FileVersion
    since_s: float
    restless_since_s: float
    closed_s: float = 0.0
    """When it was first seen that nobody has it open; 0 while somebody has."""
    unproved: str = ""
    """Why this version is not whole by its format."""
    is_endless: bool = False
    """It stays open, and has no format that tells where it ends, as a log."""


class MirrorState(NamedTuple):
    """``trouble``: why the newest files are not kept; empty if they are."""

    records: Mapping[str, _Record] = {}
    content: Mapping[str, FileVersion] = {}
    """The files of the newest set."""
    saves_several: bool = False
    """A set had more than one file that was new: a save of this program is not one file."""
    kept: KeptSet | None = None
    scanned_s: float = 0.0
    """The last scan while the processes lived."""
    is_sending: bool = False
    began_s: float = 0.0
    not_before_s: float = 0.0
    failures: int = 0
    changes: int = 0
    trouble: str = ""
    problem: str = ""
    """The trouble with the last try."""
    is_over: bool = False
    """A later attempt keeps the sets now."""


def scanned(state: MirrorState, scan: Scan) -> tuple[MirrorState, tuple[ScannedFile, ...]]:
    """The files to keep as a set now; empty if there is none."""
    if state.is_over or state.is_sending:
        return state, ()
    if scan.problem:
        return state._replace(trouble=scan.problem), ()
    is_last, now_s = scan.is_last, scan.at_s
    if is_last and not scan.has_succeeded:
        scan = _as_while_it_lived(state, scan)
    records = {
        file.name: _record(
            state.records.get(file.name),
            file,
            now_s,
            is_kept=state.content.get(file.name) == file.version,
        )
        for file in scan.files
    }
    settled = tuple(file for file in scan.files if _is_settled(file, records[file.name], scan))
    names = {file.name for file in settled}
    holding = [
        file
        for file in scan.files
        if file.name not in names
        and (file.name in state.content or not _is_aside(file, records[file.name], scan))
    ]
    reasons = [_reason(file, records[file.name], scan) for file in holding]
    trouble = next(filter(None, reasons), state.problem)
    scanned_s = state.scanned_s if is_last else now_s
    state = state._replace(records=records, trouble=trouble, scanned_s=scanned_s)
    is_new = any(state.content.get(file.name) != file.version for file in settled)
    is_early = now_s < state.not_before_s and not is_last
    if holding or not is_new or is_early:
        return state, ()
    return state._replace(is_sending=True, began_s=now_s), settled


def _as_while_it_lived(state: MirrorState, scan: Scan) -> Scan:
    """After a failure: the kernel has closed all files, so only those that the program was seen to
    close are closed. Where a save is several files, it may have died between two of them: what
    counts then has stood while it lived."""
    files = []
    for file in scan.files:
        record = state.records.get(file.name)
        is_closed = record is not None and record.version == file.version and record.closed_s
        files.append(file._replace(is_open=not is_closed))
    fresh = [file for file in files if state.content.get(file.name) != file.version]
    if state.saves_several or len(fresh) > 1:
        return scan._replace(files=tuple(files), is_last=False, at_s=state.scanned_s)
    return scan._replace(files=tuple(files))


def _record(before: _Record | None, file: ScannedFile, now_s: float, *, is_kept: bool) -> _Record:
    closed_s = 0.0 if file.is_open else now_s
    if before is None:
        return _Record(file.version, now_s, now_s, closed_s)
    is_endless = before.is_endless and file.is_open
    if before.version != file.version:
        restless_s = before.restless_since_s
        return _Record(file.version, now_s, restless_s, closed_s, is_endless=is_endless)
    has_paused = not file.is_open or is_kept
    return before._replace(
        restless_since_s=now_s if has_paused else before.restless_since_s,
        closed_s=(before.closed_s or now_s) if not file.is_open else 0.0,
        is_endless=is_endless,
    )


def _is_settled(file: ScannedFile, record: _Record, scan: Scan) -> bool:
    if record.unproved or record.is_endless or is_temporary(file.name):
        return False
    quiet_s = scan.at_s - (record.since_s if file.is_open else record.closed_s)
    return scan.is_last or quiet_s >= (SETTLED_S if file.is_open else QUIET_S)


def _is_aside(file: ScannedFile, record: _Record, scan: Scan) -> bool:
    """Whether a set is whole without it, unless the last one had it."""
    is_leftover = bool(record.unproved) or is_temporary(file.name)
    if is_leftover and not file.is_open:
        return scan.at_s - record.since_s >= SETTLED_S or scan.has_succeeded
    return _is_restless(record, scan)


def _is_restless(record: _Record, scan: Scan) -> bool:
    return scan.at_s - record.restless_since_s >= RESTLESS_S


def _reason(file: ScannedFile, record: _Record, scan: Scan) -> str:
    """Why it holds back the sets, for people; empty while that is the usual course of a save."""
    if record.unproved and scan.at_s - record.since_s >= SETTLED_S:
        return f"{file.name} is not whole: {record.unproved}"
    if record.is_endless:
        return f"{file.name} stays open for writing"
    if _is_restless(record, scan):
        return f"{file.name} has been written to for {RESTLESS_S / 60:.0f} min without a pause"
    return ""


def is_temporary(name: str) -> bool:
    """Whether a program gives such a name to what it renames when it is complete."""
    parts = name.split("/")
    return parts[-1].endswith(_TEMPORARY_ENDS) or any(
        part.startswith(_TEMPORARY_STARTS) for part in parts
    )


# ---- how it ended ------------------------------------------------------------------------------


def kept(
    state: MirrorState, files: tuple[ScannedFile, ...], new: KeptSet, now_s: float
) -> MirrorState:
    """The set is on HDFS. The next one waits as long as this one took: at most half of the time is
    spent on sending."""
    fresh = [file for file in files if state.content.get(file.name) != file.version]
    return state._replace(
        is_sending=False,
        saves_several=state.saves_several or len(fresh) > 1,
        content={file.name: file.version for file in files},
        kept=new,
        failures=0,
        changes=0,
        problem="",
        trouble="",
        not_before_s=now_s + (now_s - state.began_s),
    )


def unproved(
    state: MirrorState, reasons: Mapping[str, str], endless: Collection[str] = ()
) -> MirrorState:
    """These files are not whole by their format, or are open and have none; nothing was kept."""
    records = {
        name: record._replace(
            unproved=reasons.get(name, record.unproved),
            is_endless=record.is_endless or name in endless,
        )
        for name, record in state.records.items()
    }
    return state._replace(is_sending=False, records=records)


def changed(state: MirrorState, text: str) -> MirrorState:
    """A file was written to while it was sent: the next scans find out when it has settled."""
    changes = state.changes + 1
    problem = state.problem
    if changes >= CHANGES_SHOWN:
        problem = f"files change faster than HDFS takes them: {text}"
    return state._replace(is_sending=False, changes=changes, problem=problem)


def failed(state: MirrorState, text: str, now_s: float, *, is_over: bool = False) -> MirrorState:
    """HDFS has not taken the set. ``is_over``: and takes none of this attempt any more."""
    pause_s = min(RETRY_CAP_S, RETRY_FIRST_S * 2.0 ** min(state.failures, 10))
    return state._replace(
        is_sending=False,
        failures=state.failures + 1,
        problem=text,
        trouble=text,
        not_before_s=now_s + pause_s,
        is_over=is_over,
    )
