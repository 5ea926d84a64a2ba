"""The loop end to end in a world of fakes: step, planner and executor are the real ones."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.fakes.cluster_view import cluster
from tests.fakes.task_mailbox import FakeMailbox
from tests.unit.am.am_world import Disk, am_world, job
from yarnam.am.am_settings import AmSettings
from yarnam.core.accounting.ledger import account_all
from yarnam.core.model.actions import AdoptGang
from yarnam.core.model.events import (
    AmRestarted,
    CancelRequested,
    CheckpointMirrored,
    JitterDrawn,
    JobStarted,
    PlanReady,
    PlanRefused,
    SuspendRequested,
    TrainingReported,
)
from yarnam.core.model.job_spec import GangSpec
from yarnam.core.model.job_status import JobState, Use
from yarnam.core.model.metrics import AgentMetrics, MirrorReport
from yarnam.core.model.outcomes import ContainerEnd, VerdictKind
from yarnam.core.model.plans import Reason
from yarnam.errors import ExitCode, InternalError, Unavailable
from yarnam.ports import Superseded
from yarnam.wire.protocol import AM_FILE, SECRET_FILES, STATUS_FILE

pytestmark = pytest.mark.asyncio


async def test_a_gang_runs_from_submit_to_verdict() -> None:
    async with am_world() as world:
        assert world.phase == "ACQUIRING"
        assert len(world.broker.pending) == 2
        asks = await world.run_gang()
        assert world.phase == "RUNNING"
        assert [attempt for attempt, _ in world.mailbox.launches] == [1]
        for ask in asks:
            world.mailbox.exited(ask, 1)
        await world.advance(5.0)
        verdict = await world.run
    assert verdict.kind is VerdictKind.SUCCEEDED
    assert world.broker.verdict == verdict
    assert world.disk.verdict == verdict
    assert world.broker.granted == {}
    assert set(world.mailbox.orders.values()) == {"leave"}
    assert {AM_FILE, STATUS_FILE} <= world.disk.store.records.keys()
    assert world.status.state is JobState.SUCCEEDED
    assert world.disk.journal.is_closed


@pytest.mark.parametrize(
    ("code", "am_attempt", "is_kept"),
    [(0, 1, False), (3, 1, True), (3, 2, False)],
    ids=["success", "failure", "failure of the last AM attempt"],
)
async def test_secrets_go_with_the_verdict_unless_another_am_attempt_needs_them(
    code: int, am_attempt: int, is_kept: bool
) -> None:
    """YARN starts the next one after every deliberate failure, and it must find its files."""
    disk = Disk()
    disk.store.records.update(dict.fromkeys(SECRET_FILES, b"secret"))
    async with am_world(disk=disk, am_attempt=am_attempt) as world:
        for ask in await world.run_gang():
            world.mailbox.exited(ask, 1, code=code)
        await world.advance(30.0)
        await world.run
    assert [name in disk.store.records for name in SECRET_FILES] == [is_kept] * len(SECRET_FILES)
    assert world.broker.verdict == world.disk.verdict


async def test_secrets_that_cannot_be_removed_hold_nothing_up() -> None:
    async with am_world() as world:
        world.disk.store.records.update(dict.fromkeys(SECRET_FILES, b"secret"))
        world.disk.store.no_removal = True
        for ask in await world.run_gang():
            world.mailbox.exited(ask, 1)
        await world.advance(30.0)
        verdict = await world.run
    assert verdict.kind is VerdictKind.SUCCEEDED
    assert world.broker.verdict == verdict


@pytest.mark.parametrize("code", [0, 1])
async def test_claims_are_released_before_the_application_ends(code: int) -> None:
    """Whoever waits for the end may submit the next job immediately."""
    async with am_world() as world:
        asks = await world.run_gang()
        assert world.released_at == []
        for ask in asks:
            world.mailbox.exited(ask, 1, code=code)
        await world.advance(30.0)
        await world.run
        assert world.broker.verdict is not None
    assert world.released_at == [None]


async def test_no_order_to_start_before_the_last_agent_is_parked() -> None:
    async with am_world() as world:
        await world.grant_all()
        first, second = world.broker.granted
        world.mailbox.register(first, world.broker.granted[first].node)
        await world.settle()
        assert world.mailbox.launches == []
        world.mailbox.register(second, world.broker.granted[second].node)
        await world.settle()
        assert len(world.mailbox.launches) == 1


async def test_the_journal_is_written_before_anything_is_asked_for() -> None:
    disk = Disk()
    async with am_world(disk=disk) as world:
        kinds = [type(event) for event in disk.journal.events]
        assert kinds == [JobStarted, PlanReady]
        await world.grant_all()
        disk.journal.outages = 1
        before = len(disk.journal.events)
        await world.register_all()
        # HDFS is away: the agents are known to be parked, but nothing may follow from it yet.
        assert len(disk.journal.events) == before
        assert world.mailbox.launches == []
        assert "HDFS does not answer" in world.am._trouble
        await world.advance(5.0)
        assert len(world.mailbox.launches) == 1
        assert world.am._trouble == ""


@pytest.mark.parametrize("end", [ContainerEnd.PREEMPTED, ContainerEnd.FAILED])
async def test_the_mailbox_forgets_agents_whose_containers_have_ended(end: ContainerEnd) -> None:
    """YARN has no container left to release, and its agent will never ask for its order."""
    async with am_world() as world:
        asks = await world.run_gang()
        for ask in asks:
            world.broker.end(ask, end, "gone")
        await world.advance(60.0)
        assert world.am.gang.attempt > 1
        assert [world.mailbox.is_expected(ask) for ask in asks] == [False, False]
        assert all(world.mailbox.is_expected(ask) for ask in world.broker.pending)


async def test_the_fold_of_the_journal_is_the_gang() -> None:
    disk = Disk()
    async with am_world(disk=disk) as world:
        asks = await world.run_gang()
        world.broker.end(asks[0], ContainerEnd.LOST, "node lost")
        await world.advance(3.0)
        assert account_all(world.record.job, 0.0, disk.journal.events)[0] == world.am.gang


async def test_a_batch_is_one_append_in_the_order_of_the_inbox() -> None:
    async with am_world(job(tasks=3, gpus=2)) as world:
        appended: list[int] = []
        journal = world.am._ports.journal
        original = journal.append
        journal.append = lambda events: (appended.append(len(events)), original(events))[1]  # type: ignore[assignment, func-returns-value, method-assign]
        world.broker.grant_all()
        await world.settle()
        assert appended == [3]


async def test_hold_timeout_releases_everything_late_grants_too() -> None:
    async with am_world() as world:
        first, second = world.broker.pending
        world.broker.grant(first, world.broker.pending[first].nodes[0])
        await world.advance(29.0)
        assert world.phase == "ACQUIRING"
        await world.advance(1.5)
        assert world.phase == "BACKING_OFF"
        assert world.broker.granted == {}
        assert world.broker.pending == {}
        assert world.mailbox.orders[first] == "leave"
        world.broker.grant(second, "n1")
        await world.settle()
        assert world.broker.given_back == [second]
        assert world.status.state is JobState.QUEUED
        assert "backing off" in world.status.reason
        # Full jitter with a draw of 0.5: half of the first back-off of 4 s.
        await world.advance(2.5)
        assert world.phase == "ACQUIRING"
        assert {ask.attempt for ask in world.broker.pending} == {2}


async def test_gang_that_can_never_be_held_ends_with_gang_timeout() -> None:
    async with am_world(
        job(gang=GangSpec(hold_timeout_s=5, attempts=2, backoff_base_s=1))
    ) as world:
        for _ in range(2):
            world.broker.grant_one()
            await world.advance(10.0)
        verdict = await world.run
    assert verdict.exit_code == ExitCode.GANG_TIMEOUT
    assert "1 of 2" in verdict.message


async def test_full_cluster_backs_off_and_asks_when_there_is_room() -> None:
    disk = Disk()
    async with am_world(job(tasks=2, gpus=8), disk=disk) as world:
        world.view.shown = cluster(used=1)
        world.broker.grant_one()
        await world.advance(31.0)
        assert world.phase == "BACKING_OFF"
        await world.advance(10.0)
        # Attempt 2 has looked, found no room, and has asked for nothing.
        assert world.broker.pending == {}
        refused = [e for e in disk.journal.events if isinstance(e, PlanRefused)]
        assert refused
        assert not refused[0].no_fit.is_never
        world.view.shown = cluster()
        await world.advance(60.0)
        assert len(world.broker.pending) == 2


async def test_a_silent_resource_manager_is_asked_again_and_events_go_on() -> None:
    disk = Disk()
    settings = AmSettings(plan_patience_s=100.0)
    async with am_world(disk=disk, settings=settings) as world:
        await world.run_gang()
        world.view.silent = 10_000
        world.broker.end(next(iter(world.broker.granted)), ContainerEnd.LOST, "lost")
        await world.advance(40.0)
        assert world.phase == "PENDING"
        assert "ResourceManager does not answer" in world.status.reason
        world.mailbox._inbox(CancelRequested(world.clock.now_s(), "me", "enough"))
        await world.advance(5.0)
        verdict = await world.run
    assert verdict.exit_code == ExitCode.CANCELLED


async def test_a_resource_manager_gone_too_long_counts_as_no_room_now() -> None:
    disk = Disk()
    async with am_world(disk=disk, settings=AmSettings(plan_patience_s=20.0)) as world:
        await world.run_gang()
        world.view.silent = 10_000
        world.broker.end(next(iter(world.broker.granted)), ContainerEnd.LOST, "lost")
        await world.advance(60.0)
        refused = [e for e in disk.journal.events if isinstance(e, PlanRefused)]
        assert {event.no_fit.reason for event in refused} == {Reason.RM_UNREACHABLE}
        world.view.silent = 0
        await world.advance(60.0)
        assert world.phase == "ACQUIRING"


async def test_users_failure_stops_the_others_and_is_the_verdict() -> None:
    async with am_world() as world:
        first, second = await world.run_gang()
        world.mailbox.exited(first, 1, code=3)
        await world.advance(1.0)
        assert world.mailbox.orders[second] == "stop"
        world.mailbox.exited(second, 1, code=1)
        await world.advance(5.0)
        verdict = await world.run
    assert verdict.exit_code == ExitCode.USER_FAILED
    assert world.broker.verdict == verdict


async def test_a_lost_node_starts_the_gang_again_in_a_new_attempt() -> None:
    async with am_world() as world:
        first, second = await world.run_gang()
        world.broker.end(first, ContainerEnd.LOST, "node lost")
        await world.advance(1.0)
        assert world.mailbox.orders[second] == "stop"
        world.mailbox.exited(second, 1, code=1)
        await world.advance(30.0)
        await world.run_gang()
        assert world.phase == "RUNNING"
        assert [attempt for attempt, _ in world.mailbox.launches] == [1, 2]
        assert world.status.attempt == 2


async def test_cancel_in_every_phase_leaves_nothing_behind() -> None:
    for stage in range(4):
        async with am_world() as world:
            if stage == 1:
                world.broker.grant(next(iter(world.broker.pending)), "n1")
            elif stage == 2:
                await world.grant_all()
                await world.register_all()
            elif stage == 3:
                await world.run_gang()
            await world.settle()
            world.mailbox._inbox(CancelRequested(world.clock.now_s(), "alice"))
            await world.settle()
            for ask in list(world.broker.granted):
                world.mailbox.exited(ask, 1, code=1)
            await world.advance(30.0)
            verdict = await world.run
        assert verdict.exit_code == ExitCode.CANCELLED, stage
        assert "alice" in verdict.message
        assert world.broker.granted == {}
        assert world.broker.pending == {}


async def test_broker_failure_ends_the_job_as_unavailable() -> None:
    async with am_world() as world:
        world.broker.refusal = InternalError("addContainer: UNKNOWN")
        world.broker.grant(next(iter(world.broker.pending)), "n1")
        world.broker.end(next(iter(world.broker.granted)), ContainerEnd.FAILED, "start failed")
        await world.advance(5.0)
        verdict = await world.run
    assert verdict.exit_code == ExitCode.UNAVAILABLE
    assert "addContainer" in verdict.message


async def test_metrics_reach_the_status_and_yarns_progress_bar() -> None:
    async with am_world() as world:
        first, second = await world.run_gang()
        values = (("accuracy", 0.5), ("loss", 1.25))
        world.mailbox.measured = [
            AgentMetrics(first, 0, 1.0, 30, 120, values),
            AgentMetrics(second, 1, 1.0, 29, 120, (("loss", 2.0),)),
        ]
        await world.advance(6.0)
        status = world.status
        assert (status.step, status.total_steps, status.loss) == (30, 120, 1.25)
        assert {task.loss for task in status.tasks} == {1.25, 2.0}
        assert status.application == "application_1_0001"
        assert world.broker.progress == [0.25]


async def test_of_a_large_gang_the_status_is_not_published_after_every_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("yarnam.am.loop.LARGE_GANG", 3)
    async with am_world(job(tasks=4, gpus=1)) as world:
        asks = await world.grant_all()
        before = len(world.publisher.statuses)
        for ask in asks[:3]:
            world.mailbox.register(ask, world.broker.granted[ask].node)
            await world.settle()
        assert len(world.publisher.statuses) == before
        await world.advance(1.0)
        assert len(world.publisher.statuses) == before + 1
        world.mailbox.register(asks[3], world.broker.granted[asks[3]].node)
        await world.settle()
        assert world.status.phase != "ACQUIRING", "a new phase is published at once"


async def test_a_large_gang_is_looked_at_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yarnam.am.loop.TASKS_WATCHED_A_SECOND", 0.5)
    async with am_world() as world:
        first, _ = await world.run_gang()
        await world.advance(1.0)  # the look that was due before there was a gang
        before = len(world.publisher.statuses)
        for step in (1, 2, 3):
            world.mailbox.measured = [AgentMetrics(first, 0, 1.0, step, 9, ())]
            await world.advance(1.0)
        assert len(world.publisher.statuses) == before, "two tasks: every four seconds"
        await world.advance(1.0)
        assert len(world.publisher.statuses) == before + 1


async def test_clients_can_read_every_event() -> None:
    disk = Disk()
    async with am_world(disk=disk) as world:
        await world.run_gang()
        assert len(world.publisher.events) == len(disk.journal.events)


@pytest.mark.parametrize("am_attempt", [1, 2])
async def test_a_job_that_cannot_be_shown_ends_as_any_other(am_attempt: int) -> None:
    disk = Disk()
    if am_attempt == 2:
        async with am_world(disk=disk):
            pass
    async with am_world(disk=disk, am_attempt=am_attempt, can_be_shown=False) as world:
        await world.advance(30.0)
        for ask in await world.run_gang():
            world.mailbox.exited(ask, ask.attempt)
        await world.advance(5.0)
        verdict = await asyncio.wait_for(world.run, 1.0)
    assert verdict.kind is VerdictKind.SUCCEEDED
    assert world.broker.verdict == verdict
    assert not world.publisher.events


async def test_hdfs_away_for_too_long_ends_the_am_attempt() -> None:
    disk = Disk()
    async with am_world(disk=disk, settings=AmSettings(journal_patience_s=30.0)) as world:
        disk.journal.outages = 10_000
        await world.grant_all()
        await world.advance(60.0)
        with pytest.raises(Unavailable):
            await asyncio.wait_for(world.run, 1.0)
    assert world.broker.verdict is None


async def test_verdict_is_carried_out_even_when_it_cannot_be_written() -> None:
    disk = Disk()
    async with am_world(disk=disk, settings=AmSettings(store_patience_s=10.0)) as world:
        asks = await world.run_gang()
        disk.store.outages = 10_000
        for ask in asks:
            world.mailbox.exited(ask, 1)
        await world.advance(60.0)
        verdict = await world.run
    assert world.broker.verdict == verdict


async def test_an_older_am_attempt_stops_when_a_newer_one_has_the_journal() -> None:
    disk = Disk()
    async with am_world(disk=disk) as world:
        disk.journal.newest = 2
        world.broker.grant_all()
        await world.settle()
        with pytest.raises(Superseded):
            await asyncio.wait_for(world.run, 1.0)
    assert world.broker.verdict is None


async def test_a_new_am_attempt_backs_off_with_the_old_counts_and_runs() -> None:
    disk = Disk()
    async with am_world(disk=disk) as world:
        await world.run_gang()
    async with am_world(disk=disk, am_attempt=2) as world:
        assert any(isinstance(event, AmRestarted) for event in disk.journal.events)
        assert world.phase == "BACKING_OFF"
        assert world.broker.pending == {}
        await world.advance(10.0)
        assert {ask.attempt for ask in world.broker.pending} == {2}
        asks = await world.run_gang()
        for ask in asks:
            world.mailbox.exited(ask, 2)
        await world.advance(5.0)
        verdict = await world.run
    assert verdict.kind is VerdictKind.SUCCEEDED
    assert world.status.am_attempt == 2


async def test_a_new_am_attempt_adopts_what_yarn_has_kept() -> None:
    disk = Disk()
    async with am_world(disk=disk) as world:
        first, second = await world.run_gang()
        grants = dict(world.broker.granted)
    async with am_world(disk=disk, am_attempt=2, kept=grants) as world:
        assert world.phase == "RUNNING"
        assert world.mailbox.orders == {first: "launch", second: "launch"}
        assert world.broker.pending == {}
        world.mailbox.exited(first, 1)
        world.mailbox.exited(second, 1)
        await world.advance(5.0)
        verdict = await world.run
    assert verdict.kind is VerdictKind.SUCCEEDED
    assert world.mailbox.launches == []
    assert (world.status.am_attempt, world.status.attempt) == (2, 1)


async def test_a_task_whose_container_is_gone_with_the_am_is_a_lost_one() -> None:
    disk = Disk()
    async with am_world(disk=disk) as world:
        first, _ = await world.run_gang()
        grants = {first: world.broker.granted[first]}
    async with am_world(disk=disk, am_attempt=2, kept=grants) as world:
        world.mailbox.stopped(first, 1)
        await world.advance(5.0)
        assert world.phase == "REPLACING"
        assert world.broker.granted.keys() == {first}


async def test_agents_are_told_of_a_new_am_once_their_gang_is_adopted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = Disk()
    async with am_world(disk=disk) as world:
        await world.run_gang()
        grants = dict(world.broker.granted)
    del disk.store.records[AM_FILE]
    adopt, was_announced = FakeMailbox.adopt, []

    def observed(mailbox: FakeMailbox, action: AdoptGang) -> None:
        was_announced.append(AM_FILE in disk.store.records)
        adopt(mailbox, action)

    monkeypatch.setattr(FakeMailbox, "adopt", observed)
    async with am_world(disk=disk, am_attempt=2, kept=grants) as world:
        await world.advance(1.0)
        assert world.phase == "RUNNING"
    assert was_announced == [False]
    assert AM_FILE in disk.store.records


async def test_requests_that_were_left_are_obeyed_once() -> None:
    disk = Disk()
    async with am_world(disk=disk) as world:
        first, second = await world.run_gang()
        grants = dict(world.broker.granted)
    left = [SuspendRequested(world.clock.now_s() - 1.0, "ann", 600.0, "a demo")]
    forgotten: list[int] = []
    async with am_world(disk=disk, am_attempt=2, kept=grants, left=left, forgotten=forgotten) as am:
        assert am.mailbox.orders == {first: "stop", second: "stop"}
        am.mailbox.stopped(first, 1)
        am.mailbox.stopped(second, 1)
        await am.advance(5.0)
        assert am.phase == "SUSPENDED"
    assert forgotten == [1]
    async with am_world(disk=disk, am_attempt=3, left=left, forgotten=forgotten) as am:
        await am.advance(1.0)
        assert am.phase == "SUSPENDED"
    requests = [event for event in disk.journal.events if isinstance(event, SuspendRequested)]
    assert [(event.by, event.reason) for event in requests] == [("ann", "a demo")]
    assert forgotten == [1, 1]


async def test_a_new_am_attempt_obeys_a_verdict_that_only_the_journal_has() -> None:
    disk = Disk()
    async with am_world(disk=disk, settings=AmSettings(store_patience_s=1.0)) as world:
        first, second = await world.run_gang()
        disk.store.outages = 10_000
        world.mailbox.exited(first, 1, code=3)
        world.mailbox.exited(second, 1, code=3)
        await world.advance(30.0)
        earlier = await world.run
    disk.store.outages = 0
    async with am_world(disk=disk, am_attempt=2) as world:
        await world.advance(5.0)
        verdict = await world.run
    assert verdict == earlier
    assert world.mailbox.launches == []
    assert disk.verdict == earlier


async def test_jitter_is_drawn_by_the_shell_and_journaled() -> None:
    disk = Disk()
    async with am_world(disk=disk) as world:
        world.broker.grant_one()
        await world.advance(31.0)
        drawn = [event for event in disk.journal.events if isinstance(event, JitterDrawn)]
        assert [event.u for event in drawn] == [0.5]


async def test_the_training_goes_to_the_journal_and_into_the_ledger() -> None:
    disk = Disk()
    async with am_world(disk=disk) as world:
        first, second = await world.run_gang()
        for step, saved in ((1, None), (50, 40)):
            values = (("loss", 1.0), ("saving_s", 2.0), ("resumed_step", 0.0))
            values += (("saved_step", float(saved)),) if saved else ()
            world.mailbox.measured = [
                AgentMetrics(first, 0, 1.0, step, 120, values, attempt=1),
                AgentMetrics(second, 1, 1.0, 999, 120, values, attempt=0),
            ]
            await world.advance(20.0)
        reports = [event for event in disk.journal.events if isinstance(event, TrainingReported)]
        assert [(one.step, one.saved_step, one.resumed_step) for one in reports] == [
            (1, None, 0),
            (50, 40, 0),
        ]
        assert world.status.metrics == (("loss", 1.0),)
        world.mailbox.measured[0] = replace(world.mailbox.measured[0], step=70)
        for ask in (first, second):
            world.mailbox.exited(ask, 1)
        await world.advance(5.0)
        await world.run
    last = [event for event in disk.journal.events if isinstance(event, TrainingReported)][-1]
    assert last.step == 70
    found = world.status.ledger
    assert found is not None
    assert found.of(Use.CHECKPOINTING).wall_s == pytest.approx(2.0)
    assert found.of(Use.KEPT).wall_s == pytest.approx(37.0, abs=2.0)


async def test_the_sets_of_files_that_are_kept_go_to_the_journal_and_into_the_status() -> None:
    disk = Disk()
    async with am_world(disk=disk) as world:
        first, second = await world.run_gang()
        for number in (0, 1, 1, 2):
            kept = MirrorReport(number, 3, 1 << 30, 1000.0 + number)
            other = MirrorReport(7, 1, 10, 900.0, "HDFS is full")
            world.mailbox.measured = [
                AgentMetrics(first, 0, 1.0, None, None, (), attempt=1, mirror=kept),
                AgentMetrics(second, 1, 1.0, None, None, (), attempt=1, mirror=other),
            ]
            await world.advance(20.0)
        events = [event for event in disk.journal.events if isinstance(event, CheckpointMirrored)]
        assert [(one.number, one.files, one.saved_at_s) for one in events] == [
            (1, 3, 1001.0),
            (2, 3, 1002.0),
        ]
        found = world.status.mirror
        assert found is not None
        assert found.words(1062.0) == (
            "set 2 of 3 files, 1.0 GiB, kept 1m00s ago (and those of 1 more tasks); "
            "rank 1: HDFS is full"
        )


async def test_a_second_am_attempt_goes_on_with_the_accounts_of_the_first() -> None:
    disk = Disk()
    async with am_world(disk=disk) as world:
        await world.run_gang()
        await world.advance(100.0)
        before = world.status.ledger
    async with am_world(disk=disk, am_attempt=2) as world:
        after = world.status.ledger
    assert before is not None
    assert after is not None
    assert before.of(Use.KEPT).wall_s > 0
    assert after.of(Use.WAITING).wall_s >= before.of(Use.WAITING).wall_s


async def test_the_record_of_the_job_stays() -> None:
    async with am_world() as world:
        for ask in await world.run_gang():
            world.mailbox.exited(ask, 1, code=3)
        await world.advance(30.0)
        verdict = await world.run
    (found,) = world.kept
    assert found.verdict.kind is verdict.kind is VerdictKind.FAILED
    assert (found.application, found.key) == ("application_1_0001", "1")
    assert found.ledger is not None
    assert found.ledger.of(Use.KEPT).wall_s == 0.0
    assert found.written_by == "am"


async def test_a_record_that_cannot_be_written_holds_nothing_up() -> None:
    async with am_world() as world:
        world.keep_error = Unavailable("HDFS is full")
        for ask in await world.run_gang():
            world.mailbox.exited(ask, 1)
        await world.advance(30.0)
        verdict = await world.run
    assert verdict.kind is VerdictKind.SUCCEEDED
    assert world.broker.verdict == verdict
