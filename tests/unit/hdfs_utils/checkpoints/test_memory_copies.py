"""Processes, holders and their peers: saves come back from memory, and what is damaged or gone is
read elsewhere."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdfs_utils.checkpoints import (
    Checkpointer,
    CheckpointMemory,
    Limits,
    LocalFile,
    Part,
    Spool,
    Token,
)
from hdfs_utils.checkpoints.format.manifest import CHUNK
from hdfs_utils.checkpoints.memory import copy_streams as streams
from hdfs_utils.checkpoints.memory import memory_holder
from hdfs_utils.checkpoints.memory.copy_messages import CopyKey, WantedShard
from hdfs_utils.checkpoints.memory.shared_memory import MemoryFile
from hdfs_utils.errors import HdfsError, MalformedData, Unavailable
from tests.unit.hdfs_utils.checkpoints.memory_node import PEM, Node
from yarnam.wire.credentials import new_credentials
from yarnam.wire.protocol import TLS_NAME

MIB = 1 << 20
SIZE = 6 * MIB


@pytest.fixture
def node() -> Iterator[Callable[..., Node]]:
    made: list[Node] = []

    def make(**how: Any) -> Node:
        made.append(Node(**how))
        return made[-1]

    yield make
    for one in made:
        one.holder.close()


@pytest.fixture
def home(tmp_path: Path) -> str:
    return f"file://{tmp_path}/ckpt"


def table(seed: int = 0, size: int = SIZE) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 255, size, dtype=np.uint8)


def saver(home: str, memory: CheckpointMemory | None, **how: Any) -> Checkpointer:
    return Checkpointer(home, memory=memory, limits=Limits(patience_s=0.05), **how)


def pair(node: Callable[..., Node], **how: Any) -> tuple[Node, Node]:
    one, other = node(**how), node(**how)
    one.holder.take_peers(other.tcp, [])
    other.holder.take_peers(one.tcp, [])
    return one, other


def until(is_so: Callable[[], object], limit_s: float = 20.0) -> None:
    end = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


def copies(one: Node) -> list[CopyKey]:
    return [key for key, copy in one.store._copies.items() if copy.crc32c is not None]


def sources(home: str, one: Node, expected: np.ndarray[Any, Any]) -> dict[str, int]:
    reader = saver(home, one.memory())
    found = reader.load()
    assert found is not None
    assert np.array_equal(found[1]["w"], expected)
    return dict(reader.read_from)


def damage(one: Node) -> None:
    for copy in one.store._copies.values():
        os.pwrite(copy.memory.fd, b"\xffDAMAGED", CHUNK + 5)


@pytest.mark.parametrize("background", [False, True])
def test_a_restore_reads_this_node_s_memory(
    home: str, node: Callable[..., Node], background: bool
) -> None:
    here = node()
    one = saver(home, here.memory(), background=background)
    for step in (1, 2, 3):
        values = {"w": table(step), "b": b"bytes", "n": np.float32(step)}
        one.save(step, values, {"at": step})
    one.close()
    assert set(sources(home, here, table(3))) == {"memory"}
    found = saver(home, here.memory()).load()
    assert found is not None
    assert (found[0].metadata, found[1]["b"], found[1]["n"]) == ({"at": 3}, b"bytes", 3.0)


def test_the_storage_has_the_same_bytes_as_without_memory(
    home: str, node: Callable[..., Node], tmp_path: Path
) -> None:
    (tmp_path / "model.safetensors").write_bytes(table(7).tobytes())
    values = {
        "w": table(1), "file": LocalFile(tmp_path / "model.safetensors"), "frozen": bytes(5),
        "empty": np.zeros((0, 3)),
    }  # fmt: skip
    shards = []
    for name, memory in (("a", None), ("b", node().memory())):
        one = saver(f"{home}-{name}", memory, background=True, token=Token("t"))
        one.save(1, values)
        one.close()
        [shard] = Path(f"{home[7:]}-{name}").glob("step-*/shard-*")
        shards.append(shard.read_bytes())
    assert shards[0] == shards[1]


def test_what_the_caller_changes_after_a_save_in_the_background_is_not_saved(
    home: str, node: Callable[..., Node]
) -> None:
    here = node()
    one = saver(home, here.memory(), background=True)
    values = table(1)
    one.save(1, {"w": values})
    values[:] = 0
    one.close()
    assert sources(home, here, table(1)) == {"memory": SIZE}


def test_a_lost_node_s_shard_comes_from_its_peer(home: str, node: Callable[..., Node]) -> None:
    here, there = pair(node)
    saver(home, here.memory()).save(1, {"w": table(1)})
    until(lambda: copies(there))
    here.holder.close()
    here.store.shed(1 << 40)
    assert sources(home, there, table(1)) == {"memory": SIZE}
    new = node()
    new.holder.take_peers(there.tcp, [here.tcp])
    assert sources(home, new, table(1)) == {"peer": SIZE}
    assert sources(home, new, table(1)) == {"memory": SIZE}, "it stays there"


def test_hdfs_is_read_when_both_are_gone(home: str, node: Callable[..., Node]) -> None:
    saver(home, node().memory()).save(1, {"w": table(1)})
    assert sources(home, node(), table(1)) == {"storage": SIZE}


def test_a_save_that_was_not_committed_does_not_count(home: str, node: Callable[..., Node]) -> None:
    here = node()
    one = saver(home, here.memory())
    one.save(1, {"w": table(1)})
    one.save(2, {"w": table(2)})
    [manifest] = Path(home[7:]).glob("step-0000000002-*/manifest.json")
    manifest.unlink()
    assert sources(home, here, table(1)) == {"memory": SIZE}


def test_a_copy_of_another_save_is_never_taken(home: str, node: Callable[..., Node]) -> None:
    """Even if somebody gives the memory of one save the name of another."""
    here = node()
    one = saver(home, here.memory())
    one.save(1, {"w": table(1)})
    one.save(2, {"w": table(2)})
    older, newer = sorted(copies(here), key=lambda key: key.order)
    store = here.store._copies
    store[older].memory, store[newer].memory = store[newer].memory, store[older].memory
    assert sources(home, here, table(2)) == {"storage": SIZE}


def test_damaged_memory_is_replaced_by_the_peer_s_copy(
    home: str, node: Callable[..., Node]
) -> None:
    here, there = pair(node)
    saver(home, here.memory()).save(1, {"w": table(1)})
    until(lambda: copies(there))
    damage(here)
    assert sum(sources(home, here, table(1)).values()) == SIZE
    assert set(sources(home, here, table(1))) == {"memory"}, "the damaged copy is gone"


def test_damaged_memory_on_both_nodes_is_replaced_by_the_storage(
    home: str, node: Callable[..., Node]
) -> None:
    here, there = pair(node)
    saver(home, here.memory()).save(1, {"w": table(1)})
    until(lambda: copies(there))
    damage(here)
    damage(there)
    assert "storage" in sources(home, here, table(1))
    assert not list(Path(home[7:]).glob("corrupt-*"))


def test_memory_that_is_full_is_a_note_and_the_save_is_made(
    home: str, node: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    here = node(limit=MIB)
    one = saver(home, here.memory(), background=True)
    for step in (1, 2):
        one.save(step, {"w": table(step)})
    one.close()
    noted = [record.getMessage() for record in caplog.records if "in memory" in record.message]
    assert len(noted) == 1, noted
    assert "step 1 is not kept in memory: a copy of 6 MiB does not fit into 1 MiB" in noted[0]
    assert sources(home, here, table(2)) == {"storage": SIZE}


def test_memory_that_ends_in_the_midst_of_a_save_is_a_note(
    home: str,
    node: Callable[..., Node],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    here = node()
    write = os.pwrite

    def full(fd: int, data: Any, at: int) -> int:
        if at:
            raise OSError(28, os.strerror(28))
        return write(fd, data[:1000], at)

    monkeypatch.setattr(os, "pwrite", full)
    one = saver(home, here.memory(), background=True)
    one.save(1, {"a": bytearray(10), "w": table(1)})
    one.close()
    monkeypatch.undo()
    assert "step 1 is not kept in memory: No space left on device" in caplog.text
    assert copies(here) == []
    assert set(sources(home, here, table(1))) == {"storage"}


def test_a_holder_that_is_gone_costs_the_copies_alone(
    home: str, node: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    here = node()
    here.holder.close()
    one = saver(home, here.memory())
    one.save(1, {"w": table(1)})
    assert "step 1 is not kept in memory: the holder of the copies" in caplog.text
    assert sources(home, here, table(1)) == {"storage": SIZE}


def test_a_process_that_dies_in_a_save_leaves_nothing(node: Callable[..., Node]) -> None:
    here = node()
    memory = here.memory()
    key = CopyKey("file:///x", "step-0000000001-e000001-g0000000", "shard-00000-of-00001")
    memory.call({"do": "begin", "size": MIB, **key.plain}, wants_fd=True)
    assert here.store.at(key) is not None
    assert memory._socket is not None
    memory._socket.close()
    until(lambda: here.store.at(key) is None)
    assert here.store.size == 0


def test_memory_that_is_dropped_in_the_midst_of_a_save_is_still_that_save_s_alone(
    home: str, node: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    """The upload reads it: nobody else may write there."""
    here = node()
    one = saver(home, here.memory(), background=True)
    fs, one.fs = one.fs, _Slow(one.fs)
    one.save(1, {"w": table(1)})
    until(lambda: one.fs.is_writing)
    here.store.shed(1 << 40)
    other = saver(f"{home}-other", here.memory())
    other.save(1, {"w": table(2)})
    one.fs.may_go.set()
    one.close()
    one.fs = fs
    assert "step 1 is not kept in memory: the copy has given way to another one" in caplog.text
    assert sources(home, here, table(1)) == {"storage": SIZE}


class _Slow:
    """A storage whose writers wait."""

    is_writing = False

    def __init__(self, fs: Any) -> None:
        self._fs = fs
        self.may_go = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def write_atomic(self, path: str, write: Any, **how: Any) -> Any:
        self.is_writing = True
        assert self.may_go.wait(20.0)
        return self._fs.write_atomic(path, write, **how)


def test_a_spooled_save_stays_in_memory_too(
    home: str, node: Callable[..., Node], tmp_path: Path
) -> None:
    here = node()
    one = saver(home, here.memory(), spool=Spool(tmp_path / "spool"))
    fs, one.fs = one.fs, _Away(one.fs)
    one.save(1, {"w": table(1)})
    assert one.spooled
    one.fs.is_away = False
    one.close()
    one.fs = fs
    assert sources(home, here, table(1)) == {"memory": SIZE}


class _Away:
    """A storage that takes no files until it is back."""

    is_away = True

    def __init__(self, fs: Any) -> None:
        self._fs = fs

    def __getattr__(self, name: str) -> Any:
        if self.is_away and name == "write_atomic":
            raise Unavailable("no route to the NameNode", operation=name)
        return getattr(self._fs, name)


def test_another_size_of_the_group_reads_all_shards_from_memory(
    home: str, node: Callable[..., Node]
) -> None:
    here, there = pair(node)
    rows = table(1).reshape(6, MIB)
    group = []
    for rank, at in ((0, here), (1, there)):
        one = saver(home, at.memory(), rank=rank, world_size=2, token=Token("g"), background=True)
        part = Part(rows[3 * rank : 3 * rank + 3], rows.shape, (3 * rank, 0))
        one.enter()
        one.save(1, {"w": part})
        group.append(one)
    for one in group:
        one.close()
    until(lambda: len(copies(here)) == len(copies(there)) == 2)
    alone = saver(home, here.memory(), token=Token("g", (2,)))
    found = alone.load()
    assert found is not None
    assert np.array_equal(found[1]["w"], rows)
    assert alone.read_from == {"memory": SIZE}


# ---- the wire ------------------------------------------------------------------------------------

KEY = CopyKey("file:///x", "step-0000000001-e000001-g0000000", "shard-00000-of-00001")


def connected(to: Node, pem: str = PEM, name: str = TLS_NAME) -> ssl.SSLSocket:
    return streams.connect(to.tcp, streams.contexts(pem)[1], name)


def ask(to: Node, context: ssl.SSLContext, key: CopyKey) -> bool:
    with streams.connect(to.tcp, context, TLS_NAME) as secure:
        streams.send_message(secure, {"do": "has", **WantedShard(key, 1, 1).plain})
        return streams.receive_message(secure).flag("has")


def test_a_holder_of_another_job_is_refused(
    home: str, node: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither side speaks to a stranger."""
    here = node()
    saver(home, here.memory()).save(1, {"w": table(1)})
    [key] = copies(here)
    foreign = new_credentials().decode()
    with pytest.raises(ssl.SSLError):
        connected(here, foreign)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.raises(OSError, match=r"."):
        ask(here, context, key)
    stranger = node(pem=foreign)
    stranger.holder.take_peers(here.tcp, [])
    assert sources(home, stranger, table(1)) == {"storage": SIZE}


def test_strangers_that_are_silent_keep_nobody_out(
    node: Callable[..., Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "CONNECT_S", 0.5)
    monkeypatch.setattr(memory_holder, "MAX_CONNECTIONS", 2)
    here = node()
    host, port = here.tcp.split(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(4)]
    context = streams.contexts(PEM)[1]

    def is_answered() -> bool:
        try:
            return not ask(here, context, KEY)
        except TimeoutError:
            return False

    until(is_answered)
    for one in silent:
        one.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff\xff\xff\xff",
        struct.pack(">I", 5) + b"[[[[[",
        struct.pack(">I", 2) + b"{}",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_message_ends_the_connection_alone(
    node: Callable[..., Node], sent: bytes
) -> None:
    here = node()
    with connected(here) as secure:
        secure.sendall(sent)
        secure.settimeout(5.0)
        with pytest.raises((OSError, MalformedData)):
            streams.receive_message(secure)
    assert not ask(here, streams.contexts(PEM)[1], KEY)


@pytest.mark.parametrize(
    ("frame", "payload"),
    [
        (struct.pack(">IIB", CHUNK, 2 * CHUNK, 0), b""),
        (struct.pack(">IIB", CHUNK // 2, CHUNK // 2, 0), b""),
        (struct.pack(">IIB", CHUNK, 0, 0), b""),
        (struct.pack(">IIB", CHUNK, 9, 7), b""),
        (struct.pack(">IIB", CHUNK, 9, 0), b"too short"),
        (struct.pack(">IIB", CHUNK, 9, 1), b"not zlib."),
        (None, zlib.compress(bytes(3 * CHUNK))),
        (None, zlib.compress(bytes(5))),
    ],
)
def test_hostile_frames_leave_no_copy(
    node: Callable[..., Node], frame: bytes | None, payload: bytes
) -> None:
    here = node()
    with connected(here) as secure:
        streams.send_message(secure, {"do": "put", **WantedShard(KEY, 2 * CHUNK, 1).plain})
        assert streams.receive_message(secure).flag("ok")
        secure.sendall((frame or struct.pack(">IIB", CHUNK, len(payload), 1)) + payload)
        with pytest.raises((OSError, MalformedData)):
            streams.receive_message(secure)
    until(lambda: here.store.at(KEY) is None)


def test_a_size_that_no_node_has_is_refused(node: Callable[..., Node]) -> None:
    here = node()
    with connected(here) as secure:
        streams.send_message(secure, {"do": "put", **WantedShard(KEY, 2**62, 1).plain})
        assert "does not fit" in streams.receive_message(secure).text("why")
    assert here.store.size == 0


def test_bytes_that_are_not_the_shard_leave_no_copy(node: Callable[..., Node]) -> None:
    here = node()
    fake = MemoryFile(CHUNK)
    with connected(here) as secure:
        streams.send_message(secure, {"do": "put", **WantedShard(KEY, CHUNK, 1).plain})
        assert streams.receive_message(secure).flag("ok")
        streams.send_shard(secure, fake.fd, CHUNK, is_gentle=False)
        with pytest.raises((OSError, MalformedData)):
            streams.receive_message(secure)
    until(lambda: here.store.at(KEY) is None)
    fake.close()


def test_a_sender_that_leaves_in_the_midst_leaves_no_copy(node: Callable[..., Node]) -> None:
    here = node()
    with connected(here) as secure:
        streams.send_message(secure, {"do": "put", **WantedShard(KEY, 3 * CHUNK, 1).plain})
        assert streams.receive_message(secure).flag("ok")
        secure.sendall(struct.pack(">IIB", CHUNK, CHUNK, 0) + bytes(CHUNK // 2))
        assert here.store.at(KEY) is not None
    until(lambda: here.store.at(KEY) is None)
    until(lambda: here.store.size == 0)


def test_a_peer_that_leaves_in_the_midst_is_noted_and_the_next_one_gets_the_copy(
    home: str, node: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    here, next_one = node(), node()
    with socket.create_server(("127.0.0.1", 0)) as server:
        gone = f"127.0.0.1:{server.getsockname()[1]}"
        leaver = threading.Thread(target=_leave_in_the_midst, args=(server,), daemon=True)
        leaver.start()
        here.holder.take_peers(gone, [])
        saver(home, here.memory()).save(1, {"w": table(1)})
        until(lambda: f"no copy at {gone}" in caplog.text)
        leaver.join()
    here.holder.take_peers(next_one.tcp, [])
    until(lambda: copies(next_one))
    assert sources(home, next_one, table(1)) == {"memory": SIZE}


def _leave_in_the_midst(server: socket.socket) -> None:
    connection, _ = server.accept()
    with streams.contexts(PEM)[0].wrap_socket(connection, server_side=True) as secure:
        streams.receive_message(secure)
        streams.send_message(secure, {"ok": True})
        secure.recv(1000)


def test_a_peer_without_memory_is_noted(
    home: str, node: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    here, there = node(), node(limit=MIB)
    here.holder.take_peers(there.tcp, [])
    saver(home, here.memory()).save(1, {"w": table(1)})
    until(lambda: f"no copy at {there.tcp}: a copy of 6 MiB does not fit" in caplog.text)


def test_only_what_is_sent_sooner_is_compressed() -> None:
    zeros, noise = bytes(CHUNK), os.urandom(CHUNK)
    packer = streams._Packer()
    assert packer.packed(zeros) is None, "how fast the link is, is not known yet"
    packer.sent_s_per_byte = 1e-6  # 1 MB/s
    assert len(packer.packed(zeros) or noise) < CHUNK / 100
    assert packer.packed(noise) is None
    packer.sent_s_per_byte = 1e-15
    assert packer.packed(zeros) is None


def test_compressed_frames_arrive(node: Callable[..., Node], monkeypatch: Any) -> None:
    monkeypatch.setattr(streams._Packer, "packed", lambda self, data: zlib.compress(data, 1))
    left, right = socket.socketpair()
    source, target = MemoryFile(2 * CHUNK), MemoryFile(2 * CHUNK)
    os.pwrite(source.fd, b"abc" * 1000, CHUNK - 5)
    sender = threading.Thread(
        target=streams.send_shard, args=(left, source.fd, 2 * CHUNK), kwargs={"is_gentle": True}
    )
    sender.start()
    with pytest.raises(HdfsError, match="end is not that of a shard"):
        streams.receive_shard(right, target.fd, WantedShard(KEY, 2 * CHUNK, 1))  # type: ignore[arg-type]
    sender.join()
    assert os.pread(target.fd, 3000, CHUNK - 5) == b"abc" * 1000
    for one in (left, right, source, target):
        one.close()


def test_all_of_the_memory_is_given_back_before_yarn_kills(
    home: str, node: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    here = node()
    saver(home, here.memory()).save(1, {"w": table(1)})
    assert here.store.size
    here.holder.free_bytes = lambda: -(1 << 30)  # type: ignore[method-assign]
    until(lambda: not here.store.size)
    until(lambda: "1 copies were dropped: the container uses all of its memory" in caplog.text)
    assert sources(home, here, table(1)) == {"storage": SIZE}
