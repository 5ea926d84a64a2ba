"""Connects this process's standard streams, and its terminal, to a session in a task."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from yarnam.cli.rendering.console import print_raw
from yarnam.core.model.session_parts import (
    EndKind,
    SessionData,
    SessionEnd,
    SessionOpened,
    WindowSize,
)
from yarnam.errors import Unavailable, UsageError
from yarnam.ports.task_sessions import TaskSession

READ_BYTES = 256 * 1024


def exit_code(end: SessionEnd, task: str, docs: str) -> int:
    """The command's own; for a signal as shells have it. Raises UsageError for a session that was
    refused, and Unavailable for one that was cut."""
    if end.kind is EndKind.REFUSED:
        raise UsageError(f"{task}: {end.reason}", hint=docs)
    if end.kind is EndKind.CUT:
        raise Unavailable(f"the session in {task} has ended: {end.reason or 'without a reason'}")
    return 128 + end.signal if end.signal else end.code


def window_size(fd: int) -> WindowSize:
    """Ask the terminal for its size: 0 by 0 if it does not know."""
    with suppress(OSError):
        packed = fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(8))
        rows, columns, _, _ = struct.unpack("HHHH", packed)
        return WindowSize(rows, columns)
    return WindowSize(0, 0)


@contextmanager
def raw_terminal(fd: int, session: TaskSession) -> Iterator[None]:
    """Keys go to the session as they are pressed, and each new size of the window. The terminal is
    as before afterwards, whatever happens but SIGKILL."""
    before = termios.tcgetattr(fd)

    def take_over(*_: object) -> None:
        # Also after a stop by SIGSTOP: the shell has set its own mode meanwhile.
        tty.setraw(fd, termios.TCSANOW)
        session.resize(window_size(fd))

    handlers: dict[int, Any] = {signal.SIGCONT: take_over}
    handlers[signal.SIGWINCH] = lambda *_: session.resize(window_size(fd))
    former = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        take_over()
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


class SessionStreams:
    """Passes on both directions in threads of their own; ``wait`` is for the main thread, which
    gets the signals."""

    def __init__(
        self,
        session: TaskSession,
        on_data: Callable[[SessionData], None],
        stdin: int | None = None,
        on_opened: Callable[[SessionOpened], None] = lambda _: None,
    ) -> None:
        self._session = session
        self._on_data = on_data
        self._on_opened = on_opened
        self._stdin = stdin
        self._end: SessionEnd | None = None
        self._error: BaseException | None = None
        self._done = threading.Event()
        self._stop_read, self._stop_write = os.pipe()
        self._threads = [
            threading.Thread(target=work, name=f"session-{work.__name__}", daemon=True)
            for work in (self._receive, self._send)
        ]

    def wait(self) -> SessionEnd:
        """Until the session is over. The first Ctrl-C goes to the command as SIGINT, the second one
        ends the session. Raises what the session or the output raises."""
        for thread in self._threads:
            thread.start()
        is_interrupted = False
        try:
            while True:
                try:
                    self._done.wait()
                    break
                except KeyboardInterrupt as interrupt:
                    if is_interrupted or type(interrupt) is not KeyboardInterrupt:
                        raise
                    is_interrupted = True
                    self._session.send_signal(signal.SIGINT)
        finally:
            self._session.close()
            os.close(self._stop_write)
            self._threads[1].join(1.0)
        if self._error is not None:
            raise self._error
        assert self._end is not None
        return self._end

    def _receive(self) -> None:
        try:
            for part in self._session:
                if isinstance(part, SessionData):
                    self._on_data(part)
                elif isinstance(part, SessionOpened):
                    self._on_opened(part)
                elif isinstance(part, SessionEnd):
                    self._end = part
            if self._end is None:
                self._end = SessionEnd(EndKind.CUT)
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self._error = error
        finally:
            self._done.set()

    def _send(self) -> None:
        if self._stdin is not None:
            with suppress(OSError):
                while data := self._read(self._stdin):
                    if not self._session.send(data):
                        return
        self._session.end_data()

    def _read(self, stdin: int) -> bytes:
        """Empty at its end, and when the session is over: what was not read stays for others."""
        ready, _, _ = select.select([stdin, self._stop_read], [], [])
        return b"" if self._stop_read in ready else os.read(stdin, READ_BYTES)


def print_data(part: SessionData) -> None:
    """Raises BrokenPipeError."""
    print_raw(part.data, is_error=part.is_error)
