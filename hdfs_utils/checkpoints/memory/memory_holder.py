"""Holds the copies of one container::

    python -m hdfs_utils.checkpoints.memory.memory_holder

Its parent writes lines of JSON to its stdin: first :class:`HolderSettings`, later who its peers
are. Processes of the container ask it over a Unix socket, other holders over mutual TLS. It ends
with its stdin, and all copies with it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any

from hdfs_utils.checkpoints.memory import copy_streams as streams
from hdfs_utils.checkpoints.memory.copy_messages import (
    MAX_MESSAGE,
    WantedShard,
    decode,
    encode,
    key_of,
    size_of,
    wanted_of,
)
from hdfs_utils.checkpoints.memory.copy_store import CopyStore, MemoryCopy, NoSpace, mib
from hdfs_utils.checkpoints.memory.shared_memory import resident_bytes
from hdfs_utils.errors import HdfsError, MalformedData
from hdfs_utils.protocols.untrusted import Record, shown

log = logging.getLogger("hdfs_utils.checkpoints")

SPARED_SHARE = 0.05
"""The part of the container's memory that stays free: YARN must not kill the container."""

WATCH_S = 2.0
"""Between two looks at the container's memory; YARN looks every 3 s."""

SEARCH_S = 4.0
"""For the other holders to say whether they have a copy."""

MAX_SEARCHED = 256
"""Holders that are asked for a copy: its node's own peer comes first."""

MAX_CONNECTIONS = 64
"""Connections of other holders that are served at a time; more wait."""

_CREDENTIALS = struct.Struct("3i")
_TROUBLE = (OSError, ValueError, HdfsError, NoSpace)


@dataclass(frozen=True, slots=True)
class HolderSettings:
    """The first line.

    Attributes:
        unix_fd: a listening Unix socket (SOCK_SEQPACKET), for the container's processes.
        tcp_fd: a listening TCP socket, for other holders.
        pem: the job's certificate and key.
        tls_name: the name in it.
        container_bytes: the container's memory.
        limit_bytes: for all copies.
        root_pid: the process from which all of the container descend.
    """

    unix_fd: int
    tcp_fd: int
    pem: str
    tls_name: str
    container_bytes: int
    limit_bytes: int
    root_pid: int


class MemoryHolder:
    """The copies, and the threads that serve them."""

    def __init__(self, settings: HolderSettings, store: CopyStore | None = None) -> None:
        self._settings = settings
        self.store = store or CopyStore(settings.limit_bytes, self.free_bytes)
        self._server_tls, self._client_tls = streams.contexts(settings.pem)
        self._peer = ""
        self._others: tuple[str, ...] = ()
        self._wake = threading.Condition()
        self._pending: list[MemoryCopy] = []
        self._fetching: dict[WantedShard, threading.Lock] = {}
        self._lock = threading.Lock()
        self._urgent = 0
        """Restores that read from here now."""
        self._noted = ""
        self._servers: list[socket.socket] = []
        self._is_closed = threading.Event()

    def free_bytes(self) -> int:
        """How much more memory the container may use."""
        most = int(self._settings.container_bytes * (1.0 - SPARED_SHARE))
        return most - resident_bytes(self._settings.root_pid)

    def start(self) -> None:
        settings = self._settings
        local, remote = (socket.socket(fileno=fd) for fd in (settings.unix_fd, settings.tcp_fd))
        self._servers += [local, remote]
        _start(self._accept, local, self._serve_process)
        _start(self._accept, remote, self._serve_holder, threading.Semaphore(MAX_CONNECTIONS))
        _start(self._send_copies)
        _start(self._watch)

    def close(self) -> None:
        """Serve nobody any more."""
        self._is_closed.set()
        for server in self._servers:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            server.close()
        with self._wake:
            self._wake.notify_all()

    def take_peers(self, peer: str, others: Iterable[str]) -> None:
        """Where to send copies (host:port; empty for nowhere), and whom to ask for them."""
        with self._wake:
            self._peer, self._others = peer, tuple(others)
            self._pending = self.store.unsent(peer) if peer else []
            self._wake.notify_all()

    # ---- processes of this container -----------------------------------------------------

    def _accept(
        self,
        server: socket.socket,
        serve: Callable[[socket.socket], None],
        slots: threading.Semaphore | None = None,
    ) -> None:
        while not self._is_closed.is_set():
            if slots is not None:
                slots.acquire()  # strangers can connect, too
            try:
                connection, _ = server.accept()
            except OSError as error:
                if self._is_closed.is_set():
                    return
                log.warning("copies in memory: cannot accept a connection: %s", error)
                time.sleep(1.0)
                if slots is not None:
                    slots.release()
                continue
            _start(self._served, connection, serve, slots)

    def _served(
        self,
        connection: socket.socket,
        serve: Callable[[socket.socket], None],
        slots: threading.Semaphore | None,
    ) -> None:
        try:
            with connection:
                serve(connection)
        except _TROUBLE as error:
            log.info("copies in memory: a connection ends: %s", error)
        finally:
            if slots is not None:
                slots.release()

    def _serve_process(self, connection: socket.socket) -> None:
        given = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(given)[1] != os.getuid():
            log.warning("copies in memory: a process of another user is refused")
            return
        open_copies: list[MemoryCopy] = []
        try:
            while data := connection.recv(MAX_MESSAGE + 1):
                fd, answer = -1, dict[str, Any]()
                try:
                    fd, answer = self._reply_to(decode(data), open_copies)
                except _TROUBLE as error:
                    answer = {"why": str(error)}
                try:
                    socket.send_fds(connection, [encode(answer)], [fd] if fd >= 0 else [])
                finally:
                    if fd >= 0:
                        os.close(fd)
        finally:
            # The process has died: a shard that it has begun is of no use.
            for copy in open_copies:
                self.store.drop(copy)

    def _reply_to(self, message: Record, begun: list[MemoryCopy]) -> tuple[int, dict[str, Any]]:
        """A descriptor to pass on and to close, or -1; and the answer."""
        match message.text("do"):
            case "begin":
                copy = self.store.begin(key_of(message), size_of(message, "size"))
                begun[:] = [*(one for one in begun if not one.is_dropped), copy]
                with self.store.reading(copy):
                    # Its own: the memory may be dropped, and the number be another file's.
                    return os.dup(copy.memory.fd), {"ok": True}
            case "seal":
                key = key_of(message)
                mine = next((one for one in begun if one.key == key), None)
                if mine is None:
                    raise MalformedData("the copy was not begun, or has given way to another")
                begun.remove(mine)
                self._seal(mine)
                return -1, {"ok": True}
            case "abandon":
                for one in [one for one in begun if one.key == key_of(message)]:
                    begun.remove(one)
                    self.store.drop(one)
                return -1, {"ok": True}
            case "find":
                return self._find(wanted_of(message))
            case "reject":
                rejected = self.store.at(key_of(message))
                if rejected is not None:
                    log.warning("%s: the copy in memory is damaged", rejected.key.name)
                    self.store.drop(rejected)
                return -1, {"ok": True}
            case other:
                raise MalformedData(f"an unknown request: {shown(other)}")

    def _seal(self, copy: MemoryCopy) -> None:
        with self.store.reading(copy):
            crc = streams.checksum_of(copy.memory.fd, copy.key, copy.length)
            self.store.seal(copy, crc)
        with self._wake:
            if self._peer:
                file = (copy.key.root, copy.key.file)
                left = [c for c in self._pending if (c.key.root, c.key.file) != file]
                self._pending = [*left, copy]
                self._wake.notify_all()
        _start(self._count, copy)

    def _count(self, copy: MemoryCopy) -> None:
        with contextlib.suppress(OSError, NoSpace):
            with self.store.reading(copy):
                copy.memory.count()
            self.store.prepare(copy)

    def _find(self, wanted: WantedShard) -> tuple[int, dict[str, Any]]:
        copy = self.store.find(wanted)
        source = "memory"
        if copy is None:
            with self._lock:
                lock = self._fetching.setdefault(wanted, threading.Lock())
            with lock:
                copy = self.store.find(wanted)
                if copy is None:
                    source, copy = "peer", self._fetch(wanted)
            with self._lock:
                self._fetching.pop(wanted, None)
        if copy is None:
            raise NoSpace("no copy in memory")
        with self.store.reading(copy):
            # Opened anew: a reader cannot change it, and closes its own.
            fd = os.open(f"/proc/self/fd/{copy.memory.fd}", os.O_RDONLY | os.O_CLOEXEC)
        return fd, {"ok": True, "from": source}

    # ---- other holders -------------------------------------------------------------------

    def _serve_holder(self, connection: socket.socket) -> None:
        connection.settimeout(streams.CONNECT_S)
        with self._server_tls.wrap_socket(connection, server_side=True) as secure:
            secure.settimeout(streams.IDLE_S)
            message = streams.receive_message(secure)
            wanted = wanted_of(message)
            match message.text("do"):
                case "has":
                    streams.send_message(secure, {"has": self.store.find(wanted) is not None})
                case "get":
                    self._serve_copy(secure, wanted)
                case "put":
                    self._take_copy(secure, wanted)
                case other:
                    raise MalformedData(f"an unknown request: {shown(other)}")

    def _serve_copy(self, secure: ssl.SSLSocket, wanted: WantedShard) -> None:
        copy = self.store.find(wanted)
        if copy is None:
            streams.send_message(secure, {"why": "no copy in memory"})
            return
        with self.store.reading(copy), self._first_of_all():
            streams.send_message(secure, {"ok": True})
            streams.send_shard(secure, copy.memory.fd, copy.length, is_gentle=False)

    @contextlib.contextmanager
    def _first_of_all(self) -> Iterator[None]:
        """A restore waits for this: copies to the peer pause."""
        with self._wake:
            self._urgent += 1
        try:
            yield
        finally:
            with self._wake:
                self._urgent -= 1
                self._wake.notify_all()

    def _take_copy(self, secure: ssl.SSLSocket, wanted: WantedShard) -> None:
        if self.store.find(wanted) is not None:
            streams.send_message(secure, {"has": True})
            return
        try:
            copy = self.store.begin(wanted.key, wanted.length, is_of_peer=True)
        except NoSpace as error:
            streams.send_message(secure, {"why": str(error)})
            return
        streams.send_message(secure, {"ok": True})
        self._receive(secure, copy, wanted)
        streams.send_message(secure, {"ok": True})

    def _receive(self, secure: ssl.SSLSocket, copy: MemoryCopy, wanted: WantedShard) -> None:
        try:
            with self.store.reading(copy):
                streams.receive_shard(secure, copy.memory.fd, wanted)
                self.store.seal(copy, wanted.crc32c)
                copy.memory.count()
        except BaseException:
            # Half of a copy: its sender has gone, or was not who it should be.
            self.store.drop(copy)
            raise

    def _fetch(self, wanted: WantedShard) -> MemoryCopy | None:
        known = dict.fromkeys((self._peer, *self._others))
        addresses = [address for address in known if address][:MAX_SEARCHED]
        if not addresses:
            return None
        for address in self._owners(addresses, wanted):
            try:
                return self._fetched(address, wanted)
            except _TROUBLE as error:
                log.warning("%s is not copied from %s: %s", wanted.key.name, address, error)
        return None

    def _owners(self, addresses: list[str], wanted: WantedShard) -> Iterator[str]:
        """Those that have it, as they answer."""

        def has(address: str) -> bool:
            with streams.connect(address, self._client_tls, self._settings.tls_name) as secure:
                secure.settimeout(SEARCH_S)
                streams.send_message(secure, {"do": "has", **wanted.plain})
                return streams.receive_message(secure).flag("has")

        pool = ThreadPoolExecutor(16)
        asked = {pool.submit(has, address): address for address in addresses}
        try:
            for future in as_completed(asked, SEARCH_S):
                if future.exception() is None and future.result():
                    yield asked[future]
        except FutureTimeout:
            log.warning("%s: some holders did not answer in %.0f s", wanted.key.name, SEARCH_S)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _fetched(self, address: str, wanted: WantedShard) -> MemoryCopy:
        began_s = time.monotonic()
        with streams.connect(address, self._client_tls, self._settings.tls_name) as secure:
            streams.send_message(secure, {"do": "get", **wanted.plain})
            if why := streams.receive_message(secure).text("why", default=""):
                raise NoSpace(why)
            copy = self.store.begin(wanted.key, wanted.length)
            with self._first_of_all():
                self._receive(secure, copy, wanted)
        copy.sent_to = self._peer if address == self._peer else ""
        took_s = time.monotonic() - began_s
        log.info("%s: %s from %s, %.1f s", wanted.key.name, mib(wanted.length), address, took_s)
        return copy

    # ---- copies to the peer --------------------------------------------------------------

    def _send_copies(self) -> None:
        with contextlib.suppress(OSError):
            # Training comes first.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._pending or self._is_closed.is_set())
                if self._is_closed.is_set():
                    return
                copy, peer = self._pending.pop(0), self._peer
            if copy.is_dropped:
                continue
            try:
                self._send(copy, peer)
            except InterruptedError:
                continue
            except _TROUBLE as error:
                self._note(f"no copy at {peer}: {error}")

    def _send(self, copy: MemoryCopy, peer: str) -> None:
        assert copy.crc32c is not None
        wanted = WantedShard(copy.key, copy.length, copy.crc32c)
        began_s = time.monotonic()

        def is_wanted() -> bool:
            with self._wake:
                self._wake.wait_for(lambda: not self._urgent, streams.IDLE_S / 2)
            return not copy.is_recalled and self._peer == peer

        with (
            self.store.reading(copy),
            streams.connect(peer, self._client_tls, self._settings.tls_name) as secure,
        ):
            streams.send_message(secure, {"do": "put", **wanted.plain})
            reply = streams.receive_message(secure)
            if why := reply.text("why", default=""):
                raise NoSpace(why)
            on_wire = 0
            if not reply.flag("has", default=False):
                on_wire = streams.send_shard(
                    secure, copy.memory.fd, copy.length, is_gentle=True, is_wanted=is_wanted
                )
                streams.receive_message(secure).flag("ok")
        copy.sent_to = peer
        self._noted = ""
        took_s = time.monotonic() - began_s
        log.info(
            "%s: %s to %s, %s on the wire, %.1f s",
            copy.key.name, mib(copy.length), peer, mib(on_wire), took_s,
        )  # fmt: skip

    # ---- the container's memory ----------------------------------------------------------

    def _watch(self) -> None:
        while not self._is_closed.wait(WATCH_S):
            if self.store.size and (excess := -self.free_bytes()) > 0:
                dropped = self.store.shed(excess)
                self._note(
                    f"{dropped} copies were dropped: the container uses all of its memory; raise "
                    "the memory of the task"
                )

    def _note(self, text: str) -> None:
        """Once, until it is over."""
        if text != self._noted:
            self._noted = text
            log.warning("copies in memory: %s", text)


def _start(target: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=target, args=arguments, daemon=True).start()


def main() -> None:
    """Serve until stdin ends."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    holder = MemoryHolder(HolderSettings(**json.loads(sys.stdin.buffer.readline())))
    holder.start()
    for line in sys.stdin.buffer:
        news = json.loads(line)
        holder.take_peers(news["peer"], news["others"])
    os._exit(0)  # threads may be in the midst of a transfer


if __name__ == "__main__":
    main()
