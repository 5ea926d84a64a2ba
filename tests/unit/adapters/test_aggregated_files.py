"""The logs that NodeManagers put together, as ``TFile.Writer`` lays them down."""

from __future__ import annotations

import struct
import zlib

import pytest

from hdfs_utils.errors import MalformedData
from tests.fakes.files import MemoryFiles
from yarnam.adapters.hdfs.aggregated_files import log_directory, logs_in

APPLICATION = "application_1700000000000_10042"
LOGS = {
    "container_1_1_01_000001": {"application.driver.log": b"am\n", "empty": b""},
    "container_1_1_01_000002": {"worker-0.0.log": b"x" * 70_000 + b"\nend\n"},
}


def number(value: int) -> bytes:
    """``Utils.writeVLong`` for up to 31 bits."""
    if -32 <= value < 128:
        return struct.pack("b", value)
    for more, shift, reach in ((1, 52, 20), (2, 88, 16), (3, 112, 8)):
        head = value >> 8 * more
        if -reach <= head < reach:
            rest = value & ((1 << 8 * more) - 1)
            return struct.pack("b", head - shift) + rest.to_bytes(more, "big")
    return struct.pack(">bi", 4 - 129, value)


def text(value: str) -> bytes:
    return number(len(value)) + value.encode()


def java(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()


def record(key: str, value: bytes, chunk: int = 4096) -> bytes:
    name = java(key)
    pieces = [value[at : at + chunk] for at in range(0, len(value), chunk)]
    chunks = b"".join(number(-len(piece)) + piece for piece in pieces)
    return number(len(name)) + name + chunks + number(0)


def tfile(codec: str, *, tail: bytes | None = None) -> bytes:
    pack = zlib.compress if codec == "gz" else bytes
    block = record("VERSION", b"\0\0\0\1")
    for container, logs in LOGS.items():
        value = b"".join(java(n) + java(str(len(data))) + data for n, data in logs.items())
        block += record(container, value)
    stored = pack(block)
    index = text(codec) + number(1) + number(0) + number(len(stored)) + number(len(block))
    kept = pack(index)
    meta = number(1) + text("data:BCFile.index") + text(codec)
    meta += number(len(stored)) + number(len(kept)) + number(len(index))
    end = struct.pack(">qhh", len(stored) + len(kept), 1, 0)
    end += bytes.fromhex("d111d36891b5d7b639df414092bae150") if tail is None else tail
    return stored + kept + meta + end


@pytest.mark.parametrize("codec", ["none", "gz"])
@pytest.mark.parametrize(
    "below", ["logs", "logs-tfile", "bucket-logs-tfile/0042"], ids=["2.x", "3.1", "3.3"]
)
def test_every_log_with_its_container(codec: str, below: str) -> None:
    files = MemoryFiles()
    place = f"/app-logs/alice/{below}/{APPLICATION}"
    files.mkdirs(place)
    files.write_bytes(f"{place}/n1_8041", tfile(codec))
    files.write_bytes(f"{place}/n2_8041.tmp", b"being written")
    settings = {"yarn.nodemanager.remote-app-log-dir": "/app-logs"}
    assert log_directory(files, settings, "alice", APPLICATION) == place
    found = {(container, name): data for container, name, data in logs_in(files, place)}
    assert found == {(c, name): data for c, logs in LOGS.items() for name, data in logs.items()}


def test_no_directory() -> None:
    files = MemoryFiles()
    assert log_directory(files, {}, "alice", APPLICATION) is None
    files.mkdirs("/tmp/logs/alice/logs")
    assert log_directory(files, {}, "alice", APPLICATION) is None


def test_what_is_no_such_file_is_named() -> None:
    whole = tfile("none")
    broken = {
        "short": b"x",
        "other": tfile("none", tail=b"y" * 16),
        "cut": whole[:100] + whole[200:],
        "lzo": tfile("lzo"),
        "far": whole[:-28] + struct.pack(">q", 1 << 60) + whole[-20:],
    }
    for name, content in broken.items():
        files = MemoryFiles()
        files.mkdirs("/logs")
        files.write_bytes("/logs/n1_8041", content)
        with pytest.raises(MalformedData) as caught:
            list(logs_in(files, "/logs"))
        assert "/logs/n1_8041" in str(caught.value), name


def test_no_bytes_break_it() -> None:
    """Whatever one byte is: the logs, or MalformedData."""
    whole = tfile("gz")
    for at in range(0, len(whole), 7):
        files = MemoryFiles()
        files.mkdirs("/logs")
        files.write_bytes("/logs/n1", whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            list(logs_in(files, "/logs"))
        except MalformedData:
            continue
