"""What a killed process has left in its spool is sent by whoever comes after it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdfs_utils import connect
from hdfs_utils.checkpoints import Checkpointer, Limits, Part, Spool, Token, catalog, load_latest
from hdfs_utils.checkpoints.orphaned_spools import send, spools
from hdfs_utils.checkpoints.spool import note_of
from hdfs_utils.errors import Unavailable

JOB = "application_1700000000000_0001"
ROWS = 6
QUICK = Limits(patience_s=0.05, commit_s=5.0, exit_s=0.1)


class Troubled:
    """A storage that nothing can be written to, while ``is_away``."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs
        self.is_away = False

    def __getattr__(self, name: str) -> Any:
        if self.is_away and name in {"write_atomic", "open_writer", "write_bytes"}:
            raise Unavailable("no route to the NameNode", operation=name)
        return getattr(self._fs, name)


def spooling(home: str, local: Path, rank: int, size: int, *, limit_s: float = 60.0) -> int:
    """A child that has saved step 1, and step 2 into its spool; it lives until it is killed."""
    pid = os.fork()
    if pid:
        return pid
    try:
        troubled = Troubled(connect(home))
        one = Checkpointer(
            home,
            rank=rank,
            world_size=size,
            token=Token(JOB, (1,)),
            fs=troubled,  # type: ignore[arg-type]
            spool=Spool(local / f"checkpoints-{os.getpid()}", limit_s),
            limits=QUICK,
            background=True,
        )
        part = ROWS // size
        for step in (1, 2):
            troubled.is_away = step > 1
            rows = np.full((part, 2), float(step))
            one.save(step, {"w": Part(rows, (ROWS, 2), (rank * part, 0))}, {"losses": [step]})
            if step == 1:
                one.wait(20.0)
        time.sleep(60)
    finally:
        os._exit(1)


@pytest.fixture
def home(tmp_path: Path) -> str:
    return f"file://{tmp_path}/ckpt"


@pytest.fixture
def local(tmp_path: Path) -> Path:
    return tmp_path / "appcache"


@pytest.fixture
def children() -> Iterator[list[int]]:
    pids: list[int] = []
    yield pids
    for pid in pids:
        kill(pid)


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def until_spooled(local: Path, count: int) -> list[Path]:
    deadline = time.monotonic() + 30
    while True:
        shards = [s for s in local.glob("checkpoints-*/*.shard") if note_of(s).exists()]
        if len(shards) == count:
            return shards
        assert time.monotonic() < deadline, "nothing was spooled"
        time.sleep(0.01)


def steps(home: str) -> list[int]:
    fs = connect(home)
    found = catalog.list_checkpoints(fs, fs.own_path(home))
    return sorted(one.name.step for one in found if one.checkpoint)


@pytest.mark.parametrize("size", [1, 2])
def test_what_the_dead_have_left_becomes_a_checkpoint(
    home: str, local: Path, children: list[int], size: int
) -> None:
    children += [spooling(home, local, rank, size) for rank in range(size)]
    until_spooled(local, size)
    assert steps(home) == [1]
    for pid in children:
        kill(pid)
    sent = send([local], 20.0)
    assert (len(sent.landed), sent.dropped, sent.waiting) == (size, [], [])
    assert steps(home) == [1, 2]
    found = load_latest(home)
    assert found is not None
    np.testing.assert_array_equal(found[1]["w"], np.full((ROWS, 2), 2.0))
    assert found[0].metadata == {"losses": [2]}
    assert found[0].writer["owner"] == JOB
    assert list(local.iterdir()) == []


def test_the_living_are_left_alone(home: str, local: Path, children: list[int]) -> None:
    children.append(spooling(home, local, 0, 1))
    until_spooled(local, 1)
    assert spools([local])
    sent = send([local], 5.0)
    assert (sent.landed, sent.dropped, sent.waiting) == ([], [], [])
    assert steps(home) == [1]


def test_a_later_attempt_has_gone_past_it(home: str, local: Path, children: list[int]) -> None:
    children.append(spooling(home, local, 0, 1))
    until_spooled(local, 1)
    kill(children[0])
    successor = Checkpointer(home, token=Token(JOB, (2,)))
    found = successor.load()
    assert found is not None
    assert found[0].step == 1
    sent = send([local], 5.0)
    assert (sent.landed, len(sent.dropped)) == ([], 1)
    assert steps(home) == [1]
    assert list(local.iterdir()) == []


def test_one_whose_others_do_not_come_waits_and_is_no_checkpoint(
    home: str, local: Path, children: list[int]
) -> None:
    children += [spooling(home, local, rank, 2) for rank in range(2)]
    shards = until_spooled(local, 2)
    for pid in children:
        kill(pid)
    other = next(s for s in shards if json.loads(note_of(s).read_bytes())["rank"] == 1)
    for path in (note_of(other), other):
        path.unlink()
    sent = send([local], 1.0)
    assert (sent.landed, len(sent.waiting)) == ([], 1)
    assert steps(home) == [1]


def test_its_time_is_over(home: str, local: Path, children: list[int]) -> None:
    children.append(spooling(home, local, 0, 1, limit_s=0.5))
    until_spooled(local, 1)
    kill(children[0])
    time.sleep(0.6)

    def away(uri: str) -> Any:
        troubled = Troubled(connect(uri))
        troubled.is_away = True
        return troubled

    sent = send([local], 5.0, open_fs=away)
    assert (sent.landed, len(sent.dropped)) == ([], 1)


def test_a_note_that_nobody_understands(home: str, local: Path, children: list[int]) -> None:
    children.append(spooling(home, local, 0, 1))
    (shard,) = until_spooled(local, 1)
    kill(children[0])
    note_of(shard).write_text("{}")
    sent = send([local], 5.0)
    assert len(sent.dropped) == 1
    assert steps(home) == [1]
