"""Which copies stay in memory, and what is said where there is no space."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable

import pytest

from hdfs_utils.checkpoints.memory.copy_messages import (
    CopyKey,
    WantedShard,
    decode,
    encode,
    key_of,
    wanted_of,
)
from hdfs_utils.checkpoints.memory.copy_store import CopyStore, MemoryCopy, NoSpace
from hdfs_utils.checkpoints.memory.shared_memory import MemoryFile, RangeReader, resident_bytes
from hdfs_utils.errors import MalformedData

MIB = 1 << 20
FILE = "shard-00000-of-00002"
PLENTY = 1 << 40


def key(step: int, file: str = FILE, epoch: int = 1) -> CopyKey:
    return CopyKey("hdfs://nn/ckpt", f"step-{step:010d}-e{epoch:06d}-g0000000", file)


def saved(store: CopyStore, step: int, size: int = 4 * MIB, **how: object) -> MemoryCopy:
    file = str(how.pop("file", FILE))
    copy = store.begin(key(step, file), size, **how)  # type: ignore[arg-type]
    store.seal(copy, step)
    return copy


def steps(store: CopyStore, file: str = FILE) -> list[int]:
    return [step for step in range(1, 20) if store.at(key(step, file)) is not None]


def store_of(limit: int, free: Callable[[], int] = lambda: PLENTY) -> CopyStore:
    return CopyStore(limit, free)


@pytest.mark.parametrize(("limit", "third"), [(64, [1, 2, 3]), (8, [2, 3])])
def test_the_save_before_stays_as_long_as_there_is_space(limit: int, third: list[int]) -> None:
    store = store_of(limit * MIB)
    saved(store, 1)
    store.begin(key(2), 4 * MIB)
    assert steps(store) == [1, 2], "1 is needed until 2 is committed"
    store.seal(store.at(key(2)), 2)  # type: ignore[arg-type]
    now = store.begin(key(3), 4 * MIB)
    assert steps(store) == third
    store.seal(now, 3)
    assert steps(store) == [2, 3]


def test_memory_is_used_again_and_ends_with_its_holder() -> None:
    store = store_of(64 * MIB)
    first = saved(store, 1).memory
    saved(store, 2)
    saved(store, 3)
    assert saved(store, 4).memory is first
    assert store.size == 12 * MIB
    assert os.fstat(first.fd).st_mode & 0o777 == 0o600
    assert os.fstat(first.fd).st_nlink == 0, "no name that a SIGKILL could leave"


def test_memory_for_the_next_save_is_there_before_it() -> None:
    store = store_of(12 * MIB)
    first = saved(store, 1)
    store.prepare(first)
    store.prepare(first)
    assert store.size == 8 * MIB
    second = saved(store, 2)
    assert second.memory.is_counted
    assert store.size == 8 * MIB
    store.prepare(second)
    saved(store, 2, 1 * MIB, is_of_peer=True, file="shard-00001-of-00002")
    assert steps(store) == [1, 2]
    assert store.size == 10 * MIB, "it gives way to a copy of another node"
    with pytest.raises(NoSpace):
        store.prepare(second)


def test_memory_of_an_unfinished_save_is_not_used_again() -> None:
    """Its process may still upload from it."""
    store = store_of(64 * MIB)
    unfinished = store.begin(key(1), 4 * MIB)
    mine = os.dup(unfinished.memory.fd)
    store.drop(unfinished)
    other = store.begin(key(2), 4 * MIB)
    assert os.fstat(mine).st_ino != os.fstat(other.memory.fd).st_ino
    os.close(mine)


def test_only_the_very_bytes_of_the_manifest_are_found() -> None:
    store = store_of(64 * MIB)
    saved(store, 1, 3 * MIB)
    assert store.find(WantedShard(key(1), 3 * MIB, 1)) is not None
    assert store.find(WantedShard(key(1), 3 * MIB, 2)) is None
    assert store.find(WantedShard(key(1), 2 * MIB, 1)) is None
    assert store.find(WantedShard(key(1, epoch=2), 3 * MIB, 1)) is None
    store.begin(key(5), MIB)
    assert store.find(WantedShard(key(5), MIB, 0)) is None, "not whole yet"


def test_saves_of_another_world_size_go_with_two_newer_ones() -> None:
    store = store_of(64 * MIB)
    saved(store, 1, file="shard-00001-of-00004")
    saved(store, 2)
    assert steps(store, "shard-00001-of-00004") == [1]
    saved(store, 3)
    assert steps(store, "shard-00001-of-00004") == []


def test_what_does_not_fit_is_refused_with_the_figures() -> None:
    store = store_of(10 * MIB)
    with pytest.raises(NoSpace, match=r"a copy of 12 MiB does not fit into 10 MiB.*raise the mem"):
        store.begin(key(1), 12 * MIB)
    scarce = store_of(100 * MIB, lambda: 5 * MIB)
    with pytest.raises(NoSpace, match=r"a copy of 12 MiB .* 5 MiB are free; raise the memory"):
        scarce.begin(key(1), 12 * MIB)


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.ENOSPC])
def test_a_node_without_memory_is_a_refusal(number: int) -> None:
    def full(_: int) -> MemoryFile:
        raise OSError(number, os.strerror(number))

    store = CopyStore(64 * MIB, lambda: PLENTY, full)
    with pytest.raises(NoSpace, match=f"the node has no memory.*{os.strerror(number)}"):
        store.begin(key(1), 4 * MIB)
    assert store.size == 0
    assert steps(store) == []


def test_memory_that_yarn_does_not_count_yet_is_counted() -> None:
    store = store_of(100 * MIB, lambda: 10 * MIB)
    store.begin(key(1, "shard-00000-of-00002"), 6 * MIB)
    with pytest.raises(NoSpace, match="4 MiB are free"):
        store.begin(key(1, "shard-00001-of-00002"), 6 * MIB)


def test_copies_of_others_have_half_and_give_way() -> None:
    store = store_of(16 * MIB)
    saved(store, 1, 6 * MIB, is_of_peer=True, file="shard-00001-of-00002")
    with pytest.raises(NoSpace, match="8 MiB, the share"):
        saved(store, 2, 6 * MIB, is_of_peer=True, file="shard-00001-of-00002")
    saved(store, 1, 6 * MIB)
    saved(store, 2, 6 * MIB)
    assert (steps(store), steps(store, "shard-00001-of-00002")) == ([1, 2], [])


def test_a_copy_on_its_way_keeps_its_memory_and_is_recalled_when_that_is_needed() -> None:
    store = store_of(12 * MIB)
    first = saved(store, 1)
    with store.reading(first):
        saved(store, 2)
        third = saved(store, 3)
        assert third.memory is not first.memory
        assert not first.is_recalled
        with pytest.raises(NoSpace):
            saved(store, 4, 8 * MIB)
        assert first.is_recalled
    assert store.size <= 8 * MIB
    with pytest.raises(NoSpace, match="given way"), store.reading(first):
        pass


def test_it_sheds_the_copies_of_others_first_and_the_oldest_first() -> None:
    store = store_of(64 * MIB)
    saved(store, 3, file="shard-00001-of-00002", is_of_peer=True)
    saved(store, 3)
    saved(store, 4)
    assert store.shed(1) == 1
    assert (steps(store), steps(store, "shard-00001-of-00002")) == ([3, 4], [])
    assert store.shed(4 * MIB) == 1
    assert steps(store) == [4]
    assert store.shed(PLENTY) == 1
    assert store.size == 0


def test_yarn_counts_memory_once() -> None:
    size = 64 * MIB
    before = resident_bytes(os.getpid())
    memory = MemoryFile(size)
    os.pwrite(memory.fd, b"1" * size, 0)
    assert resident_bytes(os.getpid()) - before < size / 2, "written, not mapped"
    memory.count()
    memory.count()
    assert size * 0.9 < resident_bytes(os.getpid()) - before < size * 1.5
    memory.close()
    assert resident_bytes(os.getpid()) - before < size / 2


def test_a_reader_of_a_part_of_a_file() -> None:
    memory = MemoryFile(10)
    os.pwrite(memory.fd, b"0123456789", 0)
    reader = RangeReader(memory.fd, 8)
    assert (reader.read(3), reader.tell(), reader.read()) == (b"012", 3, b"34567")
    assert (reader.seek(-2, 2), reader.read(9), reader.seek(99)) == (6, b"67", 8)
    reader.close()
    memory.close()


GOOD = {"root": "hdfs://nn/a", "name": key(1).name, "file": FILE, "length": 9, "crc32c": 1}


@pytest.mark.parametrize(
    "bad",
    [
        {"name": "../../etc"},
        {"name": f"x/{key(1).name}"},
        {"name": "step-1-e1-x"},
        {"file": "../shard-00000-of-00001"},
        {"file": "manifest.json"},
        {"file": "shard-00000-of-00001\n"},
        {"root": "r" * 20_000},
        {"root": 5},
        {"length": 0},
        {"length": -1},
        {"length": 2**63},
        {"length": 1.5},
        {"length": True},
        {"crc32c": 2**32},
        {"crc32c": -1},
        {"crc32c": None},
    ],
)
def test_hostile_names_and_sizes_are_refused(bad: dict[str, object]) -> None:
    assert wanted_of(decode(encode(GOOD))).length == 9
    sent = json.dumps({**GOOD, **bad}).encode()
    with pytest.raises(MalformedData):
        wanted_of(decode(sent))


def test_a_message_that_no_holder_would_read_is_not_sent() -> None:
    with pytest.raises(MalformedData, match="at most"):
        encode({**GOOD, "root": "r" * 100_000})
    with pytest.raises(MalformedData):
        key_of(decode(b"[" * 1000))
