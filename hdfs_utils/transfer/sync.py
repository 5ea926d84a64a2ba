"""Bring a tree up to date: send what differs, and delete what is gone if asked to."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from hdfs_utils import uri as uris
from hdfs_utils.concurrency.worker_pool import WorkerPool
from hdfs_utils.errors import HdfsError, NotFound
from hdfs_utils.filesystem import FileSystem
from hdfs_utils.transfer.compare import storage_crcs
from hdfs_utils.transfer.options import MANIFEST, SUCCESS, Options, SourceEntry
from hdfs_utils.transfer.progress import NoProgress, Progress
from hdfs_utils.transfer.scan import path_below, scan
from hdfs_utils.transfer.staging_dir import claim_staging, rename_once
from hdfs_utils.transfer.tree_manifest import ListedFile, add_entries, drop_entries
from hdfs_utils.transfer.tree_transfer import TreeTransfer


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The relative names of what was done; ``size`` bytes were sent, ``same`` files were left
    alone."""

    sent: tuple[str, ...]
    deleted: tuple[str, ...]
    same: int
    size: int
    resumed: int = 0


def sync(
    source: FileSystem,
    path: str,
    sink: FileSystem,
    target: str,
    options: Options | None = None,
    progress: Progress | None = None,
    *,
    delete: bool = False,
    by_checksum: bool = False,
    dry_run: bool = False,
) -> SyncResult:
    """Make ``target`` like ``path``; each file is replaced by one rename.

    A file is sent when its length or its time of modification differs; the copy gets the source's
    time. A break leaves every file either as it was or as it is to be; the next run sends the
    rest, and does not send again what was already staged.

    Args:
        path: the tree, in ``source``.
        target: its copy, in ``sink``; made if it is not there.
        options: as for :func:`hdfs_utils.transfer.copy`.
        progress: gets the bytes and files that are done.
        delete: delete what the source does not have.
        by_checksum: compare CRC32C instead of times.
        dry_run: change nothing; return what would be done.

    Raises:
        NotFound: the source is not there.
        HdfsError: as for :func:`hdfs_utils.transfer.copy`.
    """
    options, progress = options or Options(), progress or NoProgress()
    plain, goal = source.own_path(path), sink.own_path(target)
    wanted = scan(source, plain)
    present = {entry.relative: entry for entry in _present(sink, goal)}
    names = {entry.relative for entry in wanted}
    changed = _changed(source, plain, sink, goal, wanted, present, by_checksum)
    names |= {SUCCESS, MANIFEST}
    extra = [e for e in present.values() if e.relative not in names] if delete else []
    files = [entry for entry in changed if not entry.is_dir]
    size = sum(entry.size for entry in files)
    same = sum(not entry.is_dir for entry in wanted) - len(files)
    done = SyncResult(
        tuple(e.relative for e in files), tuple(e.relative for e in extra), same, size
    )
    progress.begin(len(files), size)
    if not dry_run:
        gone = frozenset(e.relative for e in extra)
        if changed:
            resumed = _send(source, plain, sink, goal, changed, present, gone, options, progress)
            done = replace(done, resumed=resumed)
        elif gone:
            drop_entries(sink, goal, gone)
        for entry in sorted(extra, key=lambda e: e.relative, reverse=True):
            sink.delete(path_below(goal, entry.relative), recursive=True)
    progress.end()
    return done


def _present(sink: FileSystem, goal: str) -> list[SourceEntry]:
    try:
        return scan(sink, goal)
    except NotFound:
        return []


def _changed(
    source: FileSystem,
    plain: str,
    sink: FileSystem,
    goal: str,
    wanted: list[SourceEntry],
    present: dict[str, SourceEntry],
    by_checksum: bool,
) -> list[SourceEntry]:
    found: list[SourceEntry] = []
    asked: list[SourceEntry] = []
    for entry in wanted:
        old = present.get(entry.relative)
        if old is None or old.is_dir != entry.is_dir or old.size != entry.size:
            found.append(entry)
        elif not entry.is_dir and by_checksum:
            asked.append(entry)
        elif not entry.is_dir and old.mtime_ms != entry.mtime_ms:
            found.append(entry)
    if asked:
        sides = [
            storage_crcs(fs, [path_below(root, entry.relative) for entry in asked])
            for fs, root in ((source, plain), (sink, goal))
        ]
        left, right = (side or [-1] * len(asked) for side in sides)
        found += [e for e, a, b in zip(asked, left, right, strict=True) if a != b or a < 0]
    return sorted(found, key=lambda entry: entry.relative)


def _send(
    source: FileSystem,
    plain: str,
    sink: FileSystem,
    goal: str,
    changed: list[SourceEntry],
    present: dict[str, SourceEntry],
    gone: frozenset[str],
    options: Options,
    progress: Progress,
) -> int:
    identity = f"sync\n{source.uri}{plain}\n{sink.uri}{goal}"
    staging = claim_staging(sink, goal, identity, options)
    engine = TreeTransfer(source, plain, sink, staging, options, progress)
    base = staging.tree
    try:
        sink.mkdirs(base)
        is_file = len(changed) == 1 and changed[0].relative == "" and not changed[0].is_dir
        if is_file:
            base = uris.join(base, uris.name(goal))
        engine.run(changed, base)
        progress.phase("publishing")
        staging.stop()
        if not is_file:
            sink.mkdirs(goal)
        names = frozenset(entry.relative for entry in changed if not entry.is_dir)
        replaced = names | gone | _below_replaced(changed, present)
        trees = drop_entries(sink, goal, None if is_file else replaced)
        _move_in(sink, base, goal, changed, present, options.threads)
        if MANIFEST not in names:  # the source's own lists them
            files = (entry for entry in changed if not entry.is_dir)
            sent = {e.relative: ListedFile(e.size, engine.crcs[e.relative]) for e in files}
            add_entries(sink, trees, goal, sent)
    except BaseException:
        staging.leave(options.resume)
        raise
    with contextlib.suppress(HdfsError):
        staging.remove()
    return engine.resumed


def _below_replaced(changed: list[SourceEntry], present: dict[str, SourceEntry]) -> frozenset[str]:
    """What goes with a directory in whose place a file comes."""
    files = [entry.relative for entry in changed if not entry.is_dir]
    roots = tuple(f"{name}/" for name in files if name in present and present[name].is_dir)
    return frozenset(name for name in present if name.startswith(roots)) if roots else frozenset()


def _move_in(
    sink: FileSystem,
    base: str,
    goal: str,
    changed: list[SourceEntry],
    present: dict[str, SourceEntry],
    threads: int,
) -> None:
    for entry in changed:
        old = present.get(entry.relative)
        if old is not None and old.is_dir != entry.is_dir:
            sink.delete(path_below(goal, entry.relative), recursive=True)
        if entry.is_dir:
            sink.mkdirs(path_below(goal, entry.relative))

    def move(entry: SourceEntry) -> None:
        staged = path_below(base, entry.relative)
        # Before it is renamed: whoever sees the new file sees its time, too.
        sink.set_times(staged, entry.mtime_ms)
        rename_once(sink, staged, path_below(goal, entry.relative), overwrite=True)

    WorkerPool(threads).run(move, [entry for entry in changed if not entry.is_dir])
