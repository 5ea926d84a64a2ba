"""A file's checksum from the DataNodes themselves: COMPOSITE_CRC, whatever the site's default.

The DataNode answers from the checksums that it stored beside the block (one for each 512 bytes by
default), so nothing is read but those. It closes the connection after each answer.

The protocol is the data transfer protocol, version 28, operation BLOCK_CHECKSUM
(``datatransfer.proto``).
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hdfs_utils.errors import CorruptData, HdfsError, NotSupported, Unavailable
from hdfs_utils.protocols.namenode import Block, DataNode, LocatedFile
from hdfs_utils.protocols.protobuf import Message, delimited, message, read_varint

_VERSION = 28
_BLOCK_CHECKSUM = 85
_COMPOSITE_CRC = 2
_CRC32, CRC32C = 1, 2
# Asked before the first answer is read; each is a thread of the DataNode (of 4096 by default,
# dfs.datanode.max.transfer.threads) for the moment.
WINDOW = 32
_MAX_ANSWER = 1 << 16
"""Bytes: a checksum, or why there is none."""
COMPOSITE = "COMPOSITE-CRC32C"


@dataclass(frozen=True, slots=True)
class BlockCrc:
    """CRC32C of one block's bytes as one replica's stored checksums give it."""

    crc: int
    length: int


def of_files(
    files: Sequence[LocatedFile], timeout_s: float, *, by_host_name: bool = False
) -> Iterator[tuple[str, int]]:
    """``(path, CRC32C)`` of each file, one replica asked for each block.

    ``by_host_name``: reach the DataNodes by name (``dfs.client.use.datanode.hostname``).

    Raises:
        NotSupported: written with another checksum, erasure coded or encrypted, or still open.
        CorruptData: the NameNode knows no sound replica of a block.
        Unavailable: a DataNode does not answer, or none that has a block is alive.
    """
    from hdfs_utils.protocols.checksums import combine

    asked = [(index, block) for index, file in enumerate(files) for block in file.blocks]
    for file in files:
        if not file.is_plain:
            raise NotSupported("erasure coded or encrypted", path=file.path, operation="checksum")
        if file.is_open:
            raise NotSupported("still being written", path=file.path, operation="checksum")
    answers = of_blocks([block for _, block in asked], timeout_s, by_host_name=by_host_name)
    crcs = dict.fromkeys(range(len(files)), 0)
    for (index, block), found in zip(asked, answers, strict=True):
        if isinstance(found, HdfsError):
            found.path = files[index].path
            raise found
        crcs[index] = combine(crcs[index], found.crc, block.length)
    for index, file in enumerate(files):
        yield file.path, crcs[index]


def of_blocks(
    blocks: Sequence[Block], timeout_s: float, *, by_host_name: bool = False
) -> list[BlockCrc | HdfsError]:
    """Ask for each block, another replica where the first does not answer for it."""
    found: list[BlockCrc | HdfsError] = [_nowhere(block) for block in blocks]
    open_ = list(range(len(blocks)))
    replica = 0
    while open_:
        by_node: dict[DataNode, list[int]] = {}
        for index in open_:
            nodes = blocks[index].nodes
            if replica < len(nodes):
                by_node.setdefault(nodes[replica], []).append(index)
        if not by_node:
            break
        for node, indices in by_node.items():
            asked = [blocks[i] for i in indices]
            answers = of_replicas(node, asked, timeout_s, by_host_name=by_host_name)
            for index, answer in zip(indices, answers, strict=True):
                found[index] = answer
        open_ = [index for index in open_ if isinstance(found[index], HdfsError)]
        replica += 1
    return found


def of_replicas(
    node: DataNode, blocks: Sequence[Block], timeout_s: float, *, by_host_name: bool = False
) -> list[BlockCrc | HdfsError]:
    """The checksums that one DataNode has of its replicas of ``blocks``."""
    found: list[BlockCrc | HdfsError] = []
    host = node.host if by_host_name else node.address
    for start in range(0, len(blocks), WINDOW):
        window = blocks[start : start + WINDOW]
        with contextlib.ExitStack() as stack:
            asked: list[socket.socket | HdfsError] = []
            for block in window:
                try:
                    connection = _send_request((host, node.port), block, timeout_s)
                    stack.callback(connection.close)
                    asked.append(connection)
                except OSError as error:
                    asked.append(_unavailable(node, error))
            for block, connection_or_error in zip(window, asked, strict=True):
                if isinstance(connection_or_error, HdfsError):
                    found.append(connection_or_error)
                    continue
                try:
                    found.append(_block_crc(node, block, _read_delimited(connection_or_error)))
                except (OSError, ValueError) as error:
                    found.append(_unavailable(node, error))
    return found


def _nowhere(block: Block) -> HdfsError:
    """The error for a block for which the NameNode names no DataNode."""
    if block.is_corrupt:
        return CorruptData("no sound replica is left", operation="checksum")
    return Unavailable("no DataNode that has a replica is alive", operation="checksum")


def _unavailable(node: DataNode, error: Exception) -> HdfsError:
    text = f"DataNode {node.host} ({node.address}:{node.port}): {error}"
    failure = Unavailable(text, operation="checksum")
    failure.__cause__ = error
    return failure


def _send_request(where: tuple[str, int], block: Block, timeout_s: float) -> socket.socket:
    connection = socket.create_connection(where, timeout=timeout_s)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(_request(block))
    except OSError:
        connection.close()
        raise
    return connection


def _request(block: Block) -> bytes:
    options = message((1, _COMPOSITE_CRC))
    token = ((2, block.token),) if block.token else ()
    header = message((1, block.identity), *token)
    request = message((1, header), (2, options))
    return struct.pack(">HB", _VERSION, _BLOCK_CHECKSUM) + delimited(request)


def _block_crc(node: DataNode, block: Block, answer: bytes) -> BlockCrc | HdfsError:
    response = Message(answer)
    if response.number(1):
        text = response.text(5) or f"status {response.number(1)}"
        where = f"DataNode {node.host}: {text.splitlines()[0]}"
        return CorruptData(where, operation="checksum")
    checksum = response.sub(3)
    if checksum.number(4) != CRC32C or len(checksum.raw(3)) != 4:
        return NotSupported("its blocks have no CRC32C", operation="checksum")
    return BlockCrc(int.from_bytes(checksum.raw(3), "big"), block.length)


def _read_delimited(connection: socket.socket) -> bytes:
    data = bytearray()
    while True:
        with contextlib.suppress(ValueError):
            size, start = read_varint(data, 0)
            if len(data) >= start + size:
                return bytes(data[start : start + size])
        if len(data) > _MAX_ANSWER:
            raise ValueError(f"an answer of more than {_MAX_ANSWER} bytes")
        piece = connection.recv(4096)
        if not piece:
            raise ValueError("the connection was closed")
        data += piece
