"""Copies on their way between two holders, over the mutual TLS of their job.

A message is its length in 4 bytes and JSON; a shard is frames of at most ``CHUNK`` bytes, each with
its length, its length on the wire, and whether it is compressed.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from hdfs_utils.checkpoints.format.manifest import CHUNK
from hdfs_utils.checkpoints.format.shard_file import footer_of
from hdfs_utils.checkpoints.memory.copy_messages import (
    MAX_MESSAGE,
    CopyKey,
    WantedShard,
    decode,
    encode,
)
from hdfs_utils.checkpoints.memory.shared_memory import RangeReader, write_all
from hdfs_utils.errors import CorruptData, MalformedData
from hdfs_utils.protocols.checksums import crc32c
from hdfs_utils.protocols.untrusted import Record, decompress

CONNECT_S = 3.0
"""For a connection, and again for its handshake."""
IDLE_S = 20.0
"""Between two pieces of a transfer."""

_LENGTH = struct.Struct(">I")
_FRAME = struct.Struct(">IIB")
_SAMPLE = 64 << 10


def contexts(pem: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For the server and for the client. ``pem``: the job's certificate and its key."""
    made = []
    fd = os.memfd_create("credentials", os.MFD_CLOEXEC)
    try:
        os.write(fd, pem.encode())
        path = f"/proc/self/fd/{fd}"
        for side in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT):
            context = ssl.SSLContext(side)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.load_cert_chain(path)
            context.load_verify_locations(cadata=pem[: pem.index("-----BEGIN PRIVATE KEY-----")])
            context.verify_mode = ssl.CERT_REQUIRED
            made.append(context)
    finally:
        os.close(fd)
    server, client = made
    return server, client


def connect(address: str, client: ssl.SSLContext, name: str) -> ssl.SSLSocket:
    """``name``: in the certificate, which is checked instead of the host's. Raises OSError."""
    host, _, port = address.rpartition(":")
    plain = socket.create_connection((host.strip("[]"), int(port)), CONNECT_S)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        secure = client.wrap_socket(plain, server_hostname=name)
    except BaseException:
        plain.close()
        raise
    secure.settimeout(IDLE_S)
    return secure


def send_message(connection: ssl.SSLSocket, message: Mapping[str, Any]) -> None:
    data = encode(message)
    connection.sendall(_LENGTH.pack(len(data)) + data)


def receive_message(connection: ssl.SSLSocket) -> Record:
    """Raises OSError, MalformedData."""
    (length,) = _LENGTH.unpack(_received(connection, _LENGTH.size))
    if length > MAX_MESSAGE:
        raise MalformedData(f"a message of {length} bytes; at most {MAX_MESSAGE} are read")
    return decode(_received(connection, length))


def _received(connection: ssl.SSLSocket, size: int) -> bytes:
    data = bytearray(size)
    _receive_into(connection, memoryview(data))
    return bytes(data)


def _receive_into(connection: ssl.SSLSocket, target: memoryview) -> None:
    while target:
        count = connection.recv_into(target)
        if not count:
            raise ConnectionResetError("the other side has closed the connection")
        target = target[count:]


class _Packer:
    """Compresses what is sent sooner for it, by how long the frames before took."""

    def __init__(self) -> None:
        self.sent_s_per_byte = 0.0

    def packed(self, data: memoryview) -> bytes | None:
        if len(data) < CHUNK or not self.sent_s_per_byte:
            return None
        middle = len(data) // 2
        sample = data[middle : middle + _SAMPLE]
        began_s = time.perf_counter()
        share = len(zlib.compress(sample, 1)) / len(sample)
        cost_s = (time.perf_counter() - began_s) / len(sample)
        if cost_s > self.sent_s_per_byte * (1.0 - share):
            return None
        made = zlib.compress(data, 1)
        return made if len(made) < len(data) else None


def send_shard(
    connection: ssl.SSLSocket,
    fd: int,
    length: int,
    *,
    is_gentle: bool,
    is_wanted: Callable[[], bool] = lambda: True,
) -> int:
    """Send a shard; ``is_gentle``: for at most half of the time. Returns the bytes on the wire.

    Raises:
        OSError: the other side has gone.
        InterruptedError: it is not wanted any more.
    """
    packer, total = _Packer(), 0
    # Used again for each frame: fresh memory costs more than the copy.
    buffer = memoryview(bytearray(min(CHUNK, length)))
    for at in range(0, length, CHUNK):
        if not is_wanted():
            raise InterruptedError("it is not wanted any more")
        data = buffer[: min(CHUNK, length - at)]
        if os.preadv(fd, [data], at) < len(data):
            raise OSError("the copy is shorter than it should be")
        packed = packer.packed(data)
        payload = data if packed is None else memoryview(packed)
        began_s = time.perf_counter()
        connection.sendall(_FRAME.pack(len(data), len(payload), packed is not None))
        connection.sendall(payload)
        took_s = time.perf_counter() - began_s
        packer.sent_s_per_byte = took_s / len(payload)
        total += len(payload)
        if is_gentle:
            time.sleep(took_s)
    return total


def receive_shard(connection: ssl.SSLSocket, fd: int, wanted: WantedShard) -> None:
    """Write a shard into an open file, and compare it with the checksums in its footer.

    Raises:
        OSError: the other side has gone, or its memory is full.
        MalformedData: something else than frames of this shard.
        CorruptData: not the shard that is wanted.
    """
    chunks: list[int] = []
    buffer = memoryview(bytearray(min(CHUNK, wanted.length)))
    for at in range(0, wanted.length, CHUNK):
        size, on_wire, is_packed = _FRAME.unpack(_received(connection, _FRAME.size))
        expected = min(CHUNK, wanted.length - at)
        if size != expected or not 0 < on_wire <= size or is_packed > 1:
            raise MalformedData(f"a frame of {size} bytes ({on_wire} sent), not of {expected}")
        data = buffer[:on_wire]
        _receive_into(connection, data)
        if is_packed:
            data = memoryview(decompress(bytes(data), max_bytes=size))
        if len(data) != size:
            raise MalformedData(f"a frame unpacks to {len(data)} bytes, not to {size}")
        chunks.append(crc32c(bytes(data)))
        write_all(fd, data, at)
    check_shard(fd, wanted, chunks)


def check_shard(fd: int, wanted: WantedShard, chunks: list[int]) -> None:
    """Whether it is the wanted shard. ``chunks``: checksums of its chunks, as they came.

    Raises:
        CorruptData: it is not.
    """
    found = footer_of(RangeReader(fd, wanted.length), f"/{wanted.key.file}").shard
    full = found.data_length // CHUNK
    rest = os.pread(fd, found.data_length - full * CHUNK, full * CHUNK)
    mine = (*chunks[:full], *((crc32c(rest),) if rest else ()))
    if mine != found.chunks or found.crc32c != wanted.crc32c:
        raise CorruptData("not the bytes that were saved", path=wanted.key.file, operation="copy")


def checksum_of(fd: int, key: CopyKey, length: int) -> int:
    """The checksum of a whole shard, by its footer. Raises CorruptData."""
    return footer_of(RangeReader(fd, length), f"/{key.file}").shard.crc32c
