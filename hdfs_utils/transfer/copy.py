"""Put, get and copy: files and trees that are whole at their final name or not there."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from hdfs_utils import uri as uris
from hdfs_utils.errors import AlreadyExists, HdfsError, InvalidPath, NotFound
from hdfs_utils.filesystem import FileSystem
from hdfs_utils.transfer.options import MANIFEST, SUCCESS, Options, SourceEntry, TransferResult
from hdfs_utils.transfer.progress import NoProgress, Progress
from hdfs_utils.transfer.scan import scan
from hdfs_utils.transfer.staging_dir import StagingDir, claim_staging, rename_once
from hdfs_utils.transfer.tree_manifest import (
    Entries,
    ListedFile,
    add_entries,
    drop_entries,
    encode_manifest,
)
from hdfs_utils.transfer.tree_transfer import TreeTransfer


def copy(
    source: FileSystem,
    path: str,
    sink: FileSystem,
    target: str,
    options: Options | None = None,
    progress: Progress | None = None,
) -> TransferResult:
    """Copy a file, or a directory with everything below it, to ``target``.

    It grows in a hidden directory beside the target and gets its name by one rename: at every
    moment the target is the old one whole, the new one whole, or not there. A later call with the
    same source and target continues from what an interrupted one has finished.

    Symbolic links to local files are followed, to directories refused. Empty directories and the
    executable bit are kept.

    Raises:
        AlreadyExists: the target is there and ``options.overwrite`` is not set.
        NotFound: the source is not there.
        CorruptData: the checksums differ, also at a second try.
        HdfsError: reading or writing failed; the target is as it was.
    """
    options, progress = options or Options(), progress or NoProgress()
    plain, goal = source.own_path(path), sink.own_path(target)
    _check_target(sink, goal, options)
    entries = scan(source, plain)
    is_file = len(entries) == 1 and entries[0].relative == "" and not entries[0].is_dir
    files = [entry for entry in entries if not entry.is_dir]
    size = sum(entry.size for entry in files)
    progress.begin(len(files), size)
    if options.resume and size < options.part and len(files) < 1000:
        options = replace(options, resume=False)
    identity = f"{source.uri}{plain}\n{sink.uri}{goal}\n{options.part}"
    staging = claim_staging(sink, goal, identity, options)
    engine = TreeTransfer(source, plain, sink, staging, options, progress)
    try:
        # A file is a tree of one.
        base = staging.tree if not is_file else uris.join(staging.tree, uris.name(goal))
        _recover_moved(sink, goal, staging)
        sink.mkdirs(staging.tree)
        engine.run(entries, base)
        progress.phase("publishing")
        if options.manifest and not is_file:
            _write_manifest(sink, base, _listed(files, engine))
        staging.stop()
        # A new file is listed beside the others if asked for, a replaced one always.
        is_listed = options.manifest or (options.overwrite and sink.exists(goal))
        trees = drop_entries(sink, goal) if is_listed else []
        _publish(sink, base, goal, staging, options.overwrite, is_file)
        add_entries(sink, [tree for tree in trees if tree != goal], goal, _listed(files, engine))
    except BaseException:
        staging.leave(options.resume)
        raise
    progress.end()
    return TransferResult(len(files), size, engine.resumed, engine.verified)


def _check_target(sink: FileSystem, goal: str, options: Options) -> None:
    if goal == "/":
        raise InvalidPath("the root cannot be written", path=goal, operation="copy")
    if not options.overwrite and sink.exists(goal):
        raise AlreadyExists("already exists", path=goal, operation="copy")


def _listed(files: list[SourceEntry], engine: TreeTransfer) -> dict[str, ListedFile]:
    return {entry.relative: ListedFile(entry.size, engine.crcs[entry.relative]) for entry in files}


def _write_manifest(sink: FileSystem, base: str, entries: Entries) -> None:
    sink.write_bytes(uris.join(base, MANIFEST), encode_manifest(entries), overwrite=True)
    sink.write_bytes(uris.join(base, SUCCESS), b"", overwrite=True)


def _publish(
    sink: FileSystem, base: str, goal: str, staging: StagingDir, overwrite: bool, is_file: bool
) -> None:
    moved = uris.hidden_sibling(goal, ".replaced.tmp")
    was_dir = False
    if overwrite:
        with contextlib.suppress(NotFound):
            was_dir = sink.stat(goal).is_dir
    if was_dir or (overwrite and not is_file and sink.exists(goal)):
        # A directory is not replaced in one step: aside, in, away. See _recover_moved.
        sink.delete(moved, recursive=True)
        sink.rename(goal, moved)
        rename_once(sink, base, goal, overwrite=False)
        sink.delete(moved, recursive=True)
    else:
        rename_once(sink, base, goal, overwrite=overwrite)
    with contextlib.suppress(HdfsError):
        staging.remove()


def _recover_moved(sink: FileSystem, goal: str, staging: StagingDir) -> None:
    """After a kill between the two renames: the old one gets its name back, if it is this user's.
    Its name can be foretold."""
    moved = uris.hidden_sibling(goal, ".replaced.tmp")
    if sink.exists(moved) and sink.stat(moved).owner == sink.stat(staging.path).owner:
        if sink.exists(goal):
            sink.delete(moved, recursive=True)
        else:
            sink.rename(moved, goal)
