"""Files between this machine and a task, over a session."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from yarnam.agent.programs import file_copy
from yarnam.agent.programs.file_copy import Copied, CopyRefused
from yarnam.core.model.session_parts import EndKind, SessionData, SessionEnd
from yarnam.errors import Unavailable, UsageError, YarnamError
from yarnam.ports.task_sessions import TaskSession

MAX_NOTES_BYTES = 64 * 1024
"""The most of the task's standard error that is kept."""

Note = Callable[[str], None]
Moved = Callable[[int], None]


def download(
    session: TaskSession, target: Path, note: Note, moved: Moved, *, overwrites: bool
) -> Copied:
    """Write what the task sends to ``target``. Raises UsageError and Unavailable."""
    remote = _Remote(session)
    stream = io.BufferedReader(remote, file_copy.BLOCK_BYTES)
    try:
        copied = file_copy.receive_files(stream, target, note, moved, overwrites=overwrites)
    except CopyRefused as error:
        if error.code == file_copy.BROKEN:
            remote.finish(note)  # the task's end says why
        raise _refused(error.code, str(error)) from error
    except OSError as error:
        raise UsageError(f"{error.filename or target}: {error.strerror or error}") from error
    else:
        remote.finish(note)
        return copied
    finally:
        session.close()


def upload(session: TaskSession, source: Path, note: Note, moved: Moved) -> Copied:
    """Send ``source`` to the task. Raises UsageError and Unavailable."""
    remote = _Remote(session)
    listener = threading.Thread(target=remote.drain, name="copy", daemon=True)
    listener.start()
    sink: Any = _Sink(session)
    try:
        copied = Copied(0, 0)
        with suppress(BrokenPipeError):  # the task's end says why
            copied = file_copy.send_files(source, sink, note, moved)
        session.end_data()
        listener.join()
    except CopyRefused as error:
        raise _refused(error.code, str(error)) from error
    except OSError as error:
        raise UsageError(f"{error.filename or source}: {error.strerror or error}") from error
    finally:
        session.close()
    remote.finish(note)
    return copied


def _refused(code: int, message: str) -> UsageError:
    hint = "To overwrite files: --force" if code == file_copy.TAKEN else ""
    return UsageError(message, hint=hint)


class _Sink(io.RawIOBase):
    """The session's input as a file."""

    def __init__(self, session: TaskSession) -> None:
        super().__init__()
        self._session = session

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        if not self._session.send(bytes(data)):
            raise BrokenPipeError
        return len(data)


class _Remote(io.RawIOBase):
    """The session's output as a file; keeps its stderr and how it ended."""

    def __init__(self, session: TaskSession) -> None:
        super().__init__()
        self._parts = iter(session)
        self._left = b""
        self._notes = bytearray()
        self._end: SessionEnd | None = None
        self._error: YarnamError | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._left:
            data = self._next()
            if data is None:
                return 0
            self._left = data
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size

    def _next(self) -> bytes | None:
        """Some output; ``None`` at the end."""
        try:
            part = next(self._parts, None)
        except YarnamError as error:
            self._error = error
            return None
        if part is None or isinstance(part, SessionEnd):
            self._end = part or self._end
            return None
        if not isinstance(part, SessionData):
            return b""
        if part.is_error:
            self._notes += part.data[: MAX_NOTES_BYTES - len(self._notes)]
            return b""
        return part.data

    def drain(self) -> None:
        while self._next() is not None:
            continue

    def _lines(self) -> list[str]:
        return self._notes.decode("utf-8", "replace").splitlines()

    def finish(self, note: Note) -> None:
        """To the session's end. Raises what went wrong in the task."""
        self.drain()
        self._check_end()
        for line in self._lines():
            note(line)

    def _check_end(self) -> None:
        if self._error is not None:
            raise self._error
        end = self._end
        if end is None or end.kind is EndKind.CUT:
            why = end.reason if end is not None else ""
            raise Unavailable(f"the copy broke off: {why or 'the session has ended'}")
        if end.kind is EndKind.REFUSED:
            raise UsageError(end.reason, hint="See: yarnam docs hands-on")
        said = "; ".join(self._lines()) or end.reason
        if end.code or end.signal:
            message = said or f"the copy failed in the task: exit code {end.code}"
            raise _refused(end.code, message)
