"""The Python stacks of a rank's process, over a session in its task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from yarnam.client.monitor.sessions.task_choice import choose_task
from yarnam.core.model.job_status import JobStatus, TaskStatus
from yarnam.core.model.session_parts import (
    EndKind,
    RankStacks,
    SessionData,
    SessionEnd,
    SessionKind,
)
from yarnam.errors import Unavailable, UsageError
from yarnam.ports.task_sessions import TaskSession
from yarnam.wire.codec import decode

MAX_BYTES = 1024 * 1024
"""A reply has fewer: the agent reads 64 KiB of a dump."""

HINT = "See: yarnam docs hands-on"


@dataclass(frozen=True, slots=True)
class StacksOfRank:
    """The stacks, and whose they are."""

    application: str
    rank: int
    task: str
    node: str
    stacks: RankStacks


def read_rank_stacks(
    status: JobStatus, rank: int, open_session: Callable[..., TaskSession]
) -> StacksOfRank:
    """Read them now. ``open_session``: that of the ``Job``.

    Raises UsageError (there is no such rank, it has ended, the job has no sessions, or nothing can
    read its stacks), Unavailable and WireMismatch.
    """
    task = running_task(status, rank)
    chosen = choose_task(status, None, rank)
    session = open_session(chosen, SessionKind.STACKS)
    content, end = b"", SessionEnd(EndKind.CUT)
    try:
        session.end_data()
        for part in session:
            if isinstance(part, SessionData):
                content += part.data
            elif isinstance(part, SessionEnd):
                end = part
            if len(content) > MAX_BYTES:
                raise Unavailable(f"the agent of {task.name} sends more than {MAX_BYTES} bytes")
    finally:
        session.close()
    if end.kind is EndKind.REFUSED:
        raise UsageError(f"rank {rank} in {task.name}: {end.reason}", hint=HINT)
    if end.kind is not EndKind.EXITED:
        raise Unavailable(
            f"the session in {task.name} has ended: {end.reason or 'no reason given'}"
        )
    stacks = decode(content, RankStacks, max_bytes=MAX_BYTES)
    return StacksOfRank(status.application, rank, task.name, task.node, stacks)


def running_task(status: JobStatus, rank: int) -> TaskStatus:
    """The task of this rank. Raises UsageError: it has ended, or no session can be opened."""
    if not status.interactive:
        raise UsageError(
            "sessions are off for this job (interactive: false in its spec, or by the site)",
            hint=HINT,
        )
    chosen = choose_task(status, None, rank)
    task = next(one for one in status.tasks if one.ask == chosen.ask)
    if task.state in {"exited", "lost"}:
        raise UsageError(
            f"rank {rank} has ended: {task.exit_text or task.state}",
            hint=f"For its output: yarnam logs {status.application} --rank {rank}",
        )
    return task
