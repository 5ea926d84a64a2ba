"""Sessions' messages as values, and back."""

from __future__ import annotations

from yarnam.core.model.session_parts import (
    EndKind,
    SessionEnd,
    SessionKind,
    SessionOpened,
    SessionRequest,
    WindowSize,
)
from yarnam.wire.pb import yarnam_pb2 as pb


def decode_request(message: pb.SessionRequest) -> SessionRequest:
    """Raises ValueError: another version's kind of session."""
    return SessionRequest(
        kind=SessionKind(message.kind),
        by=message.by,
        ask=message.ask,
        local_rank=message.local_rank,
        command=tuple(message.command),
        window=decode_window(message.window) if message.HasField("window") else None,
        terminal_type=message.terminal_type,
        is_detached=message.detached,
        port=message.port,
        forward=message.forward,
        ports=tuple(message.ports),
        path=message.path,
        overwrites=message.overwrite,
    )


def decode_window(message: pb.WindowSize) -> WindowSize:
    return WindowSize(message.rows, message.columns)


def opened_message(opened: SessionOpened) -> pb.SessionOutput:
    made = pb.SessionOpened(session=opened.session, pid=opened.pid, log=opened.log)
    return pb.SessionOutput(opened=made)


def end_message(end: SessionEnd) -> pb.SessionOutput:
    made = pb.SessionEnd(kind=end.kind.value, code=end.code, signal=end.signal, reason=end.reason)
    return pb.SessionOutput(end=made)


def refused(why: str) -> pb.SessionOutput:
    return end_message(SessionEnd(EndKind.REFUSED, reason=why))
