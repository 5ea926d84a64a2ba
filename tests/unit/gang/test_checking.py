"""The nodes of a gang are checked before its processes start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.gang.play import Play, job, of, only, timer_s
from yarnam.core.gang.gang_status import describe
from yarnam.core.model.actions import (
    AskContainer,
    CheckNodes,
    LaunchGang,
    ReleaseContainer,
    ShareStrike,
)
from yarnam.core.model.events import NodeChecked, TimerKind
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_spec import GangSpec, JobSpec, NodeCheck
from yarnam.core.model.job_status import JobState, Phase
from yarnam.core.model.outcomes import ContainerEnd, NodeMeasures

GOOD = NodeMeasures(1000.0, 8000.0, 200.0)
SLOW = replace(GOOD, cpu_mib_s=100.0)


def checked(workers: int = 3, check: NodeCheck = NodeCheck.QUICK, **changes: object) -> JobSpec:
    spec = job(workers=workers, **changes)  # type: ignore[arg-type]
    return replace(spec, placement=replace(spec.placement, check=check))


def to_checking(spec: JobSpec | None = None) -> Play:
    play = Play(spec or checked()).to_launching()
    assert play.gang.phase is Phase.CHECKING
    return play


def answer(play: Play, ask: AskId, measures: NodeMeasures = GOOD) -> tuple[object, ...]:
    return play.send(NodeChecked(0, ask, play.gang.attempt, play.gang.checks, measures))


def answer_all(play: Play) -> None:
    for member in play.gang.members:
        if member.check == play.gang.checks:
            answer(play, member.ask)


def test_one_agent_of_each_node_is_asked_and_then_all_start() -> None:
    play = Play(checked(workers=4)).to_acquiring()
    for ask, node in zip(play.waiting(), ("n1", "n2", "n3", "n3"), strict=True):
        play.grant(ask, node)
    actions = play.register_all()
    order = only(actions, CheckNodes)
    assert (order.check, order.is_full, order.limit_s) == (1, False, 10.0)
    assert [str(one.node) for one in order.nodes] == ["n1", "n2", "n3"]
    assert [[str(peer.node) for peer in one.peers] for one in order.nodes] == [
        ["n2", "n3"],
        ["n3", "n1"],
        ["n1", "n2"],
    ]
    assert order.nodes[0].peers[0].address == "n2.cluster:5000"
    assert timer_s(actions, TimerKind.CHECK) == 10.0
    status = describe(play.gang, play.now_s)
    assert status.state is JobState.ACQUIRING
    assert status.reason == "checking nodes: 0 of 3 have answered, 10 s left"
    assert of(play.all, LaunchGang) == []
    answer_all(play)
    assert play.gang.phase is Phase.LAUNCHING
    assert play.gang.timer(TimerKind.CHECK) is None


def test_full_takes_longer_and_off_asks_nobody() -> None:
    play = to_checking(checked(check=NodeCheck.FULL))
    order = of(play.all, CheckNodes)[0]
    assert (order.is_full, order.limit_s) == (True, 60.0)
    play = Play(checked(check=NodeCheck.OFF)).to_launching()
    assert of(play.all, CheckNodes) == []


def test_a_slow_node_gets_a_strike_and_its_task_another_node() -> None:
    play = to_checking()
    one, two, three = play.asks()
    answer(play, one)
    answer(play, two, SLOW)
    actions = play.send(NodeChecked(0, three, 1, 1, GOOD))
    assert only(actions, ReleaseContainer).ask == two
    assert only(actions, ShareStrike).node == "n2"
    assert play.gang.phase is Phase.ACQUIRING
    assert play.gang.timer(TimerKind.HOLD) is not None
    (again,) = [ask.ask for ask in of(actions, AskContainer)]
    # Nothing of this attempt goes there again.
    play.grant(again, "n2")
    (again,) = play.waiting()
    reason = describe(play.gang, play.now_s).reason
    assert "n2: CPU (SHA-256, one core): 100 MiB/s, usual is 1e+03" in reason
    play.grant(again, "n4")
    play.register(again, "n4")
    assert play.gang.phase is Phase.CHECKING
    order = of(play.all, CheckNodes)[-1]
    assert order.check == 2
    assert [str(node.node) for node in order.nodes] == ["n4", "n1", "n3"], "with known ones"
    answer_all(play)
    assert play.gang.phase is Phase.LAUNCHING


def test_who_does_not_answer_in_time_is_replaced() -> None:
    play = to_checking()
    one, two, three = play.asks()
    answer(play, one)
    answer(play, three)
    actions = play.fire(TimerKind.CHECK)
    assert only(actions, ReleaseContainer).ask == two
    assert play.gang.phase is Phase.ACQUIRING


def test_where_most_do_not_answer_it_is_not_they() -> None:
    play = to_checking()
    answer(play, play.asks()[0])
    play.fire(TimerKind.CHECK)
    assert play.gang.phase is Phase.LAUNCHING


def test_answers_of_another_check_and_doubled_ones_change_nothing() -> None:
    play = to_checking()
    first = play.asks()[0]
    play.send(NodeChecked(0, first, 1, 7, SLOW))
    play.send(NodeChecked(0, first, 1, 0, SLOW))
    answer(play, first)
    answer(play, first, SLOW)
    for ask in play.asks()[1:]:
        answer(play, ask)
    assert play.gang.phase is Phase.LAUNCHING
    before = play.gang
    assert answer(play, first, SLOW) == ()
    assert play.gang == before


def test_a_member_that_is_lost_meanwhile_is_replaced() -> None:
    play = to_checking()
    play.end(play.asks()[0], ContainerEnd.FAILED, "gone")
    assert play.gang.phase is Phase.ACQUIRING
    (ask,) = play.waiting()
    play.grant(ask, "n4")
    play.register(ask, "n4")
    assert len(of(play.all, CheckNodes)[-1].nodes) == 3
    answer_all(play)
    assert play.gang.phase is Phase.LAUNCHING


def test_what_is_kept_is_not_checked_again() -> None:
    play = to_checking()
    answer_all(play)
    play.start_all()
    first, *others = play.asks()
    play.silent(first)
    for ask in others:
        play.ok(ask)
    assert play.gang.phase is Phase.REPLACING
    play.fill()
    (ask,) = play.waiting()
    play.grant(ask, "n4")
    play.register(ask, "n4")
    order = of(play.all, CheckNodes)[-1]
    assert (order.attempt, str(order.nodes[0].node)) == (2, "n4")
    answer(play, ask, SLOW)
    for member in play.gang.members:
        if member.check == play.gang.checks and member.measures is None:
            answer(play, member.ask)
    assert play.gang.phase is Phase.ACQUIRING
    assert len(play.waiting()) == 1


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_second_task_on_a_known_node_needs_no_check(node: str) -> None:
    play = to_checking()
    answer_all(play)
    play.start_all()
    first, *others = play.asks()
    kept = {str(m.grant.node) for m in play.gang.members[1:] if m.grant}
    play.silent(first)
    for ask in others:
        play.ok(ask)
    play.fill()
    (ask,) = play.waiting()
    play.grant(ask, node)
    play.register(ask, node)
    expected = Phase.LAUNCHING if node in kept else Phase.CHECKING
    assert play.gang.phase is expected


def test_a_new_am_starts_over_and_a_cancel_ends_it() -> None:
    play = to_checking()
    play.restart_am()
    assert play.gang.phase is Phase.BACKING_OFF
    play = to_checking()
    play.cancel()
    assert play.gang.phase is Phase.CANCELLED


def test_where_every_node_is_slow_the_attempt_ends() -> None:
    play = to_checking(checked(gang=GangSpec(attempts=2)))
    for ask in play.asks():
        answer(play, ask, replace(GOOD, cpu_mib_s=1.0))
    assert play.gang.phase is Phase.ACQUIRING
    play.fire(TimerKind.HOLD)
    assert play.gang.phase is Phase.BACKING_OFF
