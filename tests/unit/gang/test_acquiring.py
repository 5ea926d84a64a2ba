"""Asking, holding, verifying, replacing: until the whole gang stands, or not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.gang.play import T0, Play, job, of, only, rung, timer_s
from yarnam.core.failures.process_failure import container_finding
from yarnam.core.failures.shipped_rules import SHIPPED_RULES
from yarnam.core.gang import MemberState
from yarnam.core.model.actions import (
    Action,
    AskContainer,
    CancelTimer,
    DrawJitter,
    Finish,
    LaunchGang,
    ReleaseContainer,
    RequestPlan,
)
from yarnam.core.model.events import ContainerEnded, PlanReady, TimerFired, TimerId, TimerKind
from yarnam.core.model.ids import AskId, NodeId
from yarnam.core.model.job_spec import GangSpec, MoreMemorySpec, RetrySpec
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import ContainerEnd, RetryAction
from yarnam.core.model.plans import LocalityLevel, PlacementPlan
from yarnam.errors import Blame, ExitCode


def test_a_started_job_asks_the_planner_and_limits_its_whole_wait() -> None:
    play = Play(job(exclude=("n9",)))
    actions = play.start()
    assert only(actions, RequestPlan) == RequestPlan(attempt=1, first_rung=0, excluded=("n9",))
    assert timer_s(actions, TimerKind.WAIT) == 7 * 86400
    assert play.gang.phase is Phase.PENDING
    assert play.start() == ()


def test_every_task_is_asked_for_at_once_and_nothing_is_held_yet() -> None:
    play = Play(job(workers=3, ps=1))
    play.start()
    actions = play.plan()
    asks = of(actions, AskContainer)
    assert [str(ask.ask) for ask in asks] == [
        "a1.ps.0",
        "a1.worker.1",
        "a1.worker.2",
        "a1.worker.3",
    ]
    assert timer_s(actions, TimerKind.ASK) == 300
    assert play.gang.timer(TimerKind.HOLD) is None


def test_the_others_are_asked_for_once_those_that_lead_are_granted() -> None:
    play = Play(job(workers=5, ps=1))
    play.start()
    plan = PlacementPlan((rung(play.spec),), lead=2)
    actions = play.send(PlanReady(0, 1, plan))
    asks = [ask.ask for ask in of(actions, AskContainer)]
    assert [str(ask) for ask in asks] == ["a1.ps.0", "a1.worker.1", "a1.worker.2"]
    assert of(play.grant(asks[0], "n1"), AskContainer) == []
    assert of(play.grant(asks[1], "n1"), AskContainer) == []
    # One that leads is lost before the last one comes: it is asked for again, and still leads.
    again = only(play.end(asks[1], ContainerEnd.PREEMPTED), AskContainer)
    assert of(play.grant(asks[2], "n2"), AskContainer) == []
    rest = of(play.grant(again.ask, "n2"), AskContainer)
    assert [str(ask.ask) for ask in rest] == ["a1.worker.3", "a1.worker.4", "a1.worker.5"]
    assert of(play.grant(rest[0].ask, "n3"), AskContainer) == []
    for ask in rest[1:]:
        play.grant(ask.ask, "n3")
    assert len(of(tuple(play.all), AskContainer)) == 7
    assert all(member.grant for member in play.gang.members)


def test_the_hold_counts_from_the_first_grant() -> None:
    play = Play(job(workers=3)).to_acquiring()
    first, second, _ = play.asks()
    play.after(100)
    actions = play.grant(first)
    assert CancelTimer(TimerId(TimerKind.ASK, 1)) in actions
    assert timer_s(actions, TimerKind.HOLD) == 120
    assert play.after(50).grant(second, "n2") == ()
    assert play.gang.deadline_s(TimerKind.HOLD) == T0 + 220


def test_nothing_is_launched_before_the_last_member_is_ready() -> None:
    play = Play(job(workers=3)).to_acquiring()
    play.grant_all()
    one, two, three = play.asks()
    assert of(play.register(one, "n1"), LaunchGang) == []
    assert of(play.register(two, "n2"), LaunchGang) == []
    assert play.gang.phase is Phase.ACQUIRING
    launch = only(play.register(three, "n3"), LaunchGang)
    assert [m.ask for m in launch.members] == [one, two, three]
    assert play.gang.phase is Phase.LAUNCHING
    assert play.gang.timer(TimerKind.HOLD) is None
    assert play.gang.timer(TimerKind.LAUNCH) is not None


def test_an_agent_may_be_quicker_than_the_report_of_its_grant() -> None:
    play = Play(job(workers=1)).to_acquiring()
    (ask,) = play.asks()
    assert play.register(ask, "n1") == ()
    assert play.gang.members[0].state is MemberState.ASKED
    only(play.grant(ask, "n1"), LaunchGang)


@pytest.mark.parametrize(
    ("level", "flags", "grants"),
    [
        (LocalityLevel.NODE, {}, [("n3", "/r1")]),
        (LocalityLevel.RACK, {}, [("n3", "/r2")]),
        (LocalityLevel.ANY, {"node_limit": 1}, [("n1", "/r1"), ("n2", "/r1")]),
        (LocalityLevel.ANY, {"one_task_per_node": True}, [("n1", "/r1"), ("n1", "/r1")]),
        (LocalityLevel.ANY, {"same_rack": True}, [("n1", "/r1"), ("n3", "/r2")]),
        (LocalityLevel.ANY, {}, [("bad", "/r1")]),
    ],
    ids=["node", "rack", "node-limit", "one-per-node", "same-rack", "excluded"],
)
def test_a_misfit_is_given_back_and_asked_for_again(
    level: LocalityLevel, flags: dict[str, object], grants: list[tuple[str, str]]
) -> None:
    play = Play(job(workers=2, exclude=("bad",))).to_acquiring(level, **flags)
    asks = play.asks()
    for ask, (node, rack) in zip(asks, grants, strict=False):
        actions = play.grant(ask, node, rack)
    misfit = asks[len(grants) - 1]
    assert only(actions, ReleaseContainer).ask == misfit
    again = only(actions, AskContainer)
    assert again.ask == AskId(1, "worker", 2)
    assert play.gang.acquisition.misfits == 1
    assert play.gang.find(misfit) is None
    assert again.ask in play.waiting()


def test_a_misfit_alone_starts_no_hold() -> None:
    play = Play(job(workers=1)).to_acquiring(LocalityLevel.RACK)
    play.grant(play.asks()[0], "n3", "/r2")
    assert play.gang.timer(TimerKind.HOLD) is None
    assert play.gang.timer(TimerKind.ASK) is not None


@pytest.mark.parametrize("agent", [{"node": "n2"}, {"node": "n1", "container": "c-other"}])
def test_an_agent_that_is_not_where_the_grant_was_is_a_misfit(agent: dict[str, str]) -> None:
    play = Play(job(workers=1)).to_acquiring()
    (ask,) = play.asks()
    play.grant(ask, "n1")
    actions = play.register(ask, **agent)  # type: ignore[arg-type]
    assert only(actions, ReleaseContainer).ask == ask
    assert play.gang.acquisition.misfits == 1
    assert of(actions, LaunchGang) == []


def test_the_hold_timeout_releases_granted_and_outstanding_alike() -> None:
    play = Play(job(workers=3)).to_acquiring()
    one, two, three = play.asks()
    play.grant(one)
    play.grant(two, "n2")
    play.register(one, "n1")
    actions = play.fire(TimerKind.HOLD)
    assert {a.ask for a in of(actions, ReleaseContainer)} == {one, two, three}
    assert only(actions, DrawJitter).attempt == 1
    assert play.gang.phase is Phase.BACKING_OFF
    assert play.gang.members == ()
    (record,) = play.gang.history
    assert (record.asked, record.granted) == (3, 2)
    assert record.outcome == "the hold of 120 s ended with 2 of 3 granted, 1 ready"


def test_the_hold_ends_at_the_last_grant_and_localization_has_a_limit_of_its_own() -> None:
    play = Play(job(workers=2)).to_acquiring()
    one, two = play.asks()
    play.grant(one)
    actions = play.after(119).grant(two, "n2")
    assert CancelTimer(TimerId(TimerKind.HOLD, 1)) in actions
    assert timer_s(actions, TimerKind.LOCALIZE) == 1800
    play.after(600).register(one, "n1")
    assert play.gang.deadline_s(TimerKind.LOCALIZE) == T0 + 119 + 1800
    actions = play.after(600).register(two, "n2")
    assert CancelTimer(TimerId(TimerKind.LOCALIZE, 1)) in actions
    only(actions, LaunchGang)


def test_a_container_lost_while_the_others_localize_is_held_for_again() -> None:
    play = Play(job(workers=2)).to_acquiring()
    one, two = play.asks()
    play.grant(one)
    play.grant(two, "n2")
    actions = play.after(600).end(two, ContainerEnd.LOST, "its node is gone")
    assert CancelTimer(TimerId(TimerKind.LOCALIZE, 1)) in actions
    assert timer_s(actions, TimerKind.HOLD) == 120
    actions = play.after(60).grant(play.waiting()[0], "n3")
    assert play.gang.timer(TimerKind.HOLD) is None
    assert timer_s(actions, TimerKind.LOCALIZE) == 1800


def test_an_attempt_that_localizes_for_too_long_names_the_nodes_and_uses_them_last() -> None:
    play = Play(job(workers=3)).to_acquiring()
    one, two, three = play.asks()
    for ask, node in ((one, "n1"), (two, "n2"), (three, "n1")):
        play.grant(ask, node)
    play.register(one, "n1")
    actions = play.fire(TimerKind.LOCALIZE)
    assert {a.ask for a in of(actions, ReleaseContainer)} == {one, two, three}
    assert play.gang.history[0].outcome == (
        f"the files of {two} on n2, {three} on n1 were not on the node within 1800 s "
        "(gang.localize_timeout): 1 of 3 tasks were ready"
    )
    play.jitter(0.5)
    request = only(play.fire(TimerKind.BACKOFF), RequestPlan)
    assert request.doubtful == ("n2",), "n1 has the files by then"


def test_a_job_of_an_earlier_version_holds_until_all_are_ready() -> None:
    play = Play(job(workers=2, gang=GangSpec(localize_timeout_s=0.0))).to_acquiring()
    for ask, node in zip(play.asks(), ("n1", "n2"), strict=True):
        play.grant(ask, node)
    assert play.gang.timer(TimerKind.LOCALIZE) is None
    play.fire(TimerKind.HOLD)
    assert play.gang.history[0].outcome == "the hold of 120 s ended with 2 of 2 granted, 0 ready"


def test_a_late_grant_is_given_back_every_time_and_never_counted() -> None:
    play = Play(job(workers=2)).to_acquiring()
    one, two = play.asks()
    play.grant(one)
    play.fire(TimerKind.HOLD)
    for _ in range(2):
        before = play.gang
        assert only(play.grant(two, "n2"), ReleaseContainer).ask == two
        assert play.gang == before
    assert only(play.register(one), ReleaseContainer).ask == one
    play.to_next_attempt()
    assert only(play.grant(two, "n2"), ReleaseContainer).ask == two
    assert all(m.state is MemberState.ASKED for m in play.gang.members)


def test_doubled_events_change_nothing() -> None:
    play = Play(job(workers=2)).to_acquiring()
    one, two = play.asks()
    for word in (
        lambda: play.plan(),
        lambda: play.grant(one),
        lambda: play.register(one),
        lambda: play.grant(two, "n2"),
        lambda: play.register(two, "n2"),
        lambda: play.started(one),
        lambda: play.started(two),
        lambda: play.ok(one),
    ):
        word()
        before = play.gang
        assert word() == ()
        assert play.gang == before


@pytest.mark.parametrize("state", ["asked", "granted", "ready"])
def test_a_container_lost_while_acquiring_is_replaced(state: str) -> None:
    play = Play(job(workers=2)).to_acquiring()
    one, two = play.asks()
    if state != "asked":
        play.grant(one)
    if state == "ready":
        play.register(one)
    actions = play.end(one, ContainerEnd.LOST, "node lost")
    assert only(actions, ReleaseContainer).ask == one, "its agent may live on without NodeManager"
    assert only(actions, AskContainer).ask == AskId(1, "worker", 2)
    assert play.asks() == [AskId(1, "worker", 2), two]


def test_a_silent_or_unable_agent_is_released_and_replaced() -> None:
    play = Play(job(workers=2)).to_acquiring()
    play.grant_all()
    one, two = play.asks()
    assert only(play.silent(one), ReleaseContainer).ask == one
    actions = play.unable(two, "no lease")
    assert only(actions, ReleaseContainer).ask == two
    assert only(actions, AskContainer).ask == AskId(1, "worker", 3)


def test_one_agent_that_blames_the_user_may_be_a_sick_node_two_are_not() -> None:
    play = Play(job(workers=2)).to_acquiring()
    play.grant_all()
    one, two = play.asks()
    assert of(play.unable(one, "no such file: train.py", is_user=True), Finish) == []
    verdict = only(play.unable(two, "no such file: train.py", is_user=True), Finish).verdict
    assert verdict.exit_code == ExitCode.USER_FAILED
    assert verdict.message == "a1.worker.1 on n2 cannot be made ready: no such file: train.py"


def test_replacing_is_bounded() -> None:
    play = Play(job(workers=1)).to_acquiring()
    for number in range(8):
        (ask,) = play.asks()
        play.grant(ask, f"n{number}")
        play.end(ask, ContainerEnd.FAILED, "exit 127")
    assert play.gang.phase is Phase.ACQUIRING
    (ask,) = play.asks()
    play.grant(ask, "n8")
    play.end(ask, ContainerEnd.FAILED, "exit 127")
    assert play.gang.phase is Phase.BACKING_OFF
    assert "gave up after 8 replaced containers" in play.gang.history[0].outcome
    assert "exit 127" in play.gang.history[0].outcome


def test_no_grant_at_all_ends_the_attempt_too() -> None:
    play = Play(job(workers=2)).to_acquiring()
    actions = play.fire(TimerKind.ASK)
    assert len(of(actions, ReleaseContainer)) == 2
    assert play.gang.history[0].outcome == "no container was granted within 300 s"


def test_the_ladder_is_left_rung_by_rung() -> None:
    spec = job(gang=GangSpec(attempts=9, relax_after_attempts=2))
    play = Play(spec).to_acquiring()
    rungs = []
    for _ in range(6):
        play.fire(TimerKind.ASK)
        play.jitter(0.5)
        rungs.append(only(play.fire(TimerKind.BACKOFF), RequestPlan).first_rung)
        play.plan()
    assert rungs == [0, 1, 1, 2, 2, 3]


def test_the_last_attempt_ends_the_job_with_its_history() -> None:
    play = Play(job(workers=2, gang=GangSpec(attempts=2))).to_acquiring()
    play.grant(play.asks()[0])
    play.fire(TimerKind.HOLD)
    play.to_next_attempt()
    verdict = only(play.fire(TimerKind.ASK), Finish).verdict
    assert verdict.exit_code == ExitCode.GANG_TIMEOUT
    assert verdict.message.splitlines() == [
        "the gang could not be started in 2 attempts:",
        (
            "  attempt 1 at ANY: 1 of 2 granted (1 ANY), 1 missing (1 worker at ANY): the hold of "
            "120 s ended with 1 of 2 granted, 0 ready"
        ),
        (
            "  attempt 2 at ANY: 0 of 2 granted, 2 missing (2 worker at ANY): no container was "
            "granted within 300 s"
        ),
    ]
    assert play.gang.timers == ()


def test_a_long_history_leaves_room_for_what_to_do() -> None:
    play = Play(job(gang=GangSpec(attempts=40))).to_acquiring()
    for _ in range(39):
        play.fire(TimerKind.ASK)
        play.to_next_attempt()
    verdict = only(play.fire(TimerKind.ASK), Finish).verdict
    first, second, *told = verdict.message.splitlines()
    assert first == "the gang could not be started in 40 attempts:"
    assert second == "  (30 earlier ones are in the job's events)"
    assert len(told) == 10
    assert told[-1].startswith("  attempt 40 at ANY: 0 of 2 granted")


def test_nodes_that_gave_no_grant_are_used_last_the_next_time() -> None:
    play = Play(job(workers=3))
    play.start()
    whole = rung(play.spec)
    expected = tuple(NodeId(node) for node in ("n1", "n2", "n3"))
    asks = tuple(replace(ask, expected_nodes=expected) for ask in whole.asks)
    play.send(PlanReady(0, 1, PlacementPlan((replace(whole, asks=asks),))))
    play.grant(play.asks()[0], "n1")
    play.fire(TimerKind.HOLD)
    play.jitter(0.5)
    assert only(play.fire(TimerKind.BACKOFF), RequestPlan).doubtful == ("n2", "n3")


def test_a_plan_for_less_than_the_gang_is_never_asked_for() -> None:
    play = Play(job(workers=3))
    play.start()
    short = Play(job(workers=2)).to_acquiring().gang.rung
    assert short is not None
    actions = play.send(PlanReady(0, 1, PlacementPlan((short,))))
    assert of(actions, AskContainer) == []
    assert only(actions, Finish).verdict.exit_code == ExitCode.INTERNAL


def test_stale_timers_change_nothing_and_early_ones_are_started_again() -> None:
    play = Play(job(workers=2)).to_acquiring()
    before = play.gang
    assert play.send(TimerFired(0, TimerId(TimerKind.ASK, 7))) == ()
    assert play.send(TimerFired(0, TimerId(TimerKind.HOLD, 1))) == ()
    early = play.after(100).send(TimerFired(0, TimerId(TimerKind.ASK, 1)))
    assert timer_s(early, TimerKind.ASK) == 200
    assert play.gang == before


def test_never_fits_ends_the_job_with_the_planners_reason() -> None:
    play = Play()
    play.start()
    verdict = only(play.refuse("needs 9 GPUs", is_never=True), Finish).verdict
    assert verdict.exit_code == ExitCode.NEVER_FITS
    assert verdict.message == "needs 9 GPUs [fragmented]"
    assert verdict.hint == "needs 1 more node"


# ---- a file that YARN cannot fetch ---------------------------------------------------------------


def container_fails(play: Play, ask: AskId, text: str) -> tuple[Action, ...]:
    finding = container_finding(text, SHIPPED_RULES)
    return play.send(ContainerEnded(play.now_s, ask, ContainerEnd.FAILED, text, finding))


def download_text(reason: str = "") -> str:
    file = "{ { hdfs://nn/a.py, 1790000000, FILE, null },pending,[(c)],9,DOWNLOADING}"
    return f"Failed to download resource {file} {reason}"


REFUSED = [
    "java.io.IOException: Resource hdfs://nn/a.py changed on src filesystem",
    "java.io.FileNotFoundException: File does not exist: hdfs://nn/a.py",
    "org.apache.hadoop.security.AccessControlException: Permission denied: user=bob, access=READ",
    "java.util.zip.ZipException: error in opening zip file",
    "java.io.IOException: Resource hdfs://nn/a.py is not publicly accessible",
    "java.io.FileNotFoundException: File file:/root/.staging/a.zip does not exist",
]


@pytest.mark.parametrize("reason", REFUSED)
def test_what_speaks_against_the_file_is_met_by_no_other_container(reason: str) -> None:
    finding = container_finding(download_text(reason), SHIPPED_RULES)
    assert finding is not None
    assert (finding.action, finding.blame) == (RetryAction.NEVER, Blame.USER)
    is_denied = "AccessControlException" in reason or "publicly" in reason
    assert finding.rule == ("yarn-download-denied" if is_denied else "yarn-download")


def test_a_file_that_cannot_be_localized_ends_the_job_at_the_first_container() -> None:
    play = Play(job(workers=3)).to_acquiring().grant_all()
    text = download_text("java.io.IOException: Resource hdfs://nn/a.py changed on src filesystem")
    actions = container_fails(play, play.asks()[0], text)
    verdict = only(actions, Finish).verdict
    assert verdict.exit_code == ExitCode.USER_FAILED
    assert verdict.message.startswith("a1.worker.0 on n1 could not be started: Failed to download")
    assert verdict.cause is not None
    assert verdict.cause.finding.rule == "yarn-download"
    assert of(actions, AskContainer) == []
    assert play.gang.nodes.strikes == ()


PASSING = [
    ("java.net.ConnectException: Connection refused", "yarn-download-elsewhere"),
    ("org.apache.hadoop.ipc.RemoteException: SafeModeException", "yarn-download-elsewhere"),
    ("java.io.IOException: Mkdirs failed to create /d1/filecache", "yarn-download-elsewhere"),
    (
        "java.io.FileNotFoundException: /data1/filecache/10 (Permission denied)",
        "yarn-download-elsewhere",
    ),
    ("java.io.IOException: error=12, Cannot allocate memory", "yarn-download-elsewhere"),
    ("ExitCodeException exitCode=2: tar: Exiting with failure", "yarn-download-elsewhere"),
    ("InvalidToken: token (owner=ada) can't be found in cache", "yarn-download-elsewhere"),
    ("java.io.IOException: No space left on device", "yarn-disks"),
]


@pytest.mark.parametrize(("reason", "rule"), PASSING)
def test_what_can_pass_elsewhere_or_later_is_replaced(reason: str, rule: str) -> None:
    finding = container_finding(download_text(reason), SHIPPED_RULES)
    assert finding is not None
    assert finding.rule == rule
    # Also where a gang that ran would not be restarted.
    play = Play(job(workers=3, retry=RetrySpec(max_restarts=0))).to_acquiring().grant_all()
    for ask in play.asks():
        assert only(container_fails(play, ask, download_text(reason)), AskContainer)


BEYOND = "Container [pid=1] is running 1B beyond the 'PHYSICAL' memory limit."


def test_a_container_that_is_too_small_for_its_agent_is_enlarged_or_ends_the_job() -> None:
    play = (
        Play(job(workers=2, retry=RetrySpec(more_memory=MoreMemorySpec())))
        .to_acquiring()
        .grant_all()
    )
    container_fails(play, play.asks()[0], BEYOND)
    assert play.gang.phase is Phase.BACKING_OFF
    assert play.gang.retries.memory_level == 1
    play = Play(job(workers=2)).to_acquiring().grant_all()
    verdict = only(container_fails(play, play.asks()[0], BEYOND), Finish).verdict
    assert verdict.exit_code == ExitCode.USER_FAILED
