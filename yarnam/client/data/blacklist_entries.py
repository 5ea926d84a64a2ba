"""The input blacklist for the client: open it, look up, prove, clear, quarantine."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from hdfs_utils import FileSystem, HdfsError
from hdfs_utils import blacklist as lists
from hdfs_utils import uri as uris
from hdfs_utils.blacklist import Added, BlacklistView, Claim, Entry, Key, Quarantined, State
from hdfs_utils.blacklist.claim_merge import leading_claim
from hdfs_utils.blacklist.entries import MAX_TIME_S, new_claim
from hdfs_utils.blacklist.locations import location_in
from hdfs_utils.errors import NotADirectory, NotFound, PermissionDenied, Unavailable
from hdfs_utils.filesystem import FileStatus
from hdfs_utils.validation import CheckOptions, FileReport, FindingKind, check_file
from yarnam._light_imports import on_first_use
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.adapters.hdfs.shared_blacklist import SharedBlacklist
from yarnam.client.data.data_location import DataLocation
from yarnam.errors import UsageError

with on_first_use():
    from yarnam.adapters.yarn import addresses
    from yarnam.adapters.zookeeper import blacklist_notifier, session

MAX_DIRECTORIES = 20_000
"""Looked through for entries below a path: about a millisecond each."""


@dataclass(frozen=True, slots=True)
class ListedEntry:
    """One entry as it stands now.

    Attributes:
        is_trusted: from a place that only those can write to who can write the data.
        present: ``same``, ``rewritten`` (the entry is about an older content) or ``gone``.
    """

    entry: Entry
    is_trusted: bool
    state: State
    present: str

    @property
    def counts(self) -> bool:
        """Whether jobs refuse or skip the file for it."""
        return self.is_trusted and self.state is not State.CLEARED and self.present == "same"

    @property
    def claim(self) -> Claim:
        """The one to show."""
        claims = self.entry.claims
        return leading_claim(claims, self.state) or max(claims, key=lambda c: c.last_s)


def open_blacklist(location: DataLocation) -> SharedBlacklist:
    """The blacklist of the data there; with the notifier where the cluster has a ZooKeeper. Raises
    BadConfig."""
    store = lists.FileBlacklist(location.files)
    site = location.site
    if site is None or not site.can_reach_zookeeper or not location.is_on_cluster:
        return SharedBlacklist(store)
    credentials = addresses.zookeeper_credentials(site.environ)
    try:
        notifier = blacklist_notifier.ZooKeeperBlacklistNotifier(
            session.ZooKeeper(site.zookeeper, credentials)
        )
    except ImportError:  # the extra [zookeeper] is not installed here
        return SharedBlacklist(store)
    return SharedBlacklist(store, notifier)


def proved_entry(files: FileSystem, report: FileReport, by: str) -> Entry:
    """The entry that a report with bad content proves."""
    first = next(f for f in report.findings if f.kind is FindingKind.CONTENT)
    evidence = first.message + first.where
    checksum = ""
    with suppress(HdfsError):  # not every back-end can ask for it; length and time remain
        told = files.checksum(report.path)
        checksum = f"{told.algorithm}:{told.value}"
    key = Key(report.path, lists.FileVersion(report.length, report.mtime_ms, checksum))
    claim = new_claim(State.PROVED, by, first.reason.value, evidence)
    return Entry(key, frozenset([claim]))


def find(
    files: FileSystem, blacklist: SharedBlacklist, path: str
) -> tuple[list[ListedEntry], BlacklistView]:
    """All entries at or below ``path``, by path. Raises Unavailable, NoPermission."""
    at_s = time.time()
    with hdfs_errors(f"reading {path}"):
        plain = files.own_path(path)
        below = list(_directories_with_places(files, plain))
    looked = blacklist.lookup([plain], below)
    found = []
    with hdfs_errors(f"reading {path}"):
        for is_trusted, known in ((True, looked.known.trusted), (False, looked.known.open)):
            for entry in known.entries.values():
                if _is_below(entry.path, plain):
                    state_of = lists.state_of if is_trusted else lists.state_in_open_directory
                    state = state_of(entry.claims, at_s)
                    found.append(ListedEntry(entry, is_trusted, state, _present(files, entry)))
    found.sort(key=lambda f: (f.entry.key, not f.is_trusted))
    return found, looked


def _is_below(path: str, root: str) -> bool:
    return root in ("/", path) or path.startswith(f"{root}/")


def _directories_with_places(files: FileSystem, root: str) -> Iterator[str]:
    """Directories below ``root`` that have entries of their own."""
    left = MAX_DIRECTORIES
    waiting = [root]
    while waiting and left:
        left -= 1
        directory = waiting.pop()
        try:
            listed = files.list(directory)
        except (NotFound, NotADirectory, PermissionDenied):
            continue
        for status in listed:
            if status.path == location_in(directory):
                yield directory
            elif status.is_dir and not uris.name(status.path).startswith((".", "_")):
                waiting.append(status.path)


def _present(files: FileSystem, entry: Entry) -> str:
    try:
        status = files.stat(entry.path)
    except (NotFound, NotADirectory):
        return "gone"
    except PermissionDenied:
        return "not readable"
    return "same" if entry.key.version.is_that_of(lists.version_of(status)) else "rewritten"


def add_by_hand(
    files: FileSystem, blacklist: SharedBlacklist, path: str, claim: Claim, record: int | None
) -> Added:
    """Claim something about the present version of a file. Raises UsageError: no such file."""
    status = _file(files, path)
    first = -1 if record is None else record
    entry = Entry(Key(status.path, lists.version_of(status), first, first), frozenset([claim]))
    (added,) = blacklist.add([entry])
    return added


def _file(files: FileSystem, path: str) -> FileStatus:
    with hdfs_errors(f"checking {path}"):
        try:
            status = files.stat(path)
        except NotFound as error:
            raise UsageError(f"there is no {path}") from error
    if status.is_dir:
        raise UsageError(f"{path} is a directory", hint="Name a file, or use 'blacklist check'.")
    return status


@dataclass(frozen=True, slots=True)
class Cleared:
    """The result of ``clear``. ``kept_out`` has quarantined files that could not go back, with the
    reason."""

    entries: tuple[ListedEntry, ...]
    places: tuple[Added, ...]
    restored: tuple[Quarantined, ...]
    kept_out: tuple[str, ...]


def clear(
    files: FileSystem,
    blacklist: SharedBlacklist,
    path: str,
    by: str,
    reason: str,
    *,
    bring_back: bool = False,
) -> Cleared:
    """Withdraw the entries for files at or below ``path``; with ``bring_back`` also move
    quarantined files to where they were."""
    found, _ = find(files, blacklist, path)
    standing = [f for f in found if f.state is not State.CLEARED]
    claim = new_claim(State.CLEARED, by, reason, "")
    newest = max((c.last_s for f in standing for c in f.entry.claims), default=0.0)
    if newest >= claim.last_s:  # another machine's clock is ahead of ours
        after_s = min(newest + 0.001, MAX_TIME_S)
        claim = new_claim(State.CLEARED, by, reason, "", now_s=after_s)
    places = blacklist.add([Entry(f.entry.key, frozenset([claim])) for f in standing])
    restored, kept_out = [], []
    if bring_back:
        with hdfs_errors(f"bringing back what was at {path}"):
            for item in in_quarantine(files, path):
                try:
                    lists.restore(files, item)
                    restored.append(item)
                except Unavailable:
                    raise
                except HdfsError as error:  # of one file; the others go back
                    kept_out.append(str(error))
    return Cleared(tuple(standing), tuple(places), tuple(restored), tuple(kept_out))


def in_quarantine(files: FileSystem, path: str) -> tuple[Quarantined, ...]:
    """Quarantined files that were at or below ``path``."""
    plain = files.own_path(path)
    directories: list[str] = [uris.parent(plain), plain]
    with suppress(NotFound, NotADirectory):
        walked = (status.path for status in files.walk(plain) if status.is_dir)
        directories += [path for path in walked if not uris.name(path).startswith(".")]
    return tuple(q for q in lists.quarantined(files, directories) if _is_below(q.origin, plain))


@dataclass(frozen=True, slots=True)
class Rechecked:
    """One file that was looked at again. ``outcome``: proved, cleared, or unproved and why."""

    report: FileReport
    outcome: str


def recheck(
    files: FileSystem,
    blacklist: SharedBlacklist,
    found: Sequence[ListedEntry],
    by: str,
    options: CheckOptions | None = None,
) -> list[Rechecked]:
    """Check the files of these entries again: proves or clears those of their present version."""
    done = []
    for path in dict.fromkeys(f.entry.path for f in found if f.present == "same"):
        with hdfs_errors(f"reading {path}"):
            status = files.stat(path)
        report = check_file(files, status, options)
        keys = {f.entry.key for f in found if f.entry.path == path and f.present == "same"}
        done.append(Rechecked(report, _settle(files, blacklist, report, keys, by)))
    return done


def _settle(
    files: FileSystem, blacklist: SharedBlacklist, report: FileReport, keys: Iterable[Key], by: str
) -> str:
    if report.has_bad_content:
        proof = proved_entry(files, report, by)
        (claim,) = proof.claims
        blacklist.add([proof, *(Entry(key, frozenset([claim])) for key in keys)])
        return "proved"
    if report.verdict.value != "clean":
        first = next(f for f in report.findings if f.kind is not FindingKind.NOTE)
        return f"not proved: {first.message}"
    claim = new_claim(State.CLEARED, by, "checked", f"{report.format}: no damage found")
    blacklist.add([Entry(key, frozenset([claim])) for key in keys])
    return "cleared"
