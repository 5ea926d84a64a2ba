"""A gang that is slowed by some ranks: shown, and moved where the job asks for it."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.gang.play import Play, failing, job, of, stopped
from yarnam.core.gang.gang_status import describe
from yarnam.core.model.actions import ReleaseContainer, RequestPlan, ShareStrike, StopTask
from yarnam.core.model.events import StragglersFound, TimerKind
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_spec import JobSpec, StragglerSpec
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import ContainerEnd, SlownessCause, Straggler


def moving(most: int = 2) -> JobSpec:
    rules = StragglerSpec(replace=True, max_replacements=most)
    return replace(job(workers=3, processes=1), stragglers=rules)


def slow(rank: int = 1, node: str = "n2") -> Straggler:
    return Straggler(rank, node, 0.8, 0.4, 1.5)


def found(play: Play, *stragglers: Straggler) -> StragglersFound:
    return StragglersFound(0, play.gang.attempt, stragglers)


def stop_all(play: Play) -> None:
    for ask in play.asks():
        play.exited(ask, stopped())


def moved(play: Play, to: str = "n4") -> None:
    """From STOPPING: the task of n2 goes to another node."""
    stop_all(play)
    assert play.gang.phase is Phase.REPLACING
    play.fill()
    (ask,) = play.waiting()
    play.grant(ask, to)
    play.register(ask, to)
    play.start_all()


def test_a_straggler_is_shown_and_nothing_else_is_done() -> None:
    play = Play(job(workers=3, processes=1)).to_running().after(60)
    assert play.send(found(play, slow())) == ()
    status = describe(play.gang, play.now_s)
    assert status.stragglers == (slow(),)
    assert status.reason.startswith("3 tasks run; rank 1 on n2 computes 0.8 s in a step")
    play.send(found(play))
    assert describe(play.gang, play.now_s).stragglers == ()


def test_its_task_moves_where_the_job_asks_for_it() -> None:
    play = Play(moving()).to_running().after(60)
    actions = play.send(found(play, slow()))
    assert {stop.idle_grace_s for stop in of(actions, StopTask)} == {None}, "time for a checkpoint"
    assert {stop.agreeing for stop in of(actions, StopTask)} == {3}, "of the same step"
    assert [strike.node for strike in of(actions, ShareStrike)] == ["n2"]
    stop_all(play)
    request = of(play.all, RequestPlan)[-1]
    assert request.suspects == (NodeId("n2"),), "it is used last, if nothing else has free capacity"
    assert request.supplement is not None
    assert [ask.count for ask in request.supplement.wanted] == [1]
    assert "worker-1 on n2 (its node slows the gang)" in describe(play.gang, play.now_s).reason
    play.fill()
    (ask,) = play.waiting()
    play.grant(ask, "n4")
    play.register(ask, "n4")
    play.start_all()
    assert play.gang.phase is Phase.RUNNING
    assert (play.gang.retries.restarts, play.gang.retries.straggler_moves) == (0, 1)
    # What was slow there is not slow here: it was the node.
    play.send(found(play))
    assert play.gang.history[0].stragglers[0].cause is SlownessCause.NODE


def test_a_grant_on_the_slow_node_is_given_back_where_there_is_room_elsewhere() -> None:
    play = Play(moving()).to_running().after(60)
    play.send(found(play, slow()))
    stop_all(play)
    for _ in range(play.policy.refusals_per_node):
        play.fill(expected=("n4",))
        (ask,) = play.waiting()
        assert [one.ask for one in of(play.grant(ask, "n2"), ReleaseContainer)] == [ask]
        request = of(play.all, RequestPlan)[-1]
        assert (request.suspects, request.doubtful) == (("n2",), ("n4",)), "it comes after n4"
    # YARN knows no other: rather there than not at all.
    play.fill(expected=("n4",))
    (ask,) = play.waiting()
    assert not of(play.grant(ask, "n2"), ReleaseContainer)


def test_a_plan_that_needs_the_slow_node_may_have_it() -> None:
    play = Play(moving()).to_running().after(60)
    play.send(found(play, slow()))
    stop_all(play)
    play.fill(expected=("n2",))
    (ask,) = play.waiting()
    assert not of(play.grant(ask, "n2"), ReleaseContainer)


def test_what_goes_with_the_rank_is_its_data_and_is_not_moved_again() -> None:
    play = Play(moving()).to_running()
    play.send(found(play, slow()))
    moved(play, "n0")  # first in rank order: what was rank 0 is rank 1 now
    rank = next(m.first_rank for m in play.gang.members if m.grant and m.grant.node == "n1")
    assert rank == 1
    assert play.send(found(play, slow(1, "n1"))) == ()
    assert describe(play.gang, play.now_s).stragglers[0].cause is SlownessCause.DATA


def test_moves_are_bounded() -> None:
    play = Play(moving(most=1)).to_running()
    play.send(found(play, slow()))
    moved(play)
    assert play.send(found(play, slow(2, "n4"))) == ()


def test_a_failure_on_the_way_counts_as_one() -> None:
    play = Play(moving()).to_running()
    play.send(found(play, slow()))
    first, *others = play.asks()
    play.exited(first, failing())
    for ask in others:
        play.exited(ask, stopped())
    assert play.gang.phase is Phase.FAILED
    play = Play(moving()).to_running()
    play.send(found(play, slow()))
    play.end(play.asks()[0], ContainerEnd.LOST)
    for ask in play.asks()[1:]:
        play.exited(ask, stopped())
    assert (play.gang.phase, play.gang.retries.restarts) == (Phase.REPLACING, 1)


def test_a_new_am_and_a_job_that_keeps_nothing_start_over() -> None:
    play = Play(moving()).to_running()
    play.send(found(play, slow()))
    play.restart_am()
    assert (play.gang.phase, play.gang.retries.straggler_moves) == (Phase.BACKING_OFF, 1)


def test_one_that_ends_well_meanwhile_has_succeeded() -> None:
    play = Play(moving()).to_running()
    play.send(found(play, slow()))
    for ask in play.asks():
        play.ok(ask)
    assert play.gang.phase is Phase.SUCCEEDED


def test_of_another_attempt_or_phase_it_changes_nothing() -> None:
    play = Play(moving()).to_running()
    assert play.send(StragglersFound(0, 7, (slow(),))) == ()
    play.send(found(play, slow()))
    before = play.gang
    assert play.send(found(play, slow())) == ()
    assert play.gang == before
    assert play.gang.timer(TimerKind.STOP) is not None
