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

from hdfs_utils.apart import Outcome
from tests.unit.agent.test_small_parts import CONTAINER
from yarnam.adapters import input_desk
from yarnam.adapters.grpc_mailbox import GrpcMailbox
from yarnam.agent import inputs as agent_side
from yarnam.agent.inputs import InputCare
from yarnam.agent.settings import Settings, read_settings
from yarnam.errors import Unavailable
from yarnam.model.job import Framework, JobSpec
from yarnam.ports.inputs import Check, Complaint
from yarnam.train import _desk
from yarnam.wire.credentials import new_credentials
from yarnam.wire.pb import yarnam_pb2 as pb

pytestmark = pytest.mark.asyncio

JOB = JobSpec("job", "root.q", "me", Framework.COMMAND, ())


def settings_of(directory: Path, am_address: str) -> Settings:
    return read_settings({**CONTAINER, "YARNAM_AM_ADDRESS": am_address}, directory)


class Office:
    """An AM that gives out what a test has put down."""

    def __init__(self) -> None:
        self.left_out: dict[tuple[str, int], tuple[str, ...]] = {}
        self.asked: list[tuple[str, int]] = []
        self.complaints: list[tuple[str, Complaint]] = []
        self.checks: list[Check] = []
        self.outcomes: dict[int, Outcome] = {}

    def settle(self, name: str, epoch: int) -> tuple[str, ...]:
        self.asked.append((name, epoch))
        if (name, epoch) not in self.left_out:
            raise Unavailable("HDFS does not answer")
        return self.left_out[name, epoch]

    def complain(self, node: str, complaints: Sequence[Complaint]) -> None:
        self.complaints += [(node, one) for one in complaints]

    def next_check(self, node: str) -> Check | None:
        return self.checks.pop() if self.checks else None

    def checked(self, number: int, outcome: Outcome) -> None:
        self.outcomes[number] = outcome


class Wire:
    def __init__(self, mailbox: GrpcMailbox, office: Office, care: InputCare) -> None:
        self.mailbox = mailbox
        self.office = office
        self.care = care

    async def ask(self, **question: Any) -> dict[str, Any]:
        """As the SDK does, from a thread."""
        return await asyncio.to_thread(_desk.ask, question, 10.0)


@asynccontextmanager
async def wire(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Wire]:
    pem = new_credentials()
    mailbox = GrpcMailbox(JOB, pem, host="127.0.0.1", application="application_1_1")
    address = mailbox.start(lambda event: None)
    care = InputCare(settings_of(tmp_path, am_address=address), pem, lambda: "")
    await care.open()
    work = asyncio.create_task(care.run())
    monkeypatch.setenv(_desk.VARIABLE, care.address)
    try:
        yield Wire(mailbox, Office(), care)
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
        w.office.left_out["set", 1] = ("a/b", "ü")
        # The AM does not serve yet: the question waits for it.
        asking = asyncio.create_task(w.ask(ask="left-out", input="set", epoch=1))
        await asyncio.sleep(0.3)
        w.mailbox.inputs.serve(w.office)
        assert await asking == {"left_out": ["a/b", "ü"]}
        assert await w.ask(ask="left-out", input="set", epoch=1) == {"left_out": ["a/b", "ü"]}
        assert w.office.asked == [("set", 1)]


async def test_what_cannot_be_told_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with wire(monkeypatch, tmp_path) as w:
        w.mailbox.inputs.serve(w.office)
        with pytest.raises(_desk.NoAnswer, match="HDFS does not answer"):
            await w.ask(ask="left-out", input="set", epoch=1)
        for question in ({"ask": "what"}, {"ask": "left-out"}, {"ask": "suspect", "suspects": 3}):
            with pytest.raises(_desk.NoAnswer, match="question"):
                await w.ask(**question)


async def test_complaints_of_one_file_become_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with wire(monkeypatch, tmp_path) as w:
        w.mailbox.inputs.serve(w.office)
        bad = {"path": "hdfs:///a", "reason": "ValueError", "times": 2, "first": 4, "last": 9}
        more = {"path": "hdfs:///a", "reason": "again", "times": 1, "first": 0, "last": 0}
        whole = {"path": "hdfs:///b", "reason": "cut"}
        await w.ask(ask="suspect", suspects=[bad, more, whole])
        await until(lambda: len(w.office.complaints) == 2)
        assert w.office.complaints == [
            ("n1", Complaint("hdfs:///a", "ValueError", 3, 0, 9)),
            ("n1", Complaint("hdfs:///b", "cut", 1)),
        ]


async def test_files_are_looked_at_and_the_outcome_comes_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n{"b"')
    async with wire(monkeypatch, tmp_path) as w:
        w.mailbox.inputs.serve(w.office)
        await asyncio.sleep(0.1)  # the agent's poll is on its way, or waits
        w.office.checks.append(Check(7, f"file://{tmp_path}/a.jsonl", 30.0))
        w.mailbox.inputs.wake()
        await until(lambda: 7 in w.office.outcomes)
        assert (w.office.outcomes[7].verdict, w.office.outcomes[7].reason) == (
            "corrupt",
            "truncated",
        )


async def test_strangers_on_the_machine_are_not_answered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with wire(monkeypatch, tmp_path) as w:
        monkeypatch.setattr(agent_side, "_is_ours", lambda writer: False)
        w.mailbox.inputs.serve(w.office)
        with pytest.raises(_desk.NoAnswer):
            await asyncio.to_thread(_desk.ask, {"ask": "left-out", "input": "s", "epoch": 0}, 0.3)
        assert w.office.asked == []


async def test_a_fault_here_is_no_reason_to_stop_a_training(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with wire(monkeypatch, tmp_path) as w:
        monkeypatch.setattr(agent_side, "PROTOCOL", 99)
        other = InputCare(
            settings_of(tmp_path, am_address=w.mailbox.address), new_credentials(), lambda: ""
        )
        monkeypatch.setattr(agent_side, "_UNREACHABLE", ())
        other._note([{"path": "/a", "reason": "b"}])
        with caplog.at_level(logging.ERROR):
            await asyncio.wait_for(other.run(), 10)
        assert "the care of inputs has ended" in caplog.text
        await other.close()


async def test_what_agents_tell_is_cut_to_size(caplog: pytest.LogCaptureFixture) -> None:
    many = [pb.SuspectInput(path=f"/{n}", reason="x" * 10_000) for n in range(1000)]
    told = input_desk.complaints_of([*many, pb.SuspectInput()])
    assert len(told) == input_desk.MAX_COMPLAINTS
    assert len(told[0].reason) == input_desk.MAX_TEXT
    assert input_desk.outcome_of(b"\xff").verdict == "not checked"
    assert input_desk.outcome_of(json.dumps([1]).encode()).verdict == "not checked"
