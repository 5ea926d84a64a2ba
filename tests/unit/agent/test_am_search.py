"""How an agent finds the next ApplicationMaster, and how long it waits for one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfs_utils.errors import MalformedData
from yarnam.adapters.grpc.am_server import GrpcMailbox
from yarnam.agent.data.am_lookup import find_am, sighting_in
from yarnam.agent.mailbox import mailbox_client
from yarnam.agent.mailbox.am_search import Absence, AmSighting
from yarnam.agent.mailbox.mailbox_client import AmLimits, AmVanished, MailboxClient
from yarnam.agent.mailbox.wake_listener import WakeListener
from yarnam.core.model.actions import AdoptedTask, AdoptGang
from yarnam.core.model.events import Event, TaskExited
from yarnam.core.model.ids import AskId, ContainerId, NodeId
from yarnam.core.model.job_spec import JobSpec, RoleSpec
from yarnam.core.model.resources import Resources
from yarnam.wire.codec import encode
from yarnam.wire.credentials import new_credentials
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.protocol import AM_FILE, PROTOCOL, VERDICT_FILE
from yarnam.wire.records import AmRecord

APPLICATION = "application_1700000000000_0001"
TIMES = st.floats(0.0, 1e4)


@given(TIMES, TIMES, st.floats(1.0, 60.0), st.floats(0.0, 4e3))
def test_it_gives_up_between_its_two_limits(
    heard_at_s: float, later_s: float, orphan_s: float, absence_s: float
) -> None:
    ends_at_s = Absence(heard_at_s, heard_at_s + later_s).ends_at_s(orphan_s, absence_s)
    assert ends_at_s >= heard_at_s + orphan_s
    assert ends_at_s <= heard_at_s + max(orphan_s, absence_s) + 1e-6
    assert ends_at_s <= max(heard_at_s, heard_at_s + later_s) + orphan_s


def test_without_proof_it_is_an_orphan_soon() -> None:
    assert Absence(100.0).ends_at_s(30.0, 1800.0) == 130.0
    assert Absence(100.0, 90.0).ends_at_s(30.0, 1800.0) == 130.0, "an old look"
    assert Absence(100.0, 500.0).ends_at_s(30.0, 1800.0) == 530.0
    assert Absence(100.0, 1890.0).ends_at_s(30.0, 1800.0) == 1900.0


RECORD = AmRecord(APPLICATION, 3, "n1", 4711)


def seen(record: AmRecord | bytes, application: str = "", **known: Any) -> AmSighting:
    content = record if isinstance(record, bytes) else encode(record)
    return sighting_in(content, application, **{"has_verdict": False, "now_s": 0.0, **known})


def test_the_record_is_read_as_foreign() -> None:
    assert seen(RECORD, APPLICATION) == AmSighting(3, "n1:4711")
    v6 = AmRecord(APPLICATION, 3, "::1", 4711)
    assert seen(v6, has_verdict=True) == AmSighting(3, "[::1]:4711", is_last=True)
    for from_s, is_last in ((0.0, False), (60.0, True), (40.0, False), (None, True)):
        record = replace(RECORD, replaced_from_s=from_s)
        assert seen(record, APPLICATION, now_s=50.0).is_last == is_last
    for bad in (b"", b"[]", b"{}", AmRecord(APPLICATION, 0, "n1", 1), b"x" * 100_000):
        with pytest.raises(MalformedData):
            seen(bad)
    with pytest.raises(MalformedData, match="another job"):
        seen(RECORD, "application_1_2")


@pytest.mark.asyncio
async def test_a_look_at_a_directory(tmp_path: Path) -> None:
    uri = tmp_path.as_uri()
    assert await find_am(uri, APPLICATION, {}) is None, "no record"
    (tmp_path / AM_FILE).write_bytes(encode(RECORD))
    assert await find_am(uri, APPLICATION, {}) == AmSighting(3, "n1:4711")
    (tmp_path / VERDICT_FILE).write_bytes(json.dumps({}).encode())
    assert await find_am(uri, APPLICATION, {}) == AmSighting(3, "n1:4711", is_last=True)


# ---- the client between two ApplicationMasters -------------------------------------------------

ASK = AskId(1, "worker", 0)
CONTAINER = ContainerId("container_1700000000000_0001_01_000002")
JOB = JobSpec(
    name="j",
    queue="root.a",
    user="u",
    framework="command",
    roles=(RoleSpec("worker", 1, Resources(512, 1, 1), ("train",)),),
)
PEM = new_credentials()


def mailbox(events: list[Event], am_attempt: int) -> tuple[GrpcMailbox, str]:
    made = GrpcMailbox(JOB, PEM, host="127.0.0.1", am_attempt=am_attempt)
    return made, made.start(events.append)


def report(state: int) -> pb.AgentReport:
    return pb.AgentReport(
        protocol=PROTOCOL, ask=str(ASK), container=CONTAINER, node="n1", state=state, attempt=1
    )


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox_client, "FIRST_SEARCH_S", 0.0)
    monkeypatch.setattr(mailbox_client, "search_pause_s", lambda silent_s: 0.05)


def client(
    address: str, sees: Callable[[], AmSighting | None], found: list[str], limits: AmLimits
) -> MailboxClient:
    async def see() -> AmSighting | None:
        return sees()

    return MailboxClient(
        address, PEM, str(ASK), CONTAINER, limits, WakeListener(), find_am=see, found=found.append
    )


@pytest.mark.asyncio
async def test_a_report_that_the_last_am_did_not_take_reaches_the_next_one() -> None:
    events: list[Event] = []
    first, address = mailbox(events, 1)
    first.expect([ASK])
    found: list[str] = []
    sightings: list[AmSighting] = [AmSighting(1, address)]
    agent = client(address, lambda: sightings[-1], found, AmLimits(30.0, 600.0))
    await agent.report(report(pb.READY))
    await asyncio.to_thread(first.close)
    under_way = asyncio.create_task(agent.report(report(pb.EXITED)))
    await asyncio.sleep(0.5)
    assert not under_way.done()
    second, next_address = mailbox(events, 2)
    task = AdoptedTask(ASK, CONTAINER, NodeId("n1"), is_started=True)
    second.adopt(AdoptGang(1, (), (), (task,)))
    sightings.append(AmSighting(2, next_address))
    try:
        await asyncio.wait_for(under_way, 10.0)
        assert found == [next_address]
        assert [type(event) for event in events if isinstance(event, TaskExited)] == [TaskExited]
    finally:
        await agent.close()
        await asyncio.to_thread(second.close)


@pytest.mark.parametrize(
    ("seen", "is_patient"),
    [
        (AmSighting(1, "127.0.0.1:1"), True),
        (AmSighting(1, "127.0.0.1:1", is_last=True), False),
        (None, False),
    ],
)
@pytest.mark.asyncio
async def test_how_long_it_waits(seen: AmSighting | None, is_patient: bool) -> None:
    events: list[Event] = []
    first, address = mailbox(events, 1)
    first.expect([ASK])
    agent = client(address, lambda: seen, [], AmLimits(0.5, 600.0))
    await agent.report(report(pb.READY))
    await asyncio.to_thread(first.close)
    under_way = asyncio.create_task(agent.report(report(pb.EXITED)))
    done, _ = await asyncio.wait([under_way], timeout=4.0)
    assert bool(done) != is_patient
    under_way.cancel()
    ends = await asyncio.gather(under_way, return_exceptions=True)
    assert isinstance(ends[0], asyncio.CancelledError if is_patient else AmVanished)
    await agent.close()


@pytest.mark.asyncio
async def test_an_earlier_attempt_is_not_followed() -> None:
    found: list[str] = []
    agent = MailboxClient(
        "127.0.0.1:1", PEM, str(ASK), CONTAINER, AmLimits(30.0, 600.0), WakeListener(),
        am_attempt=3, found=found.append,
    )  # fmt: skip
    agent._take_sighting(AmSighting(2, "127.0.0.1:2"), 5.0)
    assert (found, agent._confirmed_at_s) == ([], 5.0)
    agent._take_sighting(AmSighting(4, "127.0.0.1:4"), 6.0)
    assert found == ["127.0.0.1:4"]
    await agent.close()
