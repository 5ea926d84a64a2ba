"""Ports of this machine's loopback that lead to servers in a task."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from yarnam.core.model.session_parts import (
    MAX_PORTS,
    EndKind,
    EndOfData,
    SessionData,
    SessionEnd,
    SessionOpened,
)
from yarnam.errors import Unavailable, UsageError, YarnamError
from yarnam.ports.task_sessions import TaskSession

LOOPBACK = "127.0.0.1"
READ_BYTES = 64 * 1024
BACKLOG = 64
_PAIR = re.compile(r"(?:(\d{0,5}):)?(\d{1,5})", re.ASCII)

Peer = tuple[str, int]


class PortPair(NamedTuple):
    """``local`` is 0 for any free port."""

    local: int
    remote: int


def parse_pair(text: str) -> PortPair:
    """``8080:80``, ``80`` for the same port on both ends, ``:80`` for any free one here. Raises
    UsageError."""
    found = _PAIR.fullmatch(text)
    if found is not None:
        remote = int(found[2])
        local = remote if found[1] is None else int(found[1] or 0)
        if 0 < remote < 1 << 16 and local < 1 << 16:
            return PortPair(local, remote)
    raise UsageError(f"{text!r} is not a pair of ports", hint="Give LOCAL:REMOTE, such as 8080:80.")


class PortForward:
    """Forwards until ``close``, or until its session in the task ends. ``open_session`` opens the
    session with these ports, ``connect`` a connection of it to one of them; ``is_allowed`` says of
    a peer and its own end whether it may use the port; ``note`` shows what failed."""

    def __init__(
        self,
        pairs: Sequence[PortPair],
        open_session: Callable[[tuple[int, ...]], TaskSession],
        connect: Callable[[str, int], TaskSession],
        is_allowed: Callable[[Peer, Peer], bool],
        note: Callable[[str], None],
    ) -> None:
        if len(pairs) > MAX_PORTS:
            raise UsageError(f"a port-forward has up to {MAX_PORTS} ports")
        self._connect = connect
        self._is_allowed = is_allowed
        self._note = note
        self._is_closed = False
        self._lock = threading.Lock()
        self._open: set[TaskSession] = set()
        self._listeners = [(_listen(pair.local), pair.remote) for pair in pairs]
        self._name = ""
        self._session = open_session(tuple(pair.remote for pair in pairs))

    @property
    def ports(self) -> list[PortPair]:
        """With the numbers of the local ports that were free."""
        return [PortPair(one.getsockname()[1], remote) for one, remote in self._listeners]

    def run(self, on_opened: Callable[[], None]) -> None:
        """Serve until ``close`` is called from another thread or a signal. Raises Unavailable when
        the session in the task ends, and UsageError when it is refused."""
        for part in self._session:
            if isinstance(part, SessionOpened):
                self._name = part.session
                for listener, remote in self._listeners:
                    _start(self._accept, listener, remote)
                on_opened()
            elif isinstance(part, SessionEnd) and not self._is_closed:
                if part.kind is EndKind.REFUSED:
                    raise UsageError(part.reason, hint="See: yarnam docs hands-on")
                raise Unavailable(f"the port-forward has ended: {part.reason or 'no reason'}")

    def close(self) -> None:
        """Idempotent; ends its connections."""
        self._is_closed = True
        for listener, _ in self._listeners:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self._lock:
            sessions = [self._session, *self._open]
        for session in sessions:
            session.close()

    def _accept(self, listener: socket.socket, remote: int) -> None:
        while not self._is_closed:
            try:
                connection, peer = listener.accept()
            except OSError:
                return
            own_end = connection.getsockname()
            # Any user of this machine can connect to its loopback.
            if not self._is_allowed(peer, own_end):
                self._note(f"refused a connection of another user to port {own_end[1]}")
                connection.close()
                continue
            _start(self._serve, connection, remote)

    def _serve(self, connection: socket.socket, remote: int) -> None:
        try:
            session = self._connect(self._name, remote)
        except YarnamError as error:
            self._note(error.message)
            connection.close()
            return
        with self._lock:
            self._open.add(session)
        try:
            _start(_send, connection, session)
            self._receive(connection, session)
        finally:
            with self._lock:
                self._open.discard(session)
            session.close()
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _receive(self, connection: socket.socket, session: TaskSession) -> None:
        try:
            for part in session:
                if isinstance(part, SessionData):
                    connection.sendall(part.data)
                elif isinstance(part, EndOfData):
                    connection.shutdown(socket.SHUT_WR)
                elif isinstance(part, SessionEnd) and part.reason and not self._is_closed:
                    self._note(part.reason)
        except OSError:
            return  # the program here has closed it
        except YarnamError as error:
            self._note(error.message)


def _send(connection: socket.socket, session: TaskSession) -> None:
    try:
        while data := connection.recv(READ_BYTES):
            if not session.send(data):
                return
    except OSError:
        session.close()
        return
    session.end_data()


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"cannot listen on {LOOPBACK}:{port}: {error.strerror or error}",
            hint="Choose another local port, or any free one: `:REMOTE`.",
        ) from error
    return listener


def _start(work: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=work, args=arguments, name="port-forward", daemon=True).start()


def free_port(port: int) -> int:
    """``port``, or for 0 any free one. Raises UsageError."""
    try:
        with socket.create_server((LOOPBACK, port)) as server:
            return int(server.getsockname()[1])
    except OSError as error:
        raise UsageError(
            f"cannot listen on {LOOPBACK}:{port}: {error.strerror or error}",
            hint="Choose another port, or any free one: --port 0",
        ) from error
