"""Agents and ApplicationMaster about inputs, over the real wire: gRPC, TLS, Unix socket."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hdfs_utils.validation.check_in_subprocess import CheckOutcome
from tests.unit.agent.test_small_parts import CONTAINER
from yarnam.adapters.grpc import job_inputs
from yarnam.adapters.grpc.am_server import GrpcMailbox
from yarnam.agent.data import input_gateway as agent_side
from yarnam.agent.data.input_gateway import InputGateway
from yarnam.agent.task_config import ContainerSettings, read_container_settings
from yarnam.core.model.job_spec import JobSpec
from yarnam.errors import Unavailable
from yarnam.ports.job_inputs import CheckOrder, SuspectReport
from yarnam.train._job import agent_client
from yarnam.wire.credentials import new_credentials
from yarnam.wire.pb import yarnam_pb2 as pb

pytestmark = pytest.mark.asyncio

JOB = JobSpec("job", "root.q", "me", "command", ())


def settings_of(directory: Path, am_address: str) -> ContainerSettings:
    return read_container_settings({**CONTAINER, "YARNAM_AM_ADDRESS": am_address}, directory)


class Service:
    """An AM that gives out what a test has put down."""

    def __init__(self) -> None:
        self.excluded: dict[tuple[str, int], tuple[str, ...]] = {}
        self.asked: list[tuple[str, int]] = []
        self.complaints: list[tuple[str, SuspectReport]] = []
        self.checks: list[CheckOrder] = []
        self.outcomes: dict[int, CheckOutcome] = {}

    def settle(self, name: str, epoch: int) -> tuple[str, ...]:
        self.asked.append((name, epoch))
        if (name, epoch) not in self.excluded:
            raise Unavailable("HDFS does not answer")
        return self.excluded[name, epoch]

    def complain(self, node: str, complaints: Sequence[SuspectReport]) -> None:
        self.complaints += [(node, one) for one in complaints]

    def next_check(self, node: str) -> CheckOrder | None:
        return self.checks.pop() if self.checks else None

    def checked(self, number: int, outcome: CheckOutcome) -> None:
        self.outcomes[number] = outcome


class Wire:
    def __init__(
        self, mailbox: GrpcMailbox, service: Service, care: InputGateway, pem: bytes
    ) -> None:
        self.pem = pem
        self.mailbox = mailbox
        self.service = service
        self.care = care

    async def ask(self, **request: Any) -> dict[str, Any]:
        """As the SDK does, from a thread."""
        return await asyncio.to_thread(agent_client.call_agent, request, 10.0)


@asynccontextmanager
async def wire(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Wire]:
    pem = new_credentials()
    mailbox = GrpcMailbox(JOB, pem, host="127.0.0.1", application="application_1_1")
    address = mailbox.start(lambda event: None)
    care = InputGateway(settings_of(tmp_path, am_address=address), pem, lambda: "")
    await care.open()
    work = asyncio.create_task(care.run())
    monkeypatch.setenv("YARNAM_SDK", json.dumps({"request_socket": care.address}))
    try:
        yield Wire(mailbox, Service(), care, pem)
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await care.close()
        await asyncio.to_thread(mailbox.close)


async def until(what: Any) -> None:
    for _ in range(1000):
        if what():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("not within 10 s")


async def test_an_epochs_list_is_asked_for_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with wire(monkeypatch, tmp_path) as w:
        w.service.excluded["set", 1] = ("a/b", "ü")
        # The AM does not serve yet: the question waits for it.
        asking = asyncio.create_task(w.ask(request="excluded-files", input="set", epoch=1))
        await asyncio.sleep(0.3)
        w.mailbox.inputs.serve(w.service)
        assert await asking == {"excluded": ["a/b", "ü"]}
        assert await w.ask(request="excluded-files", input="set", epoch=1) == {
            "excluded": ["a/b", "ü"]
        }
        assert w.service.asked == [("set", 1)]


async def test_what_cannot_be_told_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with wire(monkeypatch, tmp_path) as w:
        w.mailbox.inputs.serve(w.service)
        with pytest.raises(agent_client.AgentUnavailable, match="HDFS does not answer"):
            await w.ask(request="excluded-files", input="set", epoch=1)
        for request in ("what", "excluded-files", "suspects"):
            with pytest.raises(agent_client.AgentUnavailable, match="request"):
                await w.ask(request=request, suspects=3)


async def test_complaints_of_one_file_become_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with wire(monkeypatch, tmp_path) as w:
        w.mailbox.inputs.serve(w.service)
        bad = {"path": "hdfs:///a", "reason": "ValueError", "times": 2, "first": 4, "last": 9}
        more = {"path": "hdfs:///a", "reason": "again", "times": 1, "first": 0, "last": 0}
        whole = {"path": "hdfs:///b", "reason": "cut"}
        await w.ask(request="suspects", suspects=[bad, more, whole])
        await until(lambda: len(w.service.complaints) == 2)
        assert w.service.complaints == [
            ("n1", SuspectReport("hdfs:///a", "ValueError", 3, 0, 9)),
            ("n1", SuspectReport("hdfs:///b", "cut", 1)),
        ]


async def test_files_are_looked_at_and_the_outcome_comes_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n{"b"')
    async with wire(monkeypatch, tmp_path) as w:
        w.mailbox.inputs.serve(w.service)
        await asyncio.sleep(0.1)  # the agent's poll is on its way, or waits
        w.service.checks.append(CheckOrder(7, f"file://{tmp_path}/a.jsonl", 30.0))
        w.mailbox.inputs.wake()
        await until(lambda: 7 in w.service.outcomes)
        assert (w.service.outcomes[7].verdict, w.service.outcomes[7].reason) == (
            "corrupt",
            "truncated",
        )


async def test_strangers_on_the_machine_are_not_answered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with wire(monkeypatch, tmp_path) as w:
        monkeypatch.setattr(agent_side, "_is_ours", lambda writer: False)
        w.mailbox.inputs.serve(w.service)
        with pytest.raises(agent_client.AgentUnavailable):
            await asyncio.to_thread(
                agent_client.call_agent,
                {"request": "excluded-files", "input": "s", "epoch": 0},
                0.3,
            )
        assert w.service.asked == []


async def test_a_fault_here_is_no_reason_to_stop_a_training(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with wire(monkeypatch, tmp_path) as w:
        w.mailbox.inputs.serve(w.service)
        settings = settings_of(tmp_path, am_address=w.mailbox.address)
        other = InputGateway(settings, w.pem, lambda: "", protocol=99)
        other._add_suspects([agent_side.Suspect("/a", "b")])
        with caplog.at_level(logging.ERROR):
            await asyncio.wait_for(other.run(), 10)
        assert "the input gateway has ended" in caplog.text
        await other.close()


async def test_what_agents_tell_is_cut_to_size(caplog: pytest.LogCaptureFixture) -> None:
    many = [pb.SuspectInput(path=f"/{n}", reason="x" * 10_000) for n in range(1000)]
    told = job_inputs.suspects_of([*many, pb.SuspectInput()])
    assert len(told) == job_inputs.MAX_SUSPECTS
    assert len(told[0].reason) == job_inputs.MAX_TEXT
    assert job_inputs.outcome_of(b"\xff").verdict == "not checked"
    assert job_inputs.outcome_of(json.dumps([1]).encode()).verdict == "not checked"
