"""What is read of the interceptor's log, and what the broker makes of it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hdfs_utils.errors import MalformedData
from yarnam.adapters.skein.am_client import FAILED, SUCCEEDED, ContainerKey, ContainerRow
from yarnam.adapters.skein.broker import container_end
from yarnam.adapters.skein.response_log import (
    MAX_LINE_BYTES,
    CompletedContainer,
    PreemptionNotice,
    ResponseLog,
    UpdatedNode,
)
from yarnam.adapters.skein.responses import MAX_COMPLETED, Responses
from yarnam.core.model.ids import ContainerId
from yarnam.core.model.outcomes import ContainerEnd

NAME = "container_1700000000000_0001_01_00000"
NOTICE = {"kind": "preemption", "strict": [f"{NAME}2"], "negotiable": []}


def line(**fields: object) -> str:
    return f"{json.dumps(fields)}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "responses.jsonl"


@pytest.fixture
def log(file: Path) -> Iterator[ResponseLog]:
    with closing(ResponseLog(file)) as made:
        yield made


def append(file: Path, text: str) -> None:
    with file.open("a") as stream:
        stream.write(text)


def test_lines_are_read_once_and_whole(file: Path, log: ResponseLog) -> None:
    assert log.read() == []
    assert not log.exists()
    whole = line(**NOTICE)
    append(file, whole[:20])
    assert log.read() == []
    append(file, whole[20:] + line(kind="node", node="n1:8041", state="LOST"))
    notice = PreemptionNotice((ContainerId(f"{NAME}2"),), ())
    assert log.read() == [notice, UpdatedNode("n1:8041", "LOST", None)]
    assert log.read() == []


def test_a_replaced_file_loses_nothing(file: Path, log: ResponseLog) -> None:
    append(file, line(kind="node", node="a:1", state="LOST"))
    assert len(log.read()) == 1
    append(file, line(kind="node", node="b:1", state="LOST"))
    file.rename(file.with_name("responses.jsonl.1"))
    append(file, line(kind="node", node="c:1", state="LOST"))
    assert log.read() == [UpdatedNode("b:1", "LOST", None), UpdatedNode("c:1", "LOST", None)]


def test_a_bad_line_is_passed_over(file: Path, log: ResponseLog) -> None:
    append(file, "nonsense\n" + line(kind="other") + line(kind="node", node="a:1", state="LOST"))
    first, second, third = log.read()
    assert isinstance(first, MalformedData)
    assert isinstance(second, MalformedData)
    assert third == UpdatedNode("a:1", "LOST", None)


def test_a_line_without_end_takes_no_memory(file: Path, log: ResponseLog) -> None:
    append(file, "x" * (MAX_LINE_BYTES + 1))
    (only,) = log.read()
    assert isinstance(only, MalformedData)


def test_the_end_of_a_container_in_yarns_words(file: Path) -> None:
    append(file, line(kind="completed", container=f"{NAME}2", exit_status=3, diagnostics="no disk"))
    with closing(ResponseLog(file)) as log:
        responses = Responses(log)
        assert responses.poll() == []
        row = ContainerRow(ContainerKey("w", 0), FAILED, f"{NAME}2", exit_message="see logs")
        completed = responses.completed(row.container)
    assert container_end(row, completed) == (ContainerEnd.FAILED, "exit status 3: no disk")
    assert container_end(row) == (ContainerEnd.FAILED, "see logs")
    taken = CompletedContainer(ContainerId(row.container), -102, "whatever this release says")
    assert container_end(row, taken)[0] is ContainerEnd.PREEMPTED
    ended = ContainerRow(ContainerKey("w", 0), SUCCEEDED, f"{NAME}2")
    assert container_end(ended, None)[0] is ContainerEnd.EXITED


def test_what_is_remembered_is_bounded(file: Path) -> None:
    lines = (
        line(kind="completed", container=f"container_{n}", exit_status=0, diagnostics="")
        for n in range(MAX_COMPLETED + 1)
    )
    append(file, "".join(lines))
    with closing(ResponseLog(file)) as log:
        responses = Responses(log)
        responses.poll()
    assert responses.completed("container_0") is None
    assert responses.completed("container_1") is not None


def test_without_an_interceptor_the_am_says_so_once(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "yarnam.am"):
        responses = Responses.of_this_container(ResponseLog(file))
        assert responses.poll() == []
        assert responses.poll() == []
    assert [record.getMessage() for record in caplog.records] == [
        (
            "no interceptor in Skein's ApplicationMaster: all heartbeats are sent, and YARN's "
            "preemption notices are not heard ('yarnam doctor' tells why)"
        )
    ]
    assert responses.completed(f"{NAME}2") is None
