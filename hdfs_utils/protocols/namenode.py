"""Questions to the NameNode over its own RPC protocol, for what the native client does not ask.

Block locations with racks, listings with the blocks of every file in one answer, concat. Simple
authentication only: where the site has Kerberos or wire encryption, :func:`usable` says no and
the same questions go over HTTP.

The protocol is Hadoop's RPC version 9 (``hrpc``, hadoop-common ``RpcHeader.proto``); the questions
are those of ``ClientNamenodeProtocol.proto``.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hdfs_utils.concurrency.retry import retry_over_failover
from hdfs_utils.errors import CorruptData, HdfsError, NotFound, Unavailable
from hdfs_utils.filesystem import FileStatus, FreeSpace
from hdfs_utils.protocols.java_errors import from_java
from hdfs_utils.protocols.protobuf import Message, delimited, message, read_varint, zigzag

PROTOCOL = "org.apache.hadoop.hdfs.protocol.ClientProtocol"
_PREAMBLE = b"hrpc\x09\x00\x00"  # version 9, service class 0, no SASL
_PROTOBUF_KIND = 2
_CONTEXT_CALL = -3
_IS_DIR = 1
_MAX_ANSWER = 128 << 20  # Hadoop's ipc.maximum.response.length


@dataclass(frozen=True, slots=True)
class DataNode:
    """A DataNode that holds a replica.

    Attributes:
        host: the name that it gives itself.
        address: its IP address as the NameNode sees it.
        port: of data transfer, at both.
        rack: its network location.
    """

    host: str
    address: str
    port: int
    rack: str


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a file.

    Attributes:
        offset: in the file, bytes.
        length: bytes.
        nodes: that hold a replica, the nearest first.
        is_corrupt: no sound replica is known.
        identity: the block as the DataNode is asked for it (``ExtendedBlockProto``).
        token: that allows to read it (``TokenProto``); empty without security.
    """

    offset: int
    length: int
    nodes: tuple[DataNode, ...]
    is_corrupt: bool
    identity: bytes = field(repr=False)
    token: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class LocatedFile:
    """A file with its blocks; ``is_open`` while a writer has it."""

    path: str
    length: int
    blocks: tuple[Block, ...]
    is_open: bool = False
    is_plain: bool = True  # neither erasure coded nor encrypted


def is_rpc_allowed(properties: Mapping[str, str]) -> bool:
    """Whether the site accepts RPC without Kerberos and wire encryption."""
    if properties.get("hadoop.security.authentication", "simple").strip().lower() != "simple":
        return False
    if properties.get("dfs.encrypt.data.transfer", "false").strip().lower() == "true":
        return False
    return not properties.get("dfs.data.transfer.protection", "").strip()


def reaches_by_host_name(properties: Mapping[str, str]) -> bool:
    """Whether clients of the site reach DataNodes by their names, not by the addresses that the
    NameNode sees."""
    return properties.get("dfs.client.use.datanode.hostname", "").strip().lower() == "true"


class NameNodeRpc:
    """Asks the first NameNode that is active. Safe to share between threads.

    Args:
        addresses: ``(host, port)`` of the NameNodes.
        user: the caller, and whom it acts for (empty: itself).
        timeout_s: limit of each wait for the network, in seconds.
    """

    def __init__(
        self, addresses: tuple[tuple[str, int], ...], user: tuple[str, str], timeout_s: float
    ) -> None:
        self._addresses = addresses
        self._user = user
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._idle: list[_Connection] = []

    def blocks(self, path: str) -> LocatedFile:
        request = message((1, path), (2, 0), (3, (1 << 63) - 1))
        reply = self._ask("getBlockLocations", path, request)
        with _understood(path, "block locations"):
            answer = Message(reply)
            if 1 not in answer:
                raise NotFound("no such file", path=path, operation="block locations")
            return _located(path, answer.sub(1))

    def list_located(self, directory: str) -> Iterator[LocatedFile]:
        """The files (not the directories) of a directory by name, each with its blocks."""
        for path, entry in self._listing(directory, with_blocks=True):
            with _understood(directory, "list"):
                is_file = entry.number(1) != _IS_DIR
                found = _located(path, entry.sub(12), entry.number(3)) if is_file else None
            if found is not None:
                yield found

    def entries(self, directory: str) -> list[FileStatus]:
        """The entries of a directory by name; for a file, the file."""
        with _understood(directory, "list"):
            listing = self._listing(directory, with_blocks=False)
            return [_status(path, entry) for path, entry in listing]

    def _listing(self, directory: str, *, with_blocks: bool) -> Iterator[tuple[str, Message]]:
        after = b""
        while True:
            request = message((1, directory), (2, after), (3, int(with_blocks)))
            reply = self._ask("getListing", directory, request)
            with _understood(directory, "list"):
                answer = Message(reply)
                if 1 not in answer:
                    raise NotFound("no such directory", path=directory, operation="list")
                listing = answer.sub(1)
                entries = [Message(raw) for raw in listing.all(1)]
                names = [_name(entry) for entry in entries]
                is_whole = not listing.number(2)
                # The NameNode sorts by bytes. Else one that repeats itself would be asked for ever.
                if not is_whole and (not names or names[-1].encode() <= after):
                    raise ValueError("more is to come, and nothing new comes")
            for name, entry in zip(names, entries, strict=True):
                yield f"{directory.rstrip('/')}/{name}" if name else directory, entry
            if is_whole:
                return
            after = names[-1].encode()

    def stat(self, path: str) -> FileStatus:
        reply = self._ask("getFileInfo", path, message((1, path)))
        with _understood(path, "stat"):
            answer = Message(reply)
            if 1 not in answer:
                raise NotFound("no such file or directory", path=path, operation="stat")
            return _status(path, answer.sub(1))

    def concat(self, target: str, sources: list[str]) -> None:
        self._call("concat", target, message((1, target), *((2, s) for s in sources)))

    def rename(self, src: str, dst: str, overwrite: bool) -> None:
        """Rename atomically, over an older file if asked to."""
        self._call("rename2", src, message((1, src), (2, dst), (3, int(overwrite))))

    def set_times(self, path: str, mtime_ms: int, atime_ms: int) -> None:
        self._ask("setTimes", path, message((1, path), (2, mtime_ms), (3, atime_ms)))

    def chmod(self, path: str, permission: int) -> None:
        request = message((1, path), (2, message((1, permission))))
        self._ask("setPermission", path, request)

    def mkdirs(self, path: str, permission: int) -> None:
        request = message((1, path), (2, message((1, permission))), (3, 1))
        self._ask("mkdirs", path, request)

    def free_space(self) -> FreeSpace:
        reply = self._ask("getFsStats", "/", b"")
        with _understood("/", "free space"):
            answer = Message(reply)
            return FreeSpace(answer.number(1), answer.number(2), answer.number(3))

    def _ask(self, method: str, path: str, request: bytes) -> bytes:
        """Make a call that is harmless to repeat, over a failover as well."""
        if len(self._addresses) == 1:
            return self._call(method, path, request)
        return retry_over_failover(lambda: self._call(method, path, request), self._timeout_s)

    def _call(self, method: str, path: str, request: bytes) -> bytes:
        failure: HdfsError = Unavailable("no NameNode to ask", path=path, operation=method)
        for address in self._addresses:
            for attempt in (1, 2):
                connection, is_fresh = self._take(address, attempt)
                if connection is None:
                    text = f"no connection to {address[0]}:{address[1]}"
                    failure = Unavailable(text, path=path, operation=method)
                    break
                try:
                    answer = connection.call(method, request)
                except (OSError, ValueError) as error:
                    connection.close()
                    text = f"no answer from {address[0]}:{address[1]}: {error}"
                    failure = Unavailable(text, path=path, operation=method)
                    failure.__cause__ = error
                    if is_fresh:
                        break
                    continue  # an idle connection that the NameNode had closed
                except _Remote as error:
                    self._give(connection)
                    failure = from_java(error.java_class, error.text, method, path)
                    if isinstance(failure, Unavailable):
                        break  # a standby one
                    raise failure from None
                self._give(connection)
                return answer
        raise failure

    def _take(self, address: tuple[str, int], attempt: int) -> tuple[_Connection | None, bool]:
        with self._lock:
            for index, idle in enumerate(self._idle):
                if idle.address == address and attempt == 1:
                    return self._idle.pop(index), False
        with contextlib.suppress(OSError):
            return _Connection(address, self._user, self._timeout_s), True
        return None, True

    def _give(self, connection: _Connection) -> None:
        with self._lock:
            self._idle.append(connection)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


class _Remote(Exception):
    def __init__(self, java_class: str, text: str) -> None:
        super().__init__(text)
        self.java_class = java_class
        self.text = text


class _Connection:
    def __init__(self, address: tuple[str, int], user: tuple[str, str], timeout_s: float) -> None:
        self.address = address
        self._client_id = os.urandom(16)
        self._number = 0
        self._socket = socket.create_connection(address, timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._input = self._socket.makefile("rb", 1 << 16)
        real, effective = user
        who = message((1, effective), (2, real)) if effective else message((1, real))
        context = message((2, who), (3, PROTOCOL))
        frame = delimited(self._header(_CONTEXT_CALL)) + delimited(context)
        self._socket.sendall(_PREAMBLE + struct.pack(">I", len(frame)) + frame)

    def _header(self, call: int) -> bytes:
        return message((1, _PROTOBUF_KIND), (2, 0), (3, zigzag(call)), (4, self._client_id))

    def call(self, method: str, request: bytes) -> bytes:
        self._number += 1
        which = message((1, method), (2, PROTOCOL), (3, 1))
        frame = delimited(self._header(self._number)) + delimited(which) + delimited(request)
        self._socket.sendall(struct.pack(">I", len(frame)) + frame)
        (size,) = struct.unpack(">I", self._exactly(4))
        if size > _MAX_ANSWER:
            raise ValueError(f"an answer of {size} bytes")
        return _payload(self._exactly(size))

    def _exactly(self, size: int) -> bytes:
        data: bytes = self._input.read(size)
        if len(data) != size:
            raise ValueError("the connection was closed")
        return data

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._input.close()
            self._socket.close()


@contextlib.contextmanager
def _understood(path: str, operation: str) -> Iterator[None]:
    """A NameNode whose answer makes no sense is as one that does not answer: it says nothing of
    the file."""
    try:
        yield
    except ValueError as error:
        text = f"the NameNode's answer makes no sense: {error}"
        raise Unavailable(text, path=path, operation=operation) from error


def _payload(answer: bytes) -> bytes:
    """The message behind an answer's header. Raises ValueError, _Remote."""
    length, position = read_varint(answer, 0)
    header = Message(answer[position : position + length])
    position += length
    if header.number(2):
        raise _Remote(header.text(4), header.text(5))
    length, position = read_varint(answer, position)
    return answer[position : position + length]


def _name(entry: Message) -> str:
    """The name of an entry of a listing; empty for the listed file itself. Raises ValueError."""
    name = entry.raw(2).decode()
    if "/" in name or name in {".", ".."}:
        raise ValueError("an entry's name leads elsewhere")
    return name


def _located(path: str, located: Message, length: int | None = None) -> LocatedFile:
    blocks = tuple(_block(raw) for raw in located.all(2))
    total = located.number(1) if length is None else length
    is_open = bool(located.number(3))
    # The length of an open file leaves out the block that is being written; its blocks do not.
    if not is_open and sum(block.length for block in blocks) != located.number(1):
        raise CorruptData("the blocks do not cover it", path=path, operation="block locations")
    is_plain = 6 not in located and 7 not in located
    return LocatedFile(path, total, blocks, is_open, is_plain)


def _status(path: str, entry: Message) -> FileStatus:
    """``HdfsFileStatusProto`` of hdfs.proto."""
    return FileStatus(
        path=path,
        length=entry.number(3),
        is_dir=entry.number(1) == _IS_DIR,
        mtime_ms=entry.number(7),
        owner=entry.text(5),
        group=entry.text(6),
        permission=entry.sub(4).number(1),
        replication=entry.number(10),
        block_size=entry.number(11),
    )


def _block(raw: bytes) -> Block:
    located = Message(raw)
    nodes = []
    for info in located.all(3):
        whole = Message(info)
        node = whole.sub(1)
        nodes.append(DataNode(node.text(2), node.text(1), node.number(4), whole.text(8)))
    identity = located.raw(1)
    return Block(
        offset=located.number(2),
        length=Message(identity).number(4),
        nodes=tuple(nodes),
        is_corrupt=bool(located.number(4)),
        identity=identity,
        token=located.raw(5),
    )
