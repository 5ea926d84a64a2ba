"""An administrator keeps gangs off a node, or has them leave it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.gang.play import Play, job, of, stopped
from yarnam.core.gang import describe
from yarnam.core.model.actions import AskContainer, ReleaseContainer, StopTask
from yarnam.core.model.events import CordonedNode, NodeLeaving, NodesCordoned, TimerKind
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_status import Phase

N1 = NodeId("n1")
WHY = "cordoned by ann: disk errors"


def cordon(play: Play, *nodes: CordonedNode) -> Play:
    play.send(NodesCordoned(0, nodes))
    return play


def drain(play: Play, in_s: float) -> Play:
    return cordon(play, CordonedNode(N1, WHY, play.now_s + in_s))


def leaves(play: Play) -> dict[str, str]:
    return {member.name: member.leaves for member in play.gang.members if member.leaves}


def left_s(play: Play) -> float | None:
    deadline_s = play.gang.deadline_s(TimerKind.LEAVE)
    return None if deadline_s is None else deadline_s - play.now_s


def test_a_grant_on_a_cordoned_node_is_given_back_and_asked_for_again() -> None:
    play = cordon(Play().to_acquiring(), CordonedNode(N1, WHY))
    one, _ = play.asks()
    actions = play.grant(one, "n1")
    (released,) = of(actions, ReleaseContainer)
    assert WHY in released.reason
    assert of(actions, AskContainer), "another place is asked for"


def test_a_gang_on_a_node_that_is_only_cordoned_runs_on() -> None:
    play = cordon(Play().to_running(), CordonedNode(N1, WHY))
    assert (leaves(play), left_s(play)) == ({}, None)


@pytest.mark.parametrize("limit_s", [1800.0, 1.0])
def test_a_gang_on_a_drained_node_saves_and_leaves_in_time_for_free(limit_s: float) -> None:
    play = drain(Play().to_running(), limit_s)
    assert leaves(play) == {"worker-0": "n1 is drained by an administrator"}
    needed_s = job().am.stop_grace_s + 10.0
    assert left_s(play) == max(0.0, limit_s - needed_s)
    asks = play.asks()
    stops = of(play.fire(TimerKind.LEAVE), StopTask)
    assert all(one.agreeing == len(asks) for one in stops), "all come to the same step"
    for ask in asks:
        play.after(1).exited(ask, stopped(0), stopped(1))
    assert play.gang.phase is Phase.BACKING_OFF
    assert (play.gang.retries.restarts, play.gang.acquisition.failures) == (0, 0)


def test_a_drain_that_is_taken_back_disturbs_nobody() -> None:
    play = cordon(drain(Play().to_running(), 600.0), CordonedNode(N1, WHY))
    assert (leaves(play), left_s(play)) == ({}, None)


def test_what_yarn_takes_out_is_left_whatever_becomes_of_a_drain() -> None:
    play = Play().to_running()
    play.send(NodeLeaving(0, NodeId("n2"), 300.0))
    by_yarn_s = left_s(play)
    drain(play, 3600.0)
    assert left_s(play) == by_yarn_s, "the earlier one counts"
    cordon(play)
    assert left_s(play) == by_yarn_s
    assert list(leaves(play)) == ["worker-1"]


def test_the_status_says_at_once_that_a_node_leaves() -> None:
    play = Play().to_running()
    play.send(NodeLeaving(0, NodeId("n2"), 300.0))
    reason = describe(play.gang, play.now_s).reason
    assert "; worker-1: n2 leaves the cluster, and the gang stops before that, by " in reason
    play = drain(Play().to_running(), 600.0)
    assert (
        f"; worker-0: {N1} is drained by an administrator, and"
        in describe(play.gang, play.now_s).reason
    )


def test_what_yarn_takes_out_later_does_not_prolong_a_drain() -> None:
    play = drain(Play().to_running(), 600.0)
    by_drain_s = left_s(play)
    play.send(NodeLeaving(0, NodeId("n2"), 7200.0))
    assert left_s(play) == by_drain_s, "the earlier one counts"


def test_a_node_that_is_drained_while_the_gang_starts_is_left_once_it_runs() -> None:
    play = drain(Play().to_launching(), 600.0)
    assert left_s(play) is not None
    waiting = drain(Play().to_acquiring().grant_all(), 600.0)
    waiting.register_all()
    waiting.start_all()
    assert waiting.gang.phase is Phase.RUNNING
    assert list(leaves(waiting)) == ["worker-0"]


def test_other_nodes_do_not_matter() -> None:
    play = Play().to_running()
    before = replace(play.gang, nodes=replace(play.gang.nodes, cordoned=()))
    cordon(play, CordonedNode(NodeId("n9"), WHY, play.now_s + 60.0))
    assert replace(play.gang, nodes=before.nodes) == before
