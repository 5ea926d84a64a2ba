"""Which part of a log came from stdout and which from stderr, by real descriptors and processes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from yarnam.agent.keeper.keeper import fork_keeper
from yarnam.agent.keeper.keeper_client import Exited, KeeperClient, StartOrder
from yarnam.agent.launch.output_streams import HEAD_MARKS, TAIL_MARKS, OutputStreams
from yarnam.core.model.outcomes import Stream

APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND


class Log:
    """A log with the two descriptions of a process, which is this one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.out, self.err = os.open(path, APPEND), os.open(path, APPEND)
        size = path.stat().st_size
        self.streams = OutputStreams(size, os.getpid(), (self.out, self.err))

    def write(self, descriptor: int, text: str) -> None:
        os.write(descriptor, text.encode())

    def update(self) -> None:
        self.streams.poll(self.path)

    def by_line(self) -> list[tuple[str, Stream | None]]:
        found, at = [], -1
        for line in self.path.read_text().splitlines():
            at += len(line) + 1
            origin = self.streams.origin(at - 1)
            found.append((line, origin.stream if origin else None))
        return found


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path / "log")
    yield made
    os.close(made.out)
    os.close(made.err)


def test_what_one_stream_has_written_between_two_looks_is_its_own(log: Log) -> None:
    log.write(log.out, "step 1\nstep 2\n")
    log.update()
    log.write(log.err, "Traceback\nValueError\n")
    log.update()
    log.write(log.out, "bye\n")
    log.update()
    out, err = Stream.STDOUT, Stream.STDERR
    assert log.by_line() == [
        ("step 1", out), ("step 2", out), ("Traceback", err), ("ValueError", err), ("bye", out),
    ]  # fmt: skip


def test_where_both_have_written_the_end_is_known(log: Log) -> None:
    log.write(log.err, "a warning\n")
    log.write(log.out, "step 1\n")
    log.write(log.err, "Traceback\nValueError\n")
    log.update()
    assert log.by_line() == [
        ("a warning", None), ("step 1", None), ("Traceback", Stream.STDERR),
        ("ValueError", Stream.STDERR),
    ]  # fmt: skip


def test_lines_have_the_time_of_the_last_write_by_which_they_were_there(log: Log) -> None:
    log.write(log.out, "early\n")
    os.utime(log.path, (100.0, 100.0))
    log.update()
    log.write(log.err, "late\n")
    os.utime(log.path, (200.0, 200.0))
    log.update()
    assert [log.streams.origin(at).at_s for at in (0, 7)] == [100.0, 200.0]


def test_what_was_there_before_and_what_came_after_the_last_look_is_not_known(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    path.write_text("of an earlier run\n")
    log = Log(path)
    log.write(log.err, "mine\n")
    log.update()
    log.write(log.err, "later\n")
    assert [stream for _, stream in log.by_line()] == [None, Stream.STDERR, None]


def test_positions_of_another_file_are_not_believed(log: Log) -> None:
    log.write(log.out, "short\n")
    log.streams.mark(5000, 0, log.path)
    assert log.streams.origin(0) is None


def test_memory_is_bounded_whatever_is_printed(log: Log) -> None:
    count = HEAD_MARKS + 2 * TAIL_MARKS
    for number in range(count):
        log.write(log.err if number % 2 else log.out, f"{number:04}\n")
        log.update()
    found = log.by_line()
    assert [name for name, stream in found if stream is None] == [
        f"{number:04}" for number in range(HEAD_MARKS, count - TAIL_MARKS + 1)
    ]
    assert len(log.streams._head) + len(log.streams._tail) == HEAD_MARKS + TAIL_MARKS


SCRIPT = """
import sys, time
print("step 1", flush=True)
print("a warning", file=sys.stderr)
print("step 2")
raise ValueError("wrong")
"""


def test_a_process_keeps_the_order_of_its_lines_and_tells_its_streams(tmp_path: Path) -> None:
    """Its stdout is written at the end, as its buffer is: after the traceback."""
    log = tmp_path / "log"

    async def run() -> Exited:
        pid, connection = fork_keeper("container_1")
        keeper = KeeperClient(pid, connection, "container_1")
        ended: asyncio.Future[Exited] = asyncio.get_running_loop().create_future()
        keeper.on_exit = ended.set_result
        keeper.open()
        argv = [sys.executable, "-c", SCRIPT]
        await keeper.start(StartOrder(0, argv[0], argv, {"PATH": "/bin"}, "/", str(log)))
        try:
            return await asyncio.wait_for(ended, 60)
        finally:
            assert await keeper.close()
            connection.close()

    ended = asyncio.run(run())
    lines = log.read_text().splitlines()
    assert lines[:3] == ["step 1", "a warning", "Traceback (most recent call last):"]
    assert lines[-2:] == ["ValueError: wrong", "step 2"]
    streams = OutputStreams()
    streams.mark(*ended.ends, log)
    size = log.stat().st_size
    last, before = streams.origin(size - 2), streams.origin(size - len("step 2\n") - 1)
    assert last is not None
    assert before is not None
    assert (before.stream, last.stream) == (Stream.STDERR, Stream.STDOUT)
