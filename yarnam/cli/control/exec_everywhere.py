"""One command in every task of a job: lines with the task's name, and a summary."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from yarnam.cli.rendering.console import print_json_line, print_note, print_output
from yarnam.core.model.session_parts import EndKind, SessionData, SessionEnd, SessionOpened
from yarnam.errors import ExitCode, YarnamError
from yarnam.ports.task_sessions import TaskSession

if TYPE_CHECKING:
    from yarnam.client import Job
    from yarnam.client.monitor.sessions.task_choice import ChosenTask

AT_ONCE = 64
"""Sessions at a time: each has three threads here, and the ApplicationMaster admits 512."""

MAX_LINE_BYTES = 64 * 1024
"""A longer line is printed in parts."""


class EveryTask:
    """Runs the command; ``run`` returns the exit code of this process."""

    def __init__(
        self, job: Job, command: tuple[bytes, ...], *, is_detached: bool, as_json: bool
    ) -> None:
        self._job = job
        self._command = command
        self._is_detached = is_detached
        self._as_json = as_json
        self._lock = threading.Lock()
        self._open: set[TaskSession] = set()
        self._is_over = False

    def run(self, tasks: Sequence[ChosenTask]) -> int:
        """The largest of the commands' exit codes; that of Unavailable for one that broke off."""
        pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="exec")
        try:
            codes = dict(zip(tasks, pool.map(self._run_in, tasks), strict=True))
        finally:
            with self._lock:
                self._is_over = True
                sessions = tuple(self._open)
            for session in sessions:
                session.close()
            pool.shutdown(wait=True, cancel_futures=True)
        if self._as_json:
            print_json_line({"exit_codes": {task.name: code for task, code in codes.items()}})
        else:
            print_note(summary({task.name: code for task, code in codes.items()}))
        return max(codes.values())

    def _run_in(self, task: ChosenTask) -> int:
        lines = _Lines(task.name, self._lock, as_json=self._as_json)
        try:
            session = self._job.open_session(
                task, command=self._command, is_detached=self._is_detached
            )
            with self._lock:
                self._open.add(session)
                is_over = self._is_over
            if is_over:
                session.close()
            session.end_data()
            end = self._hear(session, task, lines)
        except YarnamError as error:
            lines.note(error.message)
            return int(error.exit_code)
        finally:
            lines.close()
        with self._lock:
            self._open.discard(session)
        if end.reason:
            lines.note(end.reason)
        if end.kind in (EndKind.CUT, EndKind.REFUSED):
            return int(ExitCode.UNAVAILABLE)
        return 128 + end.signal if end.signal else end.code

    def _hear(self, session: TaskSession, task: ChosenTask, lines: _Lines) -> SessionEnd:
        end = SessionEnd(EndKind.CUT)
        for part in session:
            if isinstance(part, SessionData):
                lines.take(part)
            elif isinstance(part, SessionOpened) and self._is_detached:
                lines.note(f"process {part.pid}, output in {part.log}")
            elif isinstance(part, SessionEnd):
                end = part
        return end


class _Lines:
    """Whole lines of one task, so that those of several do not mix."""

    def __init__(self, task: str, lock: threading.Lock, *, as_json: bool) -> None:
        self._task = task
        self._lock = lock
        self._as_json = as_json
        self._held: dict[bool, bytes] = {False: b"", True: b""}

    def take(self, part: SessionData) -> None:
        *lines, rest = (self._held[part.is_error] + part.data).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            lines, rest = [*lines, rest], b""
        self._held[part.is_error] = rest
        self._print(lines, is_error=part.is_error)

    def close(self) -> None:
        for is_error, rest in self._held.items():
            if rest:
                self._print([rest], is_error=is_error)

    def note(self, text: str) -> None:
        with self._lock:
            print_note(f"{self._task}: {text}")

    def _print(self, lines: Sequence[bytes], *, is_error: bool) -> None:
        stream = "stderr" if is_error else "stdout"
        with self._lock:
            if not self._as_json:
                print_output(self._task, lines)
                return
            for line in lines:
                text = line.decode("utf-8", "replace")
                print_json_line({"task": self._task, "stream": stream, "text": text})


def summary(codes: dict[str, int]) -> str:
    """``exit code 0 in 3 tasks; 1 in worker-2``."""
    by_code: defaultdict[int, list[str]] = defaultdict(list)
    for task, code in codes.items():
        by_code[code].append(task)
    parts = [
        f"{code} in {f'{len(tasks)} tasks' if not code and len(tasks) > 1 else ', '.join(tasks)}"
        for code, tasks in sorted(by_code.items())
    ]
    return f"exit code {'; '.join(parts)}"
