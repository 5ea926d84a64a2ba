"""The output of a job's processes: live from the agents, afterwards what YARN keeps."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Union

from yarnam.client.monitor.logs.aggregated_logs import AM_FILES, LogFile, kept_logs, live_am_logs
from yarnam.core.model.job_status import JobStatus, TaskStatus
from yarnam.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from yarnam.client.monitor.job_sources import JobSources

QUEUE_PIECES = 64
"""Pieces (256 KiB at most) waiting for the reader: a slow one slows the agents down."""


class LogSource(Enum):
    """Whose output."""

    PROCESSES = "processes"
    AGENT = "agent"
    AM = "am"


@dataclass(frozen=True, slots=True)
class LogRequest:
    """The choice of logs. ``rank`` is global; ``tail`` in lines; ``None`` for all."""

    task: str | None = None
    rank: int | None = None
    follow: bool = False
    tail: int | None = None
    source: LogSource = LogSource.PROCESSES


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Some bytes of one log, not cut at line ends."""

    task: str
    """The task's name, such as ``worker-0``; the file's name for the AM's logs; empty for a
    note."""
    rank: int | None
    """The global rank; None if it is not a process's log, or no longer known."""
    data: bytes
    container: str = ""
    is_note: bool = False
    """Not output: something that the reader should know, such as a log that broke off."""


@dataclass(frozen=True, slots=True)
class _Stream:
    """One log to follow, if it is served."""

    task: str
    ask: str
    local_rank: int
    rank: int | None
    address: str
    container: str


def read_logs(sources: JobSources, request: LogRequest) -> Iterator[LogPiece]:
    """See ``Job.logs``."""
    status = sources.status().status
    if status.state.is_final and sources.await_yarn(AGGREGATION_STARTS_S):
        yield from _after_the_end(sources, request, status)
        return
    sources.site.must_reach(
        f"{sources.application} has not ended, and its logs are on its nodes, which"
    )
    if request.source is LogSource.AM:
        yield from _am_logs(sources, request)
    else:
        _check_choice(request, status)
        yield from _live(sources, request, status)


AGGREGATION_STARTS_S = 90.0
"""How long YARN may take after the verdict to say that the application is over. Skein's driver ends
a failed job with an attempt that YARN repeats: another ApplicationMaster has to start, which takes
half a minute on a busy node, to obey the verdict."""


# ---- after the end -----------------------------------------------------------------------------


def _after_the_end(
    sources: JobSources, request: LogRequest, status: JobStatus
) -> Iterator[LogPiece]:
    ranks = {
        (task.task, local): rank for task in status.tasks for local, rank in enumerate(task.ranks)
    }
    found_any = False
    for file in kept_logs(sources, status):
        piece = _chosen(file, request, ranks)
        if piece is not None:
            found_any = True
            yield piece
    if not found_any and (request.task is not None or request.rank is not None):
        raise UsageError(
            f"no log of {_wanted(request)} in the logs of {sources.application}",
            hint=_known_tasks(status),
        )


def _chosen(
    file: LogFile, request: LogRequest, ranks: dict[tuple[str, int], int]
) -> LogPiece | None:
    data = file.last_lines(request.tail) if request.tail is not None else file.data
    if request.source is LogSource.AM:
        return LogPiece(file.name, None, data, file.container) if file.name in AM_FILES else None
    if request.source is LogSource.AGENT:
        if not file.is_agents:
            return None
        return LogPiece(file.name, None, data, file.container)
    if file.process is None:
        return None
    rank = ranks.get(file.process)
    if request.task not in (None, file.process[0]):
        return None
    if request.rank is not None and request.rank != rank:
        return None
    return LogPiece(file.process[0], rank, data, file.container)


# ---- while it runs -----------------------------------------------------------------------------


def _am_logs(sources: JobSources, request: LogRequest) -> Iterator[LogPiece]:
    """Reads from the AM's NodeManager, file by file, while the AM's container exists."""
    shown: dict[tuple[str, str], int] = {}
    while True:
        application = sources.look_up()
        if application.is_over and not shown:
            # It ended before anything was read.
            yield from _after_the_end(sources, request, sources.status().status)
            return
        for file in [] if application.is_over else live_am_logs(sources, application):
            known = (file.container, file.name)
            if known not in shown and request.tail is not None:
                shown[known] = len(file.data) - len(file.last_lines(request.tail))
            start = shown.get(known, 0)
            if len(file.data) > start:
                yield LogPiece(file.name, None, file.data[start:], file.container)
            shown[known] = max(start, len(file.data))
        if application.is_over or not request.follow:
            return
        time.sleep(sources.site.timing.process_poll_s)


_Item = Union[LogPiece, _Stream]
"""Pieces, and the stream itself when it is at its end."""


BETWEEN_STARTS_S = 0.005
"""Longest time for what has come before the next log is asked for."""


def _live(sources: JobSources, request: LogRequest, status: JobStatus) -> Iterator[LogPiece]:
    """One thread per log; with ``follow`` also those of processes that start later. What has
    come is not kept back until the last of a thousand threads has been started."""
    items: queue.Queue[_Item] = queue.Queue(QUEUE_PIECES)
    known: set[_Stream] = set()
    open_streams: set[_Stream] = set()
    stop = threading.Event()
    try:
        while True:
            for stream in _streams(status, request):
                if stream not in known:
                    known.add(stream)
                    open_streams.add(stream)
                    _start(sources, stream, request, items, stop)
                    if not items.empty():
                        yield from _drain(items, open_streams, BETWEEN_STARTS_S)
            if not known and not request.follow:
                what = f"{status.state.value} {status.reason}".strip()
                yield LogPiece("", None, f"nothing runs yet: {what}".encode(), is_note=True)
                return
            yield from _drain(items, open_streams, sources.site.timing.process_poll_s)
            if not open_streams and (not request.follow or status.state.is_final):
                return
            if request.follow:
                status = sources.status().status
    finally:
        stop.set()
        sources.close()


def _drain(
    items: queue.Queue[_Item], open_streams: set[_Stream], limit_s: float
) -> Iterator[LogPiece]:
    """Yields what arrives within the limit (seconds), or until the last stream ends."""
    deadline = time.monotonic() + limit_s
    while (left_s := deadline - time.monotonic()) > 0:
        try:
            item = items.get(timeout=left_s)
        except queue.Empty:
            return
        if isinstance(item, LogPiece):
            yield item
            continue
        open_streams.discard(item)
        if not open_streams:
            return


def _start(
    sources: JobSources,
    stream: _Stream,
    request: LogRequest,
    items: queue.Queue[_Item],
    stop: threading.Event,
) -> None:
    line = sources.job_client()
    if line is None:
        items.put(stream)
        return

    def put(item: _Item) -> None:
        while not stop.is_set():
            try:
                items.put(item, timeout=0.2)
            except queue.Full:
                continue
            return

    def read() -> None:
        try:
            sources.check_address(stream.address)
            for data in line.tail(
                stream.address,
                stream.local_rank,
                last_lines=request.tail,
                follow=request.follow,
                agent_log=request.source is LogSource.AGENT,
            ):
                put(LogPiece(stream.task, stream.rank, data, stream.container))
                if stop.is_set():
                    return
        except Unavailable as error:
            note = f"the log of {stream.task} breaks off: {error.message}"
            put(LogPiece("", stream.rank, note.encode(), stream.container, is_note=True))
        finally:
            put(stream)

    threading.Thread(target=read, name=f"log-{stream.task}", daemon=True).start()


def _streams(status: JobStatus, request: LogRequest) -> Iterator[_Stream]:
    for task in status.tasks:
        if not task.log_address or request.task not in (None, task.task):
            continue
        if request.source is LogSource.AGENT:
            if request.rank is None or request.rank in task.ranks:
                yield _stream(task, 0, None)
            continue
        for local, rank in enumerate(task.ranks):
            if request.rank in (None, rank):
                yield _stream(task, local, rank)


def _stream(task: TaskStatus, local_rank: int, rank: int | None) -> _Stream:
    return _Stream(task.task, task.ask, local_rank, rank, task.log_address, task.container)


def _check_choice(request: LogRequest, status: JobStatus) -> None:
    """A name that can never appear is the user's slip; before the start nothing is known."""
    if not any(task.ranks for task in status.tasks):
        return
    names = {task.task for task in status.tasks}
    ranks = {rank for task in status.tasks for rank in task.ranks}
    if request.task is not None and request.task not in names:
        raise UsageError(f"there is no task {request.task}", hint=_known_tasks(status))
    if request.rank is not None and request.rank not in ranks:
        raise UsageError(
            f"there is no rank {request.rank}", hint=f"The ranks are 0 to {max(ranks)}."
        )


def _wanted(request: LogRequest) -> str:
    parts = []
    if request.task is not None:
        parts.append(request.task)
    if request.rank is not None:
        parts.append(f"rank {request.rank}")
    return ", ".join(parts)


def _known_tasks(status: JobStatus) -> str:
    names = [task.task for task in status.tasks]
    return f"The tasks are: {', '.join(names)}" if names else ""
