"""Many writers, one output: what each wrote in a directory of its own becomes one tree, atomically.

Writers of an attempt write below ``<staging>/attempt-N/<writer>/``. :meth:`OutputCommitter.commit`
turns that into one tree at the target: complete, with a manifest (``_outputs.json``) and
``_SUCCESS``, by one rename. Before that rename the target does not exist (or is the old one). The
staging directory is a hidden sibling of the target, so nothing is copied.

A committer may die at any moment and be replaced, or may only have been taken for dead. Each has a
*fencing epoch*, a number that only grows. The committer first renames the directory that holds
everything (``attempt-N``, or ``storing-K`` of an earlier epoch) to ``storing-<epoch>``. From then
on every change is a rename with one end in there: a committer of an older epoch finds nothing to
rename, or no directory to rename it to. So there is no moment between a check and a rename in which
a pause does harm. A late writer may have recreated ``attempt-N`` after a newer committer took the
real one; then the newer ``storing-<epoch>``, or its output, exists too, and the committer looks for
both after its first rename.

A writer with an open file could continue writing after the rename, because HDFS knows open files by
number, not by name. So all leases are recovered, and nothing can be written into what is committed.
(Only the native client can recover leases; a job that succeeded rarely leaves files open.)"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar

from hdfs_utils import errors
from hdfs_utils import uri as uris
from hdfs_utils.concurrency.worker_pool import THREADS, WorkerPool
from hdfs_utils.filesystem import FileStatus, FileSystem
from hdfs_utils.outputs.merge import MergePlan, Move, plan_merge
from hdfs_utils.protocols.rejections import Rejections
from hdfs_utils.protocols.untrusted import at_path, decode_record

_rejections = Rejections(
    logging.getLogger(__name__),
    "is taken for somebody else's",
    "What lies beside it stays; remove it, or choose another directory.",
)

T = TypeVar("T")

MANIFEST = "_outputs.json"
SUCCESS = "_SUCCESS"
RESERVED = (MANIFEST, SUCCESS)
VERSION = 1

_MERGED, _OLD, _PLAN = ".whole", ".old", ".plan.json"
_STORING = re.compile(r"storing-([0-9]+)")
_ATTEMPT = re.compile(r"attempt-([0-9]+)")
_MAX_ROUNDS = 5
# Bytes of the manifest and of the merge plan: a million files.
_MAX_RECORD_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class CommitProgress:
    """How far a commit has come: ``moved`` of ``files`` are in place."""

    files: int
    size_bytes: int
    moved: int


@dataclass(frozen=True, slots=True)
class CommittedOutputs:
    """The contents of the target. ``renamed`` files got another name because several writers had
    used the same one."""

    files: int
    size_bytes: int
    renamed: int


class CommitStopped(Exception):
    """The commit stopped on request; the target is unchanged or can be restored."""


@dataclass(frozen=True, slots=True)
class OutputCommitter:
    """One owner's outputs.

    Attributes:
        fs: the file system of target and staging.
        target: path of the output directory.
        staging: path of a directory beside it that only this owner uses.
        owner: who commits, such as a YARN application; the manifest names it.
        threads: renames and other NameNode calls at the same time.
    """

    fs: FileSystem
    target: str
    staging: str
    owner: str
    threads: int = THREADS

    # ---- before ---------------------------------------------------------------------------

    def prepare(self, attempt: int, writers: Iterable[str], *, drop_older: bool = True) -> None:
        """Create the writers' directories and delete those of older attempts.

        Raises:
            PermissionDenied: the staging directory is somebody else's.
        """
        self._check_owner()
        directories = [uris.join(self.staging, f"attempt-{attempt}", writer) for writer in writers]
        self._each(self.fs.mkdirs, directories)
        if drop_older:
            for status in self.fs.list(self.staging):
                found = _ATTEMPT.fullmatch(uris.name(status.path))
                if found and int(found[1]) < attempt:
                    self.fs.delete(status.path, recursive=True)

    # ---- the commit -----------------------------------------------------------------------

    def committed(self) -> CommittedOutputs | None:
        """The outputs that this owner has committed, or ``None``."""
        path = uris.join(self.target, MANIFEST)
        try:
            data = self.fs.read_bytes(path, max_bytes=_MAX_RECORD_BYTES)
            found = decode_record(data, max_bytes=_MAX_RECORD_BYTES)
            if found.text("owner") != self.owner:
                return None
            return CommittedOutputs(*map(found.integer, ("files", "bytes", "renamed")))
        except (errors.NotFound, errors.NotADirectory):
            return None
        except errors.MalformedData as error:
            _rejections.add(path, error)
            return None

    def commit(
        self,
        attempt: int,
        writers: Sequence[str],
        *,
        fencing_epoch: int,
        replace: bool = False,
        report: Callable[[CommitProgress], None] = lambda progress: None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> CommittedOutputs:
        """Commit; safe to repeat by this committer or a later one, wherever an earlier one stopped.

        Args:
            attempt: the attempt whose writers' files count; no others do.
            writers: by precedence: the first that wrote a name keeps it.
            fencing_epoch: of this committer; grows with each.
            replace: whether to replace an existing target.
            report: called with the progress after each rename.
            is_stopped: polled between two renames.

        Raises:
            CommitStopped: ``is_stopped`` returned True.
            AlreadyExists: another owner's target exists, and ``replace`` is false.
            Fenced: a later committer has taken over.
            PermissionDenied: the staging directory is somebody else's.
        """
        done = self.committed()
        if done is None:
            self._check_owner()
            mine = self._take_over(attempt, fencing_epoch)
            newest = max(self._epochs(), default=fencing_epoch)
            if newest > fencing_epoch:
                raise self._fenced(newest, fencing_epoch)
            done = self.committed()
        if done is None:
            try:
                plan = self._plan(mine, writers)
                self._assemble(mine, plan, report, is_stopped)
                self._publish(mine, replace=replace)
                done = CommittedOutputs(plan.files, plan.size_bytes, plan.renamed)
            except errors.NotFound as error:
                done = self._explain(error, fencing_epoch)
        with contextlib.suppress(errors.HdfsError):
            self.discard()
        return done

    def back_out(self) -> CommittedOutputs | None:
        """After a stop: return what was committed anyway, or else put an old target back."""
        if (done := self.committed()) is not None:
            return done
        epochs = self._epochs()
        if epochs:
            self._check_owner()
        for _, path in sorted(epochs.items(), reverse=True):
            with contextlib.suppress(errors.NotFound, errors.AlreadyExists):
                self.fs.rename(uris.join(path, _OLD), self.target)
        return None

    # ---- after ----------------------------------------------------------------------------

    def discard(self) -> None:
        """Delete everything the writers wrote that is not committed."""
        self.fs.delete(self.staging, recursive=True)

    def keep(self, directory: str) -> bool:
        """Move everything the writers wrote to ``directory``; False if there is nothing."""
        try:
            self.fs.rename(self.staging, directory)
        except errors.NotFound:
            return self.fs.exists(directory)
        return True

    # ---- inside ---------------------------------------------------------------------------

    def _check_owner(self) -> None:
        """Its name can be foretold, and where many may write beside the target, anybody may have
        made it before and fill it with what would be committed as this owner's."""
        probe = uris.join(self.staging, f".owner-{secrets.token_hex(6)}")
        self.fs.mkdirs(probe)
        mine = self.fs.stat(probe).owner
        self.fs.delete(probe)
        found = self.fs.stat(self.staging).owner
        if found != mine:
            raise errors.PermissionDenied(
                f"belongs to {found} and not to {mine}: delete it, or name an output where {found} "
                "may not write",
                path=self.staging,
                operation="store outputs",
            )

    def _epochs(self) -> dict[int, str]:
        try:
            entries = self.fs.list(self.staging)
        except errors.NotFound:
            return {}
        matches = ((_STORING.fullmatch(uris.name(s.path)), s.path) for s in entries)
        return {int(match[1]): path for match, path in matches if match}

    def _take_over(self, attempt: int, epoch: int) -> str:
        mine = uris.join(self.staging, f"storing-{epoch}")
        for _ in range(_MAX_ROUNDS):
            epochs = self._epochs()
            newest = max(epochs, default=0)
            if newest > epoch:
                raise self._fenced(newest, epoch)
            if newest == epoch:
                return mine
            source = epochs.get(newest) or uris.join(self.staging, f"attempt-{attempt}")
            try:
                self.fs.rename(source, mine)
            except errors.NotFound:
                if not epochs and not self.fs.exists(source):
                    self.fs.mkdirs(source)  # the writers wrote nothing
            else:
                return mine
        raise errors.Unavailable(
            "others keep changing it", path=self.staging, operation="store outputs"
        )

    def _plan(self, mine: str, writers: Sequence[str]) -> MergePlan:
        """The merge plan; stored before anything moves, so that a later committer follows it."""
        path = uris.join(mine, _PLAN)
        with contextlib.suppress(errors.NotFound):
            return _decode(self.fs.read_bytes(path, max_bytes=_MAX_RECORD_BYTES), path)
        found = self._listed(mine, writers)
        open_files = [s.path for _, statuses in found for s in statuses if not s.is_dir]
        if self._recover(open_files):
            found = self._listed(mine, writers)  # with the lengths that recovery settled
        merged = plan_merge(mine, found, RESERVED)
        draft = self._draft(mine, _PLAN)
        self.fs.write_atomic(draft, json.dumps(merged.plain()).encode())
        self.fs.rename(draft, path)
        return merged

    def _listed(self, mine: str, writers: Sequence[str]) -> list[tuple[str, list[FileStatus]]]:
        found = []
        for writer in writers:
            try:
                found.append((writer, list(self.fs.walk(uris.join(mine, writer)))))
            except errors.NotFound:
                found.append((writer, []))
        return found

    def _recover(self, paths: Sequence[str]) -> bool:
        """Recover the leases; whether every writer is cut off now."""
        if not paths or self.fs.capabilities.is_local:
            return False
        try:
            self._each(self.fs.recover_lease, paths)
        except errors.NotSupported:
            return False
        return True

    def _assemble(
        self,
        mine: str,
        plan: MergePlan,
        report: Callable[[CommitProgress], None],
        is_stopped: Callable[[], bool],
    ) -> None:
        whole = uris.join(mine, _MERGED)
        if not self.fs.exists(whole):
            draft = self._draft(mine, _MERGED)
            self.fs.mkdirs(draft)
            self._each(
                self.fs.mkdirs, [uris.join(draft, directory) for directory in plan.directories]
            )
            self.fs.rename(draft, whole)
        lock = threading.Lock()
        moved = 0

        def move(one: Move) -> None:
            nonlocal moved
            if is_stopped():
                raise CommitStopped
            self._move(uris.join(mine, one.source), uris.join(whole, one.target))
            with lock:
                moved += one.files
                report(CommitProgress(plan.files, plan.size_bytes, moved))

        report(CommitProgress(plan.files, plan.size_bytes, 0))
        self._each(move, plan.moves)
        for name, content in ((MANIFEST, self._manifest(plan)), (SUCCESS, b"")):
            if not self.fs.exists(uris.join(whole, name)):
                draft = self._draft(mine, name)
                self.fs.write_bytes(draft, content, overwrite=True)
                self._move(draft, uris.join(whole, name))
        if is_stopped():
            raise CommitStopped

    def _draft(self, mine: str, name: str) -> str:
        """Where to create an entry before renaming it into place: creating it there could bring
        back the directory of a fenced committer."""
        return uris.join(self.staging, f".{uris.name(mine)}-{name}")

    def _move(self, source: str, target: str) -> None:
        """Rename; succeeds also where an earlier try did it."""
        try:
            self.fs.rename(source, target)
        except (errors.NotFound, errors.AlreadyExists):
            if self.fs.exists(source) or not self.fs.exists(target):
                raise

    def _publish(self, mine: str, *, replace: bool) -> None:
        whole = uris.join(mine, _MERGED)
        try:
            status = self.fs.stat(self.target)
        except errors.NotFound:
            status = None
        is_empty = status is not None and status.is_dir and not self.fs.list(self.target)
        if status is not None and not is_empty:
            if not replace:
                message = "already exists and belongs to another owner"
                raise errors.AlreadyExists(message, path=self.target, operation="store outputs")
            self.fs.rename(self.target, uris.join(mine, _OLD))
        try:
            self.fs.rename(whole, self.target, overwrite=is_empty)
        except (errors.NotFound, errors.Unavailable):
            if self.committed() is None:
                raise

    def _manifest(self, plan: MergePlan) -> bytes:
        listed = [asdict(file) for file in plan.listed]
        return json.dumps(
            {
                "version": VERSION,
                "owner": self.owner,
                "files": plan.files,
                "bytes": plan.size_bytes,
                "renamed": plan.renamed,
                "listed": listed,
            },
            indent=1,
        ).encode()

    def _explain(self, error: errors.NotFound, epoch: int) -> CommittedOutputs:
        """Something is gone: a later committer took or committed it, or somebody deleted it."""
        newest = max(self._epochs(), default=0)
        if newest > epoch:
            raise self._fenced(newest, epoch) from error
        if (done := self.committed()) is None:
            raise error
        return done

    def _fenced(self, newest: int, epoch: int) -> errors.Fenced:
        message = f"committer {newest} has taken over from committer {epoch}"
        return errors.Fenced(message, path=self.staging, operation="store outputs")

    def _each(self, call: Callable[[T], None], items: Sequence[T]) -> None:
        WorkerPool(self.threads, operation="store outputs").run(call, items)


def _decode(data: bytes, path: str) -> MergePlan:
    with at_path(path, "read merge plan"):
        return MergePlan.of_record(decode_record(data, max_bytes=_MAX_RECORD_BYTES))
