"""The process that keeps the files of ``checkpoint.mirror`` on HDFS, and restores them: the agent
has no client of HDFS. It reads one request on its standard input and answers on its standard
output, both JSON::

    python -m yarnam.agent.data.mirror_process

With ``mirror_from: each`` a task keeps its sets below the directory of checkpoints, in ``rank-N``
by its first rank; a set says whose ranks it has.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import hdfs_utils
from hdfs_utils.checkpoints import Checkpointer, Limits, Retention, StartPoint, Token, catalog
from hdfs_utils.checkpoints.commit.fence import newest_claim
from hdfs_utils.checkpoints.file_sets import (
    FileChanged,
    FileVersion,
    SetDraft,
    known_ranks,
    prove,
    rank_directory,
    save_set,
)
from hdfs_utils.checkpoints.format.manifest import Checkpoint
from hdfs_utils.concurrency.retry import is_transient
from hdfs_utils.errors import AlreadyExists, Fenced, HdfsError

_LOG = logging.getLogger("yarnam.agent")

MODULE = "yarnam.agent.data.mirror_process"

NICENESS = 10
"""The training goes first, on the CPU and, with most schedulers of the kernel, on the disk."""

PATIENCE_S = 30.0
"""How long one call to a file system that is away is repeated."""

RANKS = "ranks"
"""The entry of the metadata with the first and the last rank of the task, and the gang's size."""


class MirrorRequest(NamedTuple):
    """``local`` is the directory that is kept, ``directory`` that of the job's checkpoints."""

    local: str
    directory: str
    token: str
    first: int = 0
    last: int = 0
    world_size: int = 1
    """0 where the gang changes its size while its processes run."""
    is_each: bool = False
    keep: int = 3
    restore: str = "newest"
    files: Sequence[tuple[str, int, int, int, bool]] | None = None
    """To keep: name, size, time in ns, inode, and whether its writer may have it open. ``None``
    restores."""


def places_of(rank: int, known: Sequence[int]) -> list[int]:
    """The tasks, by their first ranks, that may have kept the files of a rank, likeliest first."""
    return sorted((first for first in known if first <= rank), reverse=True)


def outdated(first: int, last: int, world_size: int, known: Sequence[int]) -> list[int]:
    """The tasks whose sets are older than that of this task, once it has one: their ranks are this
    task's by now, or the gang's first task finds them beyond its size."""
    mine = {rank for rank in known if first < rank <= last}
    beyond = {rank for rank in known if first == 0 and 0 < world_size <= rank}
    return sorted(mine | beyond)


def keep(request: MirrorRequest) -> dict[str, Any]:
    """Keep a set. The answer has ``kept``; ``unproved`` and ``endless``, files that are not whole
    and files that are open and have no format; ``changed``; or ``problem``, whether a later
    attempt has taken over (``is_over``), and whether the same may succeed later (``may_help``)."""
    files = request.files or ()
    local = Path(request.local)
    proof = prove(local, [name for name, *_ in files])
    endless = [name for name, *_, is_open in files if is_open and name in proof.formatless]
    if proof.unproved or endless:
        return {"unproved": proof.unproved, "endless": endless}
    root = request.directory
    if request.is_each:
        root = rank_directory(root, request.first)
    try:
        checkpointer = Checkpointer(
            root,
            token=Token.parse(request.token),
            retention=Retention(request.keep),
            limits=Limits(patience_s=PATIENCE_S),
        )
        versions = {name: FileVersion(*version) for name, *version, _ in files}
        ranks = [request.first, request.last, request.world_size]
        saved = save_set(checkpointer, local, versions, {RANKS: ranks})
        if request.is_each:
            _remove_outdated(checkpointer, request)
    except FileChanged as error:
        return {"changed": str(error)}
    except HdfsError as error:
        return {
            "problem": text_of(error),
            "is_over": isinstance(error, Fenced),
            "may_help": is_transient(error),
        }
    return {"kept": _facts(saved, sum(version.size for version in versions.values()))}


def _facts(checkpoint: Checkpoint, size: int) -> dict[str, Any]:
    count = len(checkpoint.names)
    at_s = checkpoint.saved_ms / 1000
    return {"number": checkpoint.step, "files": count, "size": size, "saved_at_s": at_s}


def _remove_outdated(checkpointer: Checkpointer, request: MirrorRequest) -> None:
    """Never a reason for a good save to fail."""
    fs, token = checkpointer.fs, Token.parse(request.token)
    base = fs.own_path(request.directory)
    try:
        known = known_ranks(fs, base)
        for rank in outdated(request.first, request.last, request.world_size, known):
            root = rank_directory(base, rank)
            claim = newest_claim(fs, root)
            if claim is not None and token.is_fenced_by(claim.token):
                continue
            for status in catalog.candidates(fs, root):
                catalog.remove(fs, status.path)
    except HdfsError as error:
        _LOG.warning("sets of ranks that are no more were not removed: %s", error)


def restore(request: MirrorRequest) -> dict[str, Any]:
    """Bring the newest set back. The answer has ``restored``, or ``problem``; neither where nothing
    is to be restored."""
    draft = SetDraft(Path(request.local))
    newest: Checkpoint | None = None
    try:
        for rank in range(request.first, request.last + 1) if request.is_each else (0,):
            found = _restore_rank(request, rank, draft)
            newest = newest or found
        if newest is None:
            _claim(request)
            return {}
        draft.publish()
    except AlreadyExists as error:
        _LOG.warning("nothing is restored: %s", error)
        return {}
    except HdfsError as error:
        return {"problem": text_of(error)}
    except OSError as error:
        return {"problem": f"{request.local}: {error.strerror or error}"}
    finally:
        draft.discard()
    return {"restored": {**_facts(newest, draft.size), "files": draft.files}}


def _restore_rank(request: MirrorRequest, rank: int, draft: SetDraft) -> Checkpoint | None:
    """Add what was kept for a rank; the checkpoint, if there is one."""
    if not request.is_each:
        found = _checkpointer(request, request.directory).restore(draft.add)
        return None if found is None else found[0]
    fs = hdfs_utils.connect(request.directory)
    base = fs.own_path(request.directory)
    for first in places_of(rank, known_ranks(fs, base)):
        if catalog.candidates(fs, rank_directory(base, first)):
            checkpointer = _checkpointer(request, rank_directory(request.directory, first))
            found = checkpointer.restore(draft.add, accept=NewestOfRank(rank))
            return None if found is None else found[0]
    return None


class NewestOfRank:
    """Accepts the sets that have the files of a rank, asked for the newest first, until one was
    saved by a gang without this rank: what is older than that is outdated."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._is_over = False

    def __call__(self, checkpoint: Checkpoint) -> bool:
        first, last, world_size = checkpoint.metadata.get(RANKS, (0, 0, 1))
        has_rank = bool(first <= self._rank <= last)
        self._is_over |= not has_rank and 0 < world_size <= self._rank
        return has_rank and not self._is_over


def _claim(request: MirrorRequest) -> None:
    """Nothing was restored, but older attempts can save no more from here on."""
    root = request.directory
    if request.is_each:
        root = rank_directory(root, request.first)
    _checkpointer(request, root).enter()


def _checkpointer(request: MirrorRequest, root: str) -> Checkpointer:
    return Checkpointer(
        root,
        token=Token.parse(request.token),
        start=StartPoint.parse(request.restore),
        limits=Limits(patience_s=PATIENCE_S),
    )


def text_of(error: HdfsError) -> str:
    """With the error's full name, by which failures are classified."""
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}: {error}"


def main() -> int:
    """Exits 0 if it has answered."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    with suppress(OSError):
        os.nice(NICENESS)
    request = MirrorRequest(**json.load(sys.stdin))
    answer = restore(request) if request.files is None else keep(request)
    sys.stdout.write(json.dumps(answer))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
