"""Bad records that training skips: counted, reported, bounded; nothing outside a job."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.train.agent_server import Agent
from tests.unit.train.sdk_settings import set_sdk
from yarnam import train
from yarnam.train._reports import reporting, skipped_records
from yarnam.train._reports.step_times import StepTimes

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith("YARNAM_"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(reporting, "of_process", StepTimes())
    monkeypatch.setattr(reporting, "_of_steps", {})
    monkeypatch.setattr(reporting, "_of_checkpoints", {})
    monkeypatch.setattr(skipped_records, "_state", skipped_records._SkippedRecords())
    yield
    skipped_records._state.close()


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int | None, str]]:
    """In a job; what goes to the agent lands here."""
    found: list[tuple[str, int | None, str]] = []
    set_sdk(monkeypatch, request_socket="@somebody")
    monkeypatch.setenv("YARNAM_RANK", "0")
    records = skipped_records._SkippedRecords(lambda suspects, limit_s: found.extend(suspects))
    monkeypatch.setattr(skipped_records, "_state", records)
    return found


def decode(record: bytes) -> int:
    return int(record)


def test_outside_a_job_nothing_happens_and_errors_come_through(
    capsys: pytest.CaptureFixture[str],
) -> None:
    train.skip("/data/a", 3, "bad")
    assert train.skipped() == 0
    assert capsys.readouterr().err == ""
    with pytest.raises(ValueError, match="invalid literal"):
        list(train.decoded([b"1", b"x", b"3"], decode, "/data/a"))
    assert list(train.decoded([b"1", b"3"], decode, "/data/a")) == [1, 3]


def test_bad_records_are_skipped_and_reported(
    reported: list[tuple[str, int | None, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    records = [b"0", b"x", b"2", b"y", b"4"]
    assert list(train.decoded(records, decode, "/data/a", errors=(ValueError,))) == [0, 2, 4]
    assert train.skipped() == 2
    assert skipped_records.counts() == {"skipped_records": 2.0, "skipped_files": 1.0}
    skipped_records._state.close()
    assert [(path, record) for path, record, _ in reported] == [("/data/a", 1), ("/data/a", 3)]
    assert "skipped record 1 of /data/a: ValueError" in capsys.readouterr().err


def test_other_errors_and_the_readers_own_come_through(
    reported: list[tuple[str, int | None, str]],
) -> None:
    def reader() -> Iterator[bytes]:
        yield b"1"
        raise OSError("the file ends here")

    with pytest.raises(OSError, match="ends here"):
        list(train.decoded(reader(), decode, "/data/a"))
    with pytest.raises(ZeroDivisionError):
        list(train.decoded([b"0"], lambda r: 1 // int(r), "/data/a", errors=(ValueError,)))
    assert train.skipped() == 0


def test_the_limit_is_a_share_of_what_was_seen(
    reported: list[tuple[str, int | None, str]],
) -> None:
    few_bad = [b"x" if n % 100 == 0 else b"1" for n in range(3000)]
    assert len(list(train.decoded(few_bad, decode, "/data/a", max_share=0.02))) == 2970
    with pytest.raises(train.TooManySkipped, match=r"of \d+ records are bad, in 2 files"):
        list(train.decoded([b"x"] * 1000, decode, "/data/b", max_share=0.02))


def test_the_first_few_are_allowed_whatever_the_share(
    reported: list[tuple[str, int | None, str]],
) -> None:
    assert list(train.decoded([b"x"] * 10, decode, "/data/a")) == []
    with pytest.raises(train.TooManySkipped):
        list(train.decoded([b"x"], decode, "/data/a"))


def test_the_count_is_in_every_report(
    reported: list[tuple[str, int | None, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        name = f"yarnam-test-{os.getpid()}"
        agent.bind(f"\0{name}")
        agent.settimeout(5)
        monkeypatch.setattr(reporting, "_open", {})
        set_sdk(monkeypatch, metrics_socket=f"@{name}")
        train.skip("/data/a", 1, "bad")
        train.report(step=1, loss=0.5)
        values = json.loads(agent.recv(10_000))["values"]
    for sender in reporting._open.values():
        if sender is not None:
            sender.close()
    # Beside the epoch, where another test of this process has read inputs.
    expected = {"loss": 0.5, "skipped_records": 1.0, "skipped_files": 1.0}
    assert {name: values.get(name) for name in expected} == expected


def test_a_copy_on_the_nodes_disk_is_told_by_its_origin(
    reported: list[tuple[str, int | None, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("YARNAM_LOCAL_INPUTS", "/local/inputs")
    monkeypatch.setenv("YARNAM_INPUT_SET", "hdfs:///data/set/")
    monkeypatch.setenv("YARNAM_INPUT_ONE", "hdfs:///data/one.npy")
    for path in ("set/1/a.npy", "one/one.npy", "other/x"):
        train.skip(f"/local/inputs/{path}", None, "bad")
    skipped_records._state.close()
    assert [path for path, _, _ in reported] == [
        "hdfs:///data/set/1/a.npy",
        "hdfs:///data/one.npy",
        "/local/inputs/other/x",
    ]


def test_the_uris_of_files_excluded_at_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert train.excluded_uris("set") == []
    monkeypatch.setenv("YARNAM_INPUT_SET", "hdfs:///data/set/")
    monkeypatch.setenv("YARNAM_SKIPPED_SET", "1/a.jsonl\n2/b.jsonl")
    expected = ["hdfs:///data/set/1/a.jsonl", "hdfs:///data/set/2/b.jsonl"]
    assert train.excluded_uris("set") == expected


def test_what_was_skipped_is_told_to_the_agent_even_at_the_very_end(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1\nx\ny\n3\n")
    code = (
        "import sys\nfrom yarnam import train\n"
        "lines = open(sys.argv[1], 'rb')\n"
        "print(list(train.decoded(lines, int, sys.argv[1], errors=(ValueError,))))\n"
    )
    with Agent(lambda request: {}) as agent:
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)],
            env={
                "PYTHONPATH": str(ROOT),
                "PATH": os.environ["PATH"],
                "YARNAM_RANK": "0",
                "YARNAM_SDK": json.dumps({"request_socket": agent.address}),
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert done.stdout.strip() == "[1, 3]"
    assert "skipped record 1" in done.stderr
    (request,) = agent.requests
    (suspect,) = request["suspects"]
    assert request["request"] == "suspects"
    assert "invalid literal" in suspect.pop("reason")
    assert suspect == {"path": str(path), "times": 2, "first": 1, "last": 2}


def test_a_job_without_a_listener_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("YARNAM_RANK", "0")
    set_sdk(monkeypatch, request_socket="@nobody-listens-here")
    records = skipped_records._SkippedRecords(limit_s=0.1)
    monkeypatch.setattr(skipped_records, "_state", records)
    train.skip("/data/a", 1, "bad")
    skipped_records._state.close()
    assert "cannot report bad records" in capsys.readouterr().err
