"""Spooled shards whose process is gone: sent by whoever comes after it on the same disk.

::

    python -m hdfs_utils.checkpoints.orphaned_spools DIRECTORY... [--limit SECONDS]

looks below each directory for spools (``checkpoints-*``) that nobody has locked, and sends what
waits there, each for at most the limit that its own job gave it. The shard of rank 0 brings the
checkpoint with it once those of the other ranks have come. A checkpoint that a later attempt has
gone past is fenced, and dropped: nothing here can change what that attempt sees.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hdfs_utils.backends.connect import connect
from hdfs_utils.checkpoints.commit.fence import EpochClaim, Fence, Token
from hdfs_utils.checkpoints.commit.save_operation import Limits, SaveOperation, SaveSpec
from hdfs_utils.checkpoints.format.manifest import MAX_BYTES, decode_plain
from hdfs_utils.checkpoints.format.shard_file import Identity
from hdfs_utils.checkpoints.spool import Spool, drop_lock, note_of, take_lock
from hdfs_utils.errors import HdfsError, MalformedData
from hdfs_utils.filesystem import FileSystem
from hdfs_utils.protocols.untrusted import read_at_most

_log = logging.getLogger("hdfs_utils.checkpoints")

PATTERN = "checkpoints-*"
"""Names of the spools of ``yarnam.train.checkpoint``."""

COMMIT_S = 60.0
"""How long rank 0 waits for the other shards after it has sent its own."""

_PAUSE_S = 0.2


@dataclass
class SendResult:
    """What became of the shards.

    Attributes:
        landed: sent, and where they were of rank 0, made a checkpoint.
        dropped: of no use any more: fenced, damaged, or past their limit.
        waiting: still there.
    """

    landed: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)


def spools(directories: Iterable[Path]) -> list[Path]:
    """Those that have a shard which another process could send; it may still be its own."""
    found = []
    for directory in directories:
        for spool in sorted(directory.glob(PATTERN)):
            if any(note_of(shard).exists() for shard in spool.glob("*.shard")):
                found.append(spool)
    return found


def send(
    directories: Iterable[Path],
    limit_s: float,
    *,
    open_fs: Callable[[str], FileSystem] = connect,
    sleep: Callable[[float], None] = time.sleep,
) -> SendResult:
    """Send all that was left behind; returns after ``limit_s`` seconds at the latest, but for one
    call to the storage."""
    sent = SendResult()
    ends_s = time.monotonic() + limit_s
    mine = [spool for spool in spools(directories) if take_lock(spool)]
    work = [(spool, shard) for spool in mine for shard in sorted(spool.glob("*.shard"))]
    savings: list[tuple[Path, Path, SaveOperation]] = []
    for spool, shard in work:
        try:
            with note_of(shard).open("rb") as file:
                note = decode_plain(read_at_most(file, MAX_BYTES))
            savings.append((spool, shard, _saving(note, shard, open_fs)))
        except (OSError, MalformedData, ValueError, KeyError, TypeError, OverflowError) as error:
            _drop(spool, shard, f"its note is of no use: {error!r}", sent)
    while savings:
        savings = [one for one in savings if not _is_over(*one, sent)]
        if not savings or time.monotonic() > ends_s:
            break
        sleep(_PAUSE_S)
    sent.waiting += [saving.plan.name for _, _, saving in savings]
    for spool in mine:
        drop_lock(spool)
    return sent


def _saving(
    note: dict[str, Any], shard: Path, open_fs: Callable[[str], FileSystem]
) -> SaveOperation:
    fs = open_fs(note["root"])
    claim = EpochClaim(int(note["epoch"]), Token.parse(note["token"]))
    plan = SaveSpec(
        fence=Fence(fs, fs.own_path(note["root"]), claim),
        name=note["name"],
        identity=Identity(note["step"], claim.epoch, note["rank"], note["world_size"]),
        saved_ms=note["saved_ms"],
        metrics=note["metrics"],
        metadata=note["metadata"],
    )
    left_s = float(note["until_s"]) - time.time()
    deadline_s = time.monotonic() + left_s
    return SaveOperation(plan, (), is_ours=True, spooled=shard, deadline_s=deadline_s)


def _is_over(spool: Path, shard: Path, saving: SaveOperation, sent: SendResult) -> bool:
    name = saving.plan.name
    keeper = Spool(spool)
    is_sent = saving.spooled is None
    try:
        saving.advance(Limits(commit_s=COMMIT_S), keeper)
    except (HdfsError, ValueError) as error:
        if saving.spooled is not None:
            _drop(spool, shard, str(error), sent)
        else:
            _log.warning("%s was sent, but is not a checkpoint: %s", name, error)
            sent.dropped.append(name)
        return True
    if saving.spooled is None and not is_sent:
        _log.info("the shard of rank %d of %s was sent", saving.plan.identity.rank, name)
    if saving.is_over:
        sent.landed.append(name)
    return saving.is_over


def _drop(spool: Path, shard: Path, why: str, sent: SendResult) -> None:
    _log.warning("%s is dropped: %s", shard, why)
    Spool(spool).drop(shard)
    sent.dropped.append(shard.name)


def main() -> int:
    """Returns 0 if nothing is left."""
    parser = argparse.ArgumentParser(description="Send the shards that a dead process has spooled.")
    parser.add_argument("directories", nargs="+", type=Path)
    parser.add_argument("--limit", type=float, default=600.0, help="in seconds")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    sent = send(arguments.directories, arguments.limit)
    _log.info(
        "%d shards sent, %d dropped, %d still wait",
        len(sent.landed), len(sent.dropped), len(sent.waiting),
    )  # fmt: skip
    return 1 if sent.waiting else 0


if __name__ == "__main__":
    raise SystemExit(main())
