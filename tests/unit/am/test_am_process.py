"""The AM's entry: who am I, has it been decided already, and what is loaded to find out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.files import MemoryFiles
from tests.fakes.state_store import FakeStore, StoreDisk
from yarnam.cli.containers import am_process
from yarnam.cli.containers.am_process import am_attempt_of, application_of
from yarnam.cli.containers.am_wiring import _failure, _persisted, _rm_urls, _tracking_url
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.outcomes import Verdict, VerdictKind
from yarnam.errors import BadConfig, ExitCode, InternalError, Unavailable
from yarnam.wire.codec import encode
from yarnam.wire.records import JobRecord


@pytest.mark.parametrize(
    ("container", "attempt"),
    [
        ("container_1700000000000_0001_01_000001", 1),
        ("container_e17_1700000000000_0001_02_000001", 2),
    ],
)
def test_am_attempt_and_application_from_the_container(container: str, attempt: int) -> None:
    assert am_attempt_of(container) == attempt
    assert application_of(container) == "application_1700000000000_0001"


@pytest.mark.parametrize("container", ["", "nonsense", "container_a_b_c_d"])
def test_outside_of_a_container(container: str) -> None:
    with pytest.raises(InternalError, match="not in a YARN container"):
        am_attempt_of(container)


def test_a_persisted_verdict_is_found_or_not() -> None:
    fs = MemoryFiles()
    assert am_process._persisted_verdict(fs, "/job") is None
    verdict = Verdict(VerdictKind.FAILED, 90, "exit code 3", "look", 5.0)
    fs.write_atomic("/job/verdict.json", encode(verdict))
    assert am_process._persisted_verdict(fs, "/job") == verdict


def test_obeying_loads_nothing_heavy() -> None:
    """The user waits for the second AM attempt: no asyncio, no gRPC before the verdict is read."""
    code = (
        "import json, sys; import yarnam.cli.containers.am_process;"
        "print(json.dumps([m for m in ('asyncio','grpc','skein','click','pydantic','rich','yaml',"
        "'hdfs_native','yarnam.am') if m in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(done.stdout) == []


def test_the_whole_am_loads_no_part_of_the_command_line() -> None:
    code = (
        "import json, sys; import yarnam.cli.containers.am_wiring;"
        "print(json.dumps([m for m in ('click','pydantic','rich','yaml','skein',"
        "'yarnam.spec','yarnam.client') if m in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(done.stdout) == []


def test_the_ams_own_failures_have_a_code_and_a_hint() -> None:
    known = _failure(Unavailable("HDFS is away", hint="start it"))
    assert (known.exit_code, known.message, known.hint) == (
        ExitCode.UNAVAILABLE,
        "HDFS is away",
        "start it",
    )
    unknown = _failure(ZeroDivisionError("oops"))
    assert unknown.exit_code == ExitCode.INTERNAL
    assert "ZeroDivisionError: oops" in unknown.message
    assert unknown.hint


def test_a_verdict_that_yarn_has_not_heard_of_stays() -> None:
    """A success whose report to Skein fails is no failure of the job."""
    store = FakeStore(StoreDisk(), 1)
    failure = _failure(Unavailable("shutdown: DEADLINE_EXCEEDED"))
    success = Verdict(VerdictKind.SUCCEEDED, 0, "done", "", 5.0)
    store.put("verdict.json", encode(success))
    assert _persisted(store, failure) == success
    empty = FakeStore(StoreDisk(), 1)
    assert _persisted(empty, failure) == failure
    assert empty.get("verdict.json") == encode(failure)


def record(rm_url: str) -> JobRecord:
    job = JobSpec("j", "root.a", "u", "command", ())
    return JobRecord(job, (), "hdfs://nn/j", 1.0, "0", rm_url)


def test_the_clients_rm_first_then_the_configurations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(BadConfig):
        _rm_urls(record(""))
    assert _rm_urls(record("http://rm1:8088")) == ["http://rm1:8088"]
    name = "<name>yarn.resourcemanager.hostname</name><value>rm2</value>"
    text = f"<configuration><property>{name}</property></configuration>"
    (tmp_path / "yarn-site.xml").write_text(text)
    assert _rm_urls(record("http://rm1:8088")) == ["http://rm1:8088", "http://rm2:8088"]
    assert _rm_urls(record("http://rm2:8088")) == ["http://rm2:8088"]


def test_tracking_url() -> None:
    assert _tracking_url(record("http://rm:8088/"), "application_1_1") == (
        "http://rm:8088/proxy/application_1_1/"
    )
    assert _tracking_url(record(""), "application_1_1") == ""
