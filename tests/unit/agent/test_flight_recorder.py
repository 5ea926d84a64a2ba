"""torch's flight recorder, with a process that does with its pipe what ProcessGroupNCCL does."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hdfs_utils.errors import MalformedData
from yarnam.agent.launch.flight_recorder import last_collective, parse_dump
from yarnam.agent.launch.launch_plan import ProcessContext, process_environment
from yarnam.agent.launch.workspace import UserPython, Workspace
from yarnam.agent.task_config import TaskJob
from yarnam.core.failures.rank_activity import Collective
from yarnam.wire.protocol import ENV_RECORDER_FILE, ENV_RECORDER_PIPE

TASK = TaskJob(
    "digits", "ann", "pytorch", "pytorch", "worker", ("true",), 1, 0, (), (), (), (), "python3",
    False, False, False, 0, (), 0.0, 1.0, 1.0, 1.0,
)  # fmt: skip


def entry(number: object, **more: Any) -> dict[str, Any]:
    """As torch 2.6 writes it."""
    return {
        "record_id": number, "pg_id": 0, "process_group": ("0", "default_pg"),
        "collective_seq_id": number, "p2p_seq_id": 0, "op_id": number,
        "profiling_name": "nccl:all_reduce", "time_created_ns": 1795000000123456789,
        "duration_ms": 0.25, "input_sizes": [[3, 4]], "input_dtypes": ["Float"],
        "state": "completed", "time_discovered_started_ns": None, "retired": True,
        "timeout_ms": 600000, "is_p2p": False,
        "frames": [{"name": "main", "filename": "/train.py", "line": 40}], **more,
    }  # fmt: skip


def dump(*entries: Any) -> bytes:
    """torch writes protocol 2."""
    whole = {"version": "2.6", "pg_config": {"0": {"ranks": "[0, 1]"}}, "entries": list(entries)}
    return pickle.dumps(whole, protocol=2)


RECORDED = dump(entry(1), entry(2, state="started", retired=False))

PROCESS_GROUP = """
import os, sys, time
pipe, file, data = sys.argv[1], sys.argv[2], bytes.fromhex(sys.argv[3])
os.mkfifo(pipe, 0o666)
fd = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
while not os.read(fd, 128):
    time.sleep(0.05)
with open(file, "wb") as out:
    out.write(data[:20]), out.flush(), time.sleep(0.3), out.write(data[20:])
time.sleep(60)
"""


@contextmanager
def process_group(folder: Path, rank: int, data: bytes) -> Iterator[dict[str, str]]:
    env = {ENV_RECORDER_PIPE: str(folder / "pipe."), ENV_RECORDER_FILE: str(folder / "dump.")}
    pipe, file = folder / f"pipe.{rank}.pipe", folder / f"dump.{rank}"
    command = [sys.executable, "-c", PROCESS_GROUP, str(pipe), str(file), data.hex()]
    with subprocess.Popen(command) as process:
        try:
            deadline = time.monotonic() + 30
            while not pipe.exists():
                assert time.monotonic() < deadline
                time.sleep(0.02)
            time.sleep(0.2)  # until it has opened it too
            yield env
        finally:
            process.kill()


@pytest.mark.asyncio
async def test_a_process_tells_its_last_collective(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with process_group(tmp_path, 3, RECORDED) as env:
        found = await last_collective(env, log)
    assert found == Collective("0", "nccl:all_reduce", "started", 2)
    assert log.read_text().splitlines() == [
        f"yarnam: last collectives by torch's flight recorder ({tmp_path}/dump.3):",
        "yarnam:   nccl:all_reduce 1 of group 0 (completed)",
        "yarnam:   nccl:all_reduce 2 of group 0 (started)",
    ]
    assert (tmp_path / "dump.3").read_bytes() == RECORDED


@pytest.mark.asyncio
async def test_without_an_answer_nothing_is_said(tmp_path: Path) -> None:
    log = tmp_path / "log"
    env = {ENV_RECORDER_PIPE: str(tmp_path / "p."), ENV_RECORDER_FILE: str(tmp_path / "d.")}
    assert await last_collective({}, log) is None
    assert await last_collective(env, log) is None
    os.mkfifo(tmp_path / "p.0.pipe")  # of a process that has ended
    (tmp_path / "p.1.pipe").write_text("no pipe")
    (tmp_path / "p.2.pipe").symlink_to(tmp_path / "p.1.pipe")
    assert await last_collective(env, log) is None
    assert (tmp_path / "p.1.pipe").read_text() == "no pipe"
    assert not log.exists()


def test_what_a_dump_says() -> None:
    older = entry(7, process_group="0", state="scheduled\x1b[2J", profiling_name=None)
    found = parse_dump(dump(entry(5, is_p2p=True), older, "no entry", entry(-1), entry("8")))
    assert [(one.group, one.operation, one.number) for one in found] == [("0", "", 7)]
    assert "\x1b" not in found[0].state
    assert parse_dump(dump()) == []


class Runs:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("true",)


@pytest.mark.parametrize(
    "data",
    [
        b"", b".", RECORDED[:-1], pickle.dumps([1]), pickle.dumps({"entries": 3}), b"\x80\x02}q",
        b"(e.", b"u.", b"](K\x01u.", pickle.dumps({"entries": Runs()}), b"X\xff\xff\xff\x7fa.",
    ],
)  # fmt: skip
def test_what_is_no_dump_is_refused_and_runs_nothing(data: bytes) -> None:
    with pytest.raises(MalformedData):
        parse_dump(data)


@pytest.mark.parametrize(
    ("variables", "pipe"),
    [
        ({}, None),
        ({"TORCH_NCCL_TRACE_BUFFER_SIZE": "512"}, "{}/.yarnam-recorder.1."),
        ({"TORCH_NCCL_TRACE_BUFFER_SIZE": "9", ENV_RECORDER_PIPE: "/mine"}, "/mine"),
    ],
)
def test_a_process_with_a_recorder_has_a_pipe(
    tmp_path: Path, variables: dict[str, str], pipe: str | None
) -> None:
    work = Workspace(tmp_path, tmp_path, UserPython(None))
    context = ProcessContext(
        tmp_path, "c1", work, "", tmp_path / "stop", local_rank=1, log_directory=Path("/logs")
    )
    env = process_environment({}, TASK, variables, (), context)
    assert env.get(ENV_RECORDER_PIPE) == (pipe and pipe.format(tmp_path))
    assert env.get(ENV_RECORDER_FILE) == (pipe and "/logs/flight-recorder.")
