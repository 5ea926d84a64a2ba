"""What a log and an error file show of a failure."""

from __future__ import annotations

import json
from pathlib import Path

from yarnam.agent.launch.failure_examination import FailedRun, examine
from yarnam.agent.launch.log_evidence import (
    HEAD_BYTES,
    MAX_LINE_CHARS,
    TAIL_BYTES,
    LogLine,
    error_file_evidence,
    log_evidence,
)
from yarnam.agent.launch.output_streams import OutputStreams
from yarnam.agent.resources.memory_kills import MemoryKills
from yarnam.core.model.outcomes import FailureClass


def test_start_and_end_of_a_large_log_are_read_and_no_more(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"first\n" + b"x" * (HEAD_BYTES + TAIL_BYTES) + b"\nlast\n")
    lines = [line.text for line in log_evidence(log)]
    assert (lines[0], lines[-1]) == ("first", "last")
    assert max(map(len, lines)) == MAX_LINE_CHARS


def test_what_an_earlier_run_wrote_does_not_count(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("MemoryError\n")
    start = log.stat().st_size
    log.write_text("MemoryError\nTraceback (most recent call last):\nNameError: x\n")
    finding = examine(FailedRun(log, OutputStreams(start), 1, 0), (), ()).finding
    assert finding.failure is FailureClass.SEMANTIC_ERROR


def test_a_small_log_is_read_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"a\rb\n\nsecret-value \xff\n")
    assert log_evidence(log, 0, ["secret-value"]) == (
        LogLine("b", 2), LogLine("*** \ufffd", 18),
    )  # fmt: skip
    assert log_evidence(tmp_path / "none") == ()


def test_the_error_file_of_torch(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    more = {"py_callstack": "...", "timestamp": "1795000000"}
    message = {"message": "CUDA out of memory", "extraInfo": more}
    path.write_text(json.dumps({"message": message}))
    assert error_file_evidence(path) == (("CUDA out of memory",), 1795000000.0)
    finding = examine(
        FailedRun(tmp_path / "none", OutputStreams(), 1, 0, error_file=path), (), ()
    ).finding
    assert finding.failure is FailureClass.GPU_OUT_OF_MEMORY
    assert finding.at_s == 1795000000.0


def test_an_error_file_that_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    for text in ("", "[]", '{"message": {"extraInfo": {"timestamp": "nan"}}}', '{"message": 3}'):
        path.write_text(text)
        assert error_file_evidence(path) == ((), None)


def test_damaged_rules_of_the_job_are_left_out(tmp_path: Path) -> None:
    finding = examine(
        FailedRun(tmp_path / "none", OutputStreams(), 0, 9), ({"id": "x"},), ()
    ).finding
    assert finding.failure is FailureClass.KILLED


def test_the_kernels_kills_for_want_of_memory_are_counted(tmp_path: Path) -> None:
    groups, mounts = tmp_path / "cgroup", tmp_path / "fs"
    (mounts / "yarn/c1").mkdir(parents=True)
    events = mounts / "yarn/c1/memory.events"
    events.write_text("low 0\noom 3\noom_kill 1\n")
    groups.write_text("0::/yarn/c1\n")
    kills = MemoryKills(groups, mounts)
    assert not kills.has_happened()
    events.write_text("low 0\noom 4\noom_kill 2\n")
    assert kills.has_happened()
    assert not kills.has_happened()


def test_they_are_counted_in_the_older_hierarchy_too(tmp_path: Path) -> None:
    groups, mounts = tmp_path / "cgroup", tmp_path / "fs"
    (mounts / "memory/c1").mkdir(parents=True)
    control = mounts / "memory/c1/memory.oom_control"
    control.write_text("under_oom 0\noom_kill 0\n")
    groups.write_text("5:cpu:/other\n4:memory:/c1\n")
    kills = MemoryKills(groups, mounts)
    control.write_text("under_oom 0\noom_kill 1\n")
    assert kills.has_happened()
    assert not MemoryKills(tmp_path / "none", mounts).has_happened()
