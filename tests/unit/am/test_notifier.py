"""Who hears of a job: each state once to each channel, also when an AM dies in between."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest

from tests.fakes.notifications import FakeNotificationSender
from tests.fakes.serial_executor import InlineSerialExecutor
from tests.fakes.state_store import FakeStore
from tests.unit.am.am_world import APPLICATION, AmWorld, Disk, am_world, job, record_of
from yarnam.am.am_settings import AmSettings
from yarnam.am.notifier import TRIES, Notifier, notification_of, notify_failure
from yarnam.am.serial_executor import ThreadSerialExecutor
from yarnam.am.status_report import AmFacts
from yarnam.core.model.job_spec import ChannelKind, ChannelSpec
from yarnam.core.model.job_status import Condition, JobState, JobStatus
from yarnam.core.model.outcomes import Verdict, VerdictKind
from yarnam.errors import Unavailable
from yarnam.ports.notifications import Notification

pytestmark = pytest.mark.asyncio

ENDS = ChannelSpec(ChannelKind.SLACK)
STARTS = ChannelSpec(ChannelKind.WEBHOOK, states=(JobState.RUNNING, JobState.FAILED))
SPEC = job(notify=(ENDS, STARTS))


async def succeed(world: AmWorld) -> Verdict:
    for ask in await world.run_gang():
        world.mailbox.exited(ask, ask.attempt)
    await world.advance(5.0)
    return await world.run


async def test_each_channel_hears_of_its_states_once() -> None:
    disk = Disk()
    async with am_world(SPEC, disk) as world:
        await world.run_gang()
        await world.advance(10.0)
        assert disk.receiver.states == [(1, "RUNNING")]
        for ask in list(world.broker.granted):
            world.mailbox.exited(ask, ask.attempt)
        await world.advance(5.0)
        verdict = await world.run
    assert verdict.kind is VerdictKind.SUCCEEDED
    assert disk.receiver.states == [(1, "RUNNING"), (0, "SUCCEEDED")]
    _, last = disk.receiver.sent[-1]
    assert (last.application, last.name, last.exit_code) == (APPLICATION, "train", 0)
    assert last.message == verdict.message


async def test_who_hears_of_failures_hears_of_a_silent_gang_once_an_attempt() -> None:
    sender, store = FakeNotificationSender(), FakeStore(Disk(), 1)
    channels = (ENDS, ChannelSpec(ChannelKind.WEBHOOK, states=(JobState.RUNNING,)))
    notifier = Notifier(
        channels, sender, store, lambda name: InlineSerialExecutor(), AmSettings(), asyncio.sleep
    )
    silent = JobStatus(
        APPLICATION, "train", "me", "root.dl", JobState.RUNNING, attempt=1,
        conditions=(Condition("silence", "no process has used CPU", 5.0),),
    )  # fmt: skip
    for status in (silent, silent, replace(silent, attempt=2)):
        notifier.see(status)
    await notifier.finish(silent)
    sent = [(channel, one.message) for channel, one in sender.sent]
    found = (0, "no process has used CPU")
    assert sorted(sent) == [found, found, (1, "")]
    assert len({one.id for _, one in sender.sent}) == 3


async def test_what_one_am_has_sent_the_next_does_not_send() -> None:
    disk = Disk()
    async with am_world(SPEC, disk) as world:
        await world.run_gang()
    async with am_world(SPEC, disk, am_attempt=2) as world:
        await world.advance(5.0)
        await succeed(world)
    assert disk.receiver.states == [(1, "RUNNING"), (0, "SUCCEEDED")]


async def test_an_am_that_dies_before_it_could_say_so_is_followed_by_one_that_does() -> None:
    """The verdict is on HDFS, the receiver is away, and the AM is killed meanwhile."""
    disk = Disk()

    def away() -> None:
        raise Unavailable("no answer")

    disk.receiver.fail = away
    async with am_world(SPEC, disk) as world:
        for ask in await world.run_gang():
            world.mailbox.exited(ask, ask.attempt)
        await world.advance(1.0)
        assert disk.verdict is not None
        assert not world.run.done()
    assert disk.receiver.sent == []
    disk.receiver.fail = lambda: None
    async with am_world(SPEC, disk, am_attempt=2) as world:
        await world.advance(5.0)
        await world.run
    assert (0, "SUCCEEDED") in disk.receiver.states


async def test_one_that_dies_between_sending_and_recording_is_followed_by_a_second_one() -> None:
    """At least once; the id tells that it is the same."""
    disk = Disk()
    async with am_world(SPEC, disk) as world:
        await succeed(world)
    del disk.store.records["notified.json"]
    async with am_world(SPEC, disk, am_attempt=2) as world:
        await world.advance(5.0)
        await world.run
    first, second = (one for channel, one in disk.receiver.sent if channel == 0)
    assert first.id == second.id


async def test_a_receiver_that_is_away_for_a_while_hears_of_it_later() -> None:
    disk, left = Disk(), [2]

    def stumble() -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise Unavailable("HTTP 503")

    disk.receiver.fail = stumble
    async with am_world(SPEC, disk) as world:
        await world.run_gang()
        await world.advance(10.0)
        assert disk.receiver.states == [(1, "RUNNING")]


async def test_a_receiver_that_never_answers_does_not_hold_the_job(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk, tries = Disk(), [0]

    def away() -> None:
        tries[0] += 1
        raise Unavailable("no answer")

    disk.receiver.fail = away
    async with am_world(job(notify=(STARTS,)), disk) as world:
        asks = await world.run_gang()
        await world.advance(100.0)
        assert tries[0] == TRIES
        assert "notification of RUNNING by fake 0 given up" in caplog.text
        for ask in asks:
            world.mailbox.exited(ask, ask.attempt)
        await world.advance(5.0)
        assert (await world.run).kind is VerdictKind.SUCCEEDED


async def test_the_end_waits_for_the_receiver_for_a_limited_time() -> None:
    disk = Disk()

    def away() -> None:
        raise Unavailable("no answer")

    disk.receiver.fail = away
    async with am_world(SPEC, disk) as world:
        for ask in await world.run_gang():
            world.mailbox.exited(ask, ask.attempt)
        await world.advance(10.0)
        assert not world.run.done()
        await world.advance(20.0)
        assert world.run.done()


async def test_a_notification_has_the_verdict() -> None:
    verdict = Verdict(VerdictKind.FAILED, 90, "rank 3 exited with 1", "yarnam logs x", 50.0)
    status = JobStatus(APPLICATION, "train", "u", "root.dl", JobState.FAILED, verdict=verdict)
    found = notification_of(0, status)
    assert (found.exit_code, found.message, found.hint, found.at_s) == (
        90, "rank 3 exited with 1", "yarnam logs x", 50.0,
    )  # fmt: skip
    assert found.id != notification_of(1, status).id


async def test_the_end_of_a_job_whose_am_has_failed_is_reported_once() -> None:
    disk = Disk()
    verdict = Verdict(VerdictKind.FAILED, 70, "the ApplicationMaster failed", "", 50.0)
    for _ in range(2):
        notifier = Notifier(
            SPEC.notify, disk.receiver, FakeStore(disk.store, 2), lambda _: InlineSerialExecutor(),
            AmSettings(), asyncio.sleep,
        )  # fmt: skip
        await notify_failure(notifier, record_of(SPEC), AmFacts(APPLICATION, 2), verdict)
    assert disk.receiver.states == [(0, "FAILED"), (1, "FAILED")]
    assert disk.receiver.sent[0][1].exit_code == 70


async def test_a_receiver_that_does_not_answer_delays_no_other_channel() -> None:
    class Halting(FakeNotificationSender):
        def send(self, channel: int, notification: Notification) -> None:
            if channel == 0:
                is_over.wait(60)
            super().send(channel, notification)

    is_over = threading.Event()
    receiver = Halting()
    notifier = Notifier(
        (ENDS, ENDS), receiver, FakeStore(Disk().store, 1), ThreadSerialExecutor, AmSettings(),
        asyncio.sleep,
    )  # fmt: skip
    verdict = Verdict(VerdictKind.SUCCEEDED, 0, "", "", 50.0)
    notifier.see(JobStatus(APPLICATION, "train", "u", "q", JobState.SUCCEEDED, verdict=verdict))
    try:
        for _ in range(1000):
            await asyncio.sleep(0.01)
            if receiver.states:
                break
        assert receiver.states == [(1, "SUCCEEDED")]
    finally:
        is_over.set()
        await notifier.close()
