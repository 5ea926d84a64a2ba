"""Unfit grants: given back, counted, and not asked for again where that cannot help."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.gang.elastic_play import Elastic, elastic_job
from tests.unit.gang.play import T0, Play, job, of, only, rung
from yarnam.core.gang import describe
from yarnam.core.model.actions import (
    AskContainer,
    LaunchGang,
    ProbeCluster,
    ReleaseContainer,
    RequestPlan,
)
from yarnam.core.model.events import AgentRegistered, PlanReady, TimerKind
from yarnam.core.model.ids import AskId, ContainerId, NodeId
from yarnam.core.model.job_spec import GangSpec
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import ContainerEnd
from yarnam.core.model.plans import LocalityLevel, PlacementPlan, TargetAsk
from yarnam.errors import ExitCode


def on_nodes(*names: str, workers: int = 2, model: str = "A100", attempts: int = 3) -> Play:
    """A gang of which each task is asked for on one node of its own."""
    spec = job(workers=workers, gang=GangSpec(attempts=attempts))
    spec = replace(spec, placement=replace(spec.placement, gpu_model=model))
    play = Play(spec)
    play.start()
    play.send(PlanReady(0, 1, PlacementPlan((seats(play, *names),))))
    return play


def seats(play: Play, *names: str):
    whole = rung(play.spec, LocalityLevel.NODE)
    one = whole.asks[0].target
    asks = tuple(
        TargetAsk(replace(one, service=f"seat-{name}", nodes=(NodeId(name),)), 1, (NodeId(name),))
        for name in names
    )
    return replace(whole, asks=asks)


def register(play: Play, ask: AskId, node: str, model: str) -> tuple[object, ...]:
    return play.send(
        AgentRegistered(
            0, ask, ContainerId(f"c-{ask}"), NodeId(node), node, ("0", "1"), (), gpu_model=model
        )
    )


def stand(play: Play, ask: AskId, node: str, model: str = "A100") -> tuple[object, ...]:
    play.grant(ask, node)
    return register(play, ask, node, model)


def test_a_node_of_the_wrong_model_is_asked_once_and_the_others_are_kept() -> None:
    play = on_nodes("n1", "n2")
    one, two = play.asks()
    stand(play, one, "n1")
    actions = stand(play, two, "n2", "V100")
    assert only(actions, ReleaseContainer).ask == two
    assert of(actions, AskContainer) == [], "n2 was asked once, that is enough"
    request = only(actions, RequestPlan)
    assert request.excluded == (NodeId("n2"),)
    assert request.supplement is not None
    assert [s.node for s in request.supplement.held] == ["n1"]
    assert (play.gang.phase, play.asks()) == (Phase.ACQUIRING, [one])
    assert play.gang.acquisition.failures == 0
    reason = describe(play.gang, T0).reason
    assert "1 not asked for any more, searching other nodes" in reason
    assert "1 grant released (n2 has V100, the job wants A100)" in reason


def test_the_place_that_is_found_is_asked_for_and_the_gang_starts() -> None:
    play = on_nodes("n1", "n2")
    one, two = play.asks()
    stand(play, one, "n1")
    stand(play, two, "n2", "V100")
    ask = only(play.send(PlanReady(0, 1, PlacementPlan((seats(play, "n3"),)))), AskContainer)
    assert ask.target.nodes == (NodeId("n3"),)
    actions = stand(play, ask.ask, "n3")
    assert len(only(actions, LaunchGang).members) == 2
    assert (play.gang.attempt, play.gang.retries.restarts) == (1, 0)


def test_without_another_place_it_is_looked_for_until_the_hold_ends() -> None:
    play = on_nodes("n1", "n2")
    one, two = play.asks()
    stand(play, one, "n1")
    stand(play, two, "n2", "V100")
    for _ in range(3):
        play.refuse("no room on n3")
        assert "no other place yet" in describe(play.gang, T0).reason
        play.jitter(0.5)
        assert only(play.fire(TimerKind.BACKOFF), RequestPlan).excluded == (NodeId("n2"),)
        assert of(play.all, ReleaseContainer)[-1].ask == two, "what is held stays"
    actions = play.fire(TimerKind.HOLD)
    assert [a.ask for a in of(actions, ReleaseContainer)] == [one]
    assert (play.gang.phase, play.gang.acquisition.failures) == (Phase.BACKING_OFF, 1)


def test_never_any_place_ends_the_attempt_at_once() -> None:
    play = on_nodes("n1", "n2", attempts=1)
    one, two = play.asks()
    stand(play, one, "n1")
    stand(play, two, "n2", "V100")
    play.refuse("no other node has A100", is_never=True)
    assert play.verdict.exit_code == ExitCode.GANG_TIMEOUT
    assert "n2 has V100, the job wants A100 (1 grant released)" in play.verdict.message
    assert "no other node has A100" in play.verdict.message


def test_with_nothing_held_the_attempt_has_failed() -> None:
    play = on_nodes("n1", workers=1)
    (ask,) = play.asks()
    actions = stand(play, ask, "n1", "V100")
    assert of(actions, AskContainer) == []
    assert (play.gang.phase, play.gang.acquisition.failures) == (Phase.BACKING_OFF, 1)
    assert "no node that worker was asked for on can take it" in play.gang.reason
    assert play.gang.acquisition.refusals != ()


def test_other_tasks_are_not_granted_the_unfit_node_either() -> None:
    """Known by now: its agent is not waited for."""
    play = on_nodes("n1", "n2", "n2", workers=3)
    one, two, three = play.asks()
    stand(play, one, "n1")
    stand(play, two, "n2", "V100")
    actions = play.grant(three, "n2")
    assert only(actions, ReleaseContainer).ask == three
    assert "n2 has V100" in only(actions, ReleaseContainer).reason
    assert play.gang.search is not None
    assert len(play.gang.search.missing) == 2


def test_a_wider_target_is_given_up_when_the_same_node_comes_again_and_again() -> None:
    spec = job(workers=2)
    spec = replace(spec, placement=replace(spec.placement, gpu_model="A100"))
    play = Play(spec).to_acquiring(LocalityLevel.RACK)
    one, two = play.asks()
    stand(play, one, "n1")
    assert only(stand(play, two, "n2", "V100"), AskContainer).target.level is LocalityLevel.RACK
    (two,) = play.waiting()
    assert of(play.grant(two, "n2"), AskContainer), "it may have been chance"
    (two,) = play.waiting()
    actions = play.grant(two, "n2")
    assert of(actions, AskContainer) == []
    assert only(actions, RequestPlan).excluded == (NodeId("n2"),)
    assert "YARN keeps granting n2 for worker" in play.gang.search.why  # type: ignore[union-attr]
    assert "(3 grants released)" in play.gang.search.why  # type: ignore[union-attr]


def test_an_excluded_node_is_not_asked_for_alone() -> None:
    """Its agent was unable twice, which puts it on the blacklist."""
    play = on_nodes("n1", "n2")
    one, two = play.asks()
    stand(play, one, "n1")
    play.grant(two, "n2")
    assert only(play.unable(two, "no GPU lease"), AskContainer).target.nodes == (NodeId("n2"),)
    (two,) = play.waiting()
    play.grant(two, "n2")
    actions = play.unable(two, "no GPU lease")
    assert of(actions, AskContainer) == []
    assert only(actions, RequestPlan).excluded == (NodeId("n2"),)


def test_a_node_whose_devices_others_hold_is_not_asked_again_in_this_attempt() -> None:
    play = on_nodes("n1", "n2")
    one, two = play.asks()
    stand(play, one, "n1")
    play.grant(two, "n2")
    actions = play.unable(two, "GPU 0: process 7 of user bob", is_busy=True)
    assert of(actions, AskContainer) == []
    assert only(actions, RequestPlan).excluded == (NodeId("n2"),)
    assert "process 7 of user bob" in play.gang.search.why  # type: ignore[union-attr]


def test_what_spoils_the_shape_on_its_only_node_goes_elsewhere() -> None:
    play = on_nodes("n1", "n1")
    play.gang = replace(play.gang, rung=replace(play.gang.rung, one_task_per_node=True))  # type: ignore[arg-type, type-var]
    one, two = play.asks()
    play.grant(one, "n1")
    actions = play.grant(two, "n1")
    assert of(actions, AskContainer) == []
    assert only(actions, RequestPlan).excluded == (), "the node is as good as any"


def test_a_blacklisted_node_that_comes_again_and_again_is_given_up_too() -> None:
    play = Play(job(workers=2, exclude=("bad",))).to_acquiring()
    one, two = play.asks()
    stand(play, one, "n1")
    for _ in range(2):
        assert of(play.grant(two, "bad"), AskContainer)
        (two,) = play.waiting()
    assert only(play.grant(two, "bad"), RequestPlan).excluded == (NodeId("bad"),)
    assert "3 grants released" in describe(play.gang, T0).reason


def test_a_lost_container_on_its_only_node_is_asked_for_there_again() -> None:
    play = on_nodes("n1", "n2")
    one, two = play.asks()
    stand(play, one, "n1")
    play.grant(two, "n2")
    actions = play.end(two, ContainerEnd.FAILED, "exit 1")
    assert only(actions, AskContainer).target.nodes == (NodeId("n2"),)


@pytest.mark.parametrize("end", ["preempted", "silent"])
def test_what_is_held_meanwhile_may_be_lost_too(end: str) -> None:
    play = on_nodes("n1", "n2", "n3", workers=3)
    one, two, three = play.asks()
    stand(play, one, "n1")
    stand(play, two, "n2", "V100")
    play.grant(three, "n3")
    is_preempted = end == "preempted"
    actions = play.end(three, ContainerEnd.PREEMPTED) if is_preempted else play.silent(three)
    assert only(actions, AskContainer).target.nodes == (NodeId("n3"),)
    assert play.gang.phase is Phase.ACQUIRING
    assert play.gang.retries.preemptions == 0


def test_a_new_attempt_starts_the_count_anew_and_uses_the_node_last() -> None:
    """The planner has learnt the model meanwhile. Were the node out of bounds for good, a gang
    whose first task came to stand on the odd node out would never find the others."""
    play = on_nodes("n1", workers=1)
    stand(play, play.asks()[0], "n1", "V100")
    play.jitter(0.5)
    request = only(play.fire(TimerKind.BACKOFF), RequestPlan)
    assert (request.excluded, request.doubtful) == ((), (NodeId("n1"),))
    play.send(PlanReady(0, play.gang.attempt, PlacementPlan((seats(play, "n2"),))))
    assert (play.gang.acquisition.misfits, play.gang.acquisition.refusals) == (0, ())


# ---- a gang that grows judges as one that is being acquired ---------------------------------


def growing(model: str = "A100") -> Elastic:
    """Two workers may start; their GPUs must be of one model."""
    spec = elastic_job()
    play = Elastic(replace(spec, placement=replace(spec.placement, gpu_model=model)))
    play.start()
    play.after(31.0).room_for(2)
    return play


def running(play: Elastic) -> Elastic:
    play.start_all()
    assert play.gang.phase is Phase.RUNNING
    return play.after(300.0)


def test_a_node_found_unfit_before_the_start_is_not_grown_onto() -> None:
    play = growing()
    one, two = play.asks()
    stand(play, one, "n1")
    stand(play, two, "n2", "V100")
    (two,) = play.waiting()
    stand(play, two, "n3")
    running(play)
    assert only(play.fire(TimerKind.RESIZE), ProbeCluster).excluded == (NodeId("n2"),)
    play.see(spare=1)
    (more,) = play.further(1)
    actions = play.grant(more, "n2")
    assert only(actions, ReleaseContainer).ask == more, "its agent is not waited for"
    assert play.gang.reason == "did not grow: misfit: n2 has V100, the job wants A100"


def test_a_node_found_unfit_while_growing_is_not_asked_for_again() -> None:
    play = growing()
    for ask, node in zip(play.asks(), ("n1", "n2"), strict=True):
        stand(play, ask, node)
    running(play).probed(spare=1)
    (more,) = play.further(1)
    stand(play, more, "n5", "V100")
    assert play.gang.resizing.growth is None
    play.after(60.0)
    assert only(play.fire(TimerKind.RESIZE), ProbeCluster).excluded == (NodeId("n5"),)
    assert only(play.see(spare=1), RequestPlan).excluded == (NodeId("n5"),)


def test_containers_to_grow_by_must_go_with_each_other() -> None:
    play = growing(model="same")
    for ask, node in zip(play.asks(), ("n1", "n2"), strict=True):
        stand(play, ask, node, "")
    running(play).probed(spare=2)
    one, two = play.further(2)
    stand(play, one, "n5", "A100")
    stand(play, two, "n6", "V100")
    assert play.gang.resizing.growth is None
    assert play.gang.reason == "did not grow: misfit: n6 has V100, the others have A100"
