"""Many writers, one output: what each wrote in a place of its own becomes one tree, at once.

Writers of an attempt write below ``<staging>/attempt-N/<writer>/``. :meth:`Outputs.commit` makes of
it one tree at the target: whole, with a manifest (``_outputs.json``) and ``_SUCCESS``, by one
rename; before that rename the target does not exist (or is the old one). The staging directory is a
hidden sibling of the target, so nothing is copied.

Whoever commits may die at any moment and be followed by another, and may only have been taken for
dead. Each has a *life*, a number that grows. The first thing it does is to rename the directory
that has everything (``attempt-N``, or ``storing-K`` of an earlier life) to ``storing-<life>``. From
then on every change is a rename with an end in there: those of an older life find nothing to
rename, or nowhere to rename it to. So there is no moment between a check and a rename in which a
pause does harm. The directory could be one that a late writer has made anew after a later life had
taken the true one: then that life's ``storing-<life>`` is there beside it, or its output is, and
both are looked for after the rename.

A writer that still has a file open could go on writing into it after the rename, because HDFS knows
open files by number, not by name: all leases are recovered, so nothing can be written into what is
committed. (Only the native client can; files left open by a writer of a job that has ended well are
rare enough.)
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from hdfs_utils import uri as uris
from hdfs_utils.errors import (
    AlreadyExists,
    CorruptData,
    Fenced,
    HdfsError,
    NotADirectory,
    NotFound,
    NotSupported,
    Unavailable,
)
from hdfs_utils.filesystem import FileStatus, FileSystem
from hdfs_utils.merging import Merged, Move, merge

MANIFEST = "_outputs.json"
SUCCESS = "_SUCCESS"
RESERVED = (MANIFEST, SUCCESS)
VERSION = 1

# Renames and questions at once: what the native client needs to be fast.
THREADS = 8

_WHOLE, _OLD, _PLAN = ".whole", ".old", ".plan.json"
_STORING = re.compile(r"storing-([0-9]+)")
_ATTEMPT = re.compile(r"attempt-([0-9]+)")
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a commit is. ``moved`` of ``files`` are in their place."""

    files: int
    size_bytes: int
    moved: int


@dataclass(frozen=True, slots=True)
class Committed:
    """What is at the target now. ``renamed`` files have another name than their writer gave them,
    because several writers had used it."""

    files: int
    size_bytes: int
    renamed: int


class Stopped(Exception):
    """The commit was told to stop, before the target was touched for good."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """One owner's outputs.

    Attributes:
        fs: where.
        target: path of the directory that shall have them.
        staging: path of a directory beside it, of this owner alone.
        owner: who commits, such as a YARN application; it is in the manifest.
    """

    fs: FileSystem
    target: str
    staging: str
    owner: str

    # ---- before ---------------------------------------------------------------------------

    def prepare(self, attempt: int, writers: Iterable[str], *, drop_older: bool = True) -> None:
        """Make the writers' places, and take away those of older attempts."""
        places = [uris.join(self.staging, f"attempt-{attempt}", writer) for writer in writers]
        _each(self.fs.mkdirs, places)
        if drop_older:
            for status in self.fs.list(self.staging):
                found = _ATTEMPT.fullmatch(uris.name(status.path))
                if found and int(found[1]) < attempt:
                    self.fs.delete(status.path, recursive=True)

    # ---- the commit -----------------------------------------------------------------------

    def committed(self) -> Committed | None:
        """What this owner has committed; None: nothing."""
        try:
            found = json.loads(self.fs.read_bytes(uris.join(self.target, MANIFEST)))
            if found["owner"] != self.owner:
                return None
            return Committed(found["files"], found["bytes"], found["renamed"])
        except (NotFound, NotADirectory, ValueError, KeyError, TypeError):
            return None

    def commit(
        self,
        attempt: int,
        writers: Sequence[str],
        *,
        life: int,
        replace: bool = False,
        tell: Callable[[Progress], None] = lambda progress: None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> Committed:
        """Harmless to repeat, by this life or a later one, whatever became of the one before.

        Args:
            attempt: whose writers' files count; those of others never do.
            writers: in the order of their rights: the first one that wrote a name keeps it.
            life: of the committer, growing.
            replace: whether a target that is there already gives way.
            tell: how far it is.
            is_stopped: asked between two renames.

        Raises:
            Stopped: ``is_stopped`` said so.
            AlreadyExists: there is a target of somebody else, and ``replace`` is false.
            Fenced: a later life has taken over.
        """
        done = self.committed()
        if done is None:
            mine = self._take_over(attempt, life)
            newest = max(self._lives(), default=life)
            if newest > life:
                raise self._fenced(newest, life)
            done = self.committed()
        if done is None:
            try:
                plan = self._plan(mine, writers)
                self._assemble(mine, plan, tell, is_stopped)
                self._publish(mine, replace=replace)
                done = Committed(plan.files, plan.size_bytes, plan.renamed)
            except NotFound as error:
                done = self._explain(error, life)
        with contextlib.suppress(HdfsError):
            self.discard()
        return done

    def back_out(self) -> Committed | None:
        """After a stop: what was committed in spite of it; else an old target is put back."""
        if (done := self.committed()) is not None:
            return done
        for _, path in sorted(self._lives().items(), reverse=True):
            with contextlib.suppress(NotFound, AlreadyExists):
                self.fs.rename(uris.join(path, _OLD), self.target)
        return None

    # ---- after ----------------------------------------------------------------------------

    def discard(self) -> None:
        """Take away all that the writers wrote and that is not committed."""
        self.fs.delete(self.staging, recursive=True)

    def keep(self, place: str) -> bool:
        """Move all that the writers wrote to ``place``; False: there is nothing."""
        try:
            self.fs.rename(self.staging, place)
        except NotFound:
            return self.fs.exists(place)
        return True

    # ---- inside ---------------------------------------------------------------------------

    def _lives(self) -> dict[int, str]:
        try:
            entries = self.fs.list(self.staging)
        except NotFound:
            return {}
        matches = ((_STORING.fullmatch(uris.name(s.path)), s.path) for s in entries)
        return {int(match[1]): path for match, path in matches if match}

    def _take_over(self, attempt: int, life: int) -> str:
        mine = uris.join(self.staging, f"storing-{life}")
        for _ in range(_ROUNDS):
            lives = self._lives()
            newest = max(lives, default=0)
            if newest > life:
                raise self._fenced(newest, life)
            if newest == life:
                return mine
            source = lives.get(newest) or uris.join(self.staging, f"attempt-{attempt}")
            try:
                self.fs.rename(source, mine)
            except NotFound:
                if not lives and not self.fs.exists(source):
                    self.fs.mkdirs(source)  # its writers have never written
            else:
                return mine
        raise Unavailable("changes all the time", path=self.staging, operation="store outputs")

    def _plan(self, mine: str, writers: Sequence[str]) -> Merged:
        """Written down before anything is moved, so that a later life goes by the same."""
        path = uris.join(mine, _PLAN)
        with contextlib.suppress(NotFound):
            return _decode(self.fs.read_bytes(path), path)
        found = self._look(mine, writers)
        open_files = [s.path for _, statuses in found for s in statuses if not s.is_dir]
        if self._recover(open_files):
            found = self._look(mine, writers)  # with the lengths that they have now
        merged = merge(mine, found, RESERVED)
        draft = self._draft(mine, _PLAN)
        self.fs.write_atomic(draft, json.dumps(merged.plain()).encode())
        self.fs.rename(draft, path)
        return merged

    def _look(self, mine: str, writers: Sequence[str]) -> list[tuple[str, list[FileStatus]]]:
        found = []
        for writer in writers:
            try:
                found.append((writer, list(self.fs.walk(uris.join(mine, writer)))))
            except NotFound:
                found.append((writer, []))
        return found

    def _recover(self, paths: Sequence[str]) -> bool:
        """Whether all writers are cut off now."""
        if not paths or self.fs.backend == "local":
            return False
        try:
            _each(self.fs.recover_lease, paths)
        except NotSupported:
            return False
        return True

    def _assemble(
        self,
        mine: str,
        plan: Merged,
        tell: Callable[[Progress], None],
        is_stopped: Callable[[], bool],
    ) -> None:
        whole = uris.join(mine, _WHOLE)
        if not self.fs.exists(whole):
            draft = self._draft(mine, _WHOLE)
            self.fs.mkdirs(draft)
            _each(self.fs.mkdirs, [uris.join(draft, directory) for directory in plan.directories])
            self.fs.rename(draft, whole)
        lock = threading.Lock()
        moved = 0

        def move(one: Move) -> None:
            nonlocal moved
            if is_stopped():
                raise Stopped
            self._move(uris.join(mine, one.source), uris.join(whole, one.target))
            with lock:
                moved += one.files
                tell(Progress(plan.files, plan.size_bytes, moved))

        tell(Progress(plan.files, plan.size_bytes, 0))
        _each(move, plan.moves)
        for name, content in ((MANIFEST, self._manifest(plan)), (SUCCESS, b"")):
            if not self.fs.exists(uris.join(whole, name)):
                draft = self._draft(mine, name)
                self.fs.write_bytes(draft, content, overwrite=True)
                self._move(draft, uris.join(whole, name))
        if is_stopped():
            raise Stopped

    def _draft(self, mine: str, name: str) -> str:
        """Nothing is made in place, which would bring back the directory of a life that is over:
        it is made here and renamed to where it belongs."""
        return uris.join(self.staging, f".{uris.name(mine)}-{name}")

    def _move(self, source: str, target: str) -> None:
        """Also if it was done before."""
        try:
            self.fs.rename(source, target)
        except (NotFound, AlreadyExists):
            if self.fs.exists(source) or not self.fs.exists(target):
                raise

    def _publish(self, mine: str, *, replace: bool) -> None:
        whole = uris.join(mine, _WHOLE)
        try:
            status = self.fs.stat(self.target)
        except NotFound:
            status = None
        is_empty = status is not None and status.is_dir and not self.fs.list(self.target)
        if status is not None and not is_empty:
            if not replace:
                message = "is there already, and is not this job's"
                raise AlreadyExists(message, path=self.target, operation="store outputs")
            self.fs.rename(self.target, uris.join(mine, _OLD))
        try:
            self.fs.rename(whole, self.target, overwrite=is_empty)
        except (NotFound, Unavailable):
            if self.committed() is None:
                raise

    def _manifest(self, plan: Merged) -> bytes:
        listed = [
            {"path": file.path, "length": file.length, "writer": file.writer}
            for file in plan.listed
        ]
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

    def _explain(self, error: NotFound, life: int) -> Committed:
        """Something is gone that was there: a later life has it, or has done it, or somebody
        deleted it."""
        newest = max(self._lives(), default=0)
        if newest > life:
            raise self._fenced(newest, life) from error
        if (done := self.committed()) is None:
            raise error
        return done

    def _fenced(self, newest: int, life: int) -> Fenced:
        message = f"life {newest} has taken over from life {life}"
        return Fenced(message, path=self.staging, operation="store outputs")


def _decode(data: bytes, path: str) -> Merged:
    try:
        return Merged.of_plain(json.loads(data))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(f"is no plan: {error!r}", path=path, operation="store outputs") from error


def _each(call: Callable[[Any], None], items: Iterable[Any]) -> None:
    """The first error is raised when those under way have ended; the rest is not begun."""
    items = list(items)
    if len(items) < 2:
        for item in items:
            call(item)
        return
    with ThreadPoolExecutor(min(THREADS, len(items)), thread_name_prefix="outputs") as pool:
        futures = [pool.submit(partial(call, item)) for item in items]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
