"""The node blacklist: strikes, exclusions, hints, the cap."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.gang.play import ANEW, Play, failing, job, of, only, stopped
from yarnam.core.gang import describe, node_blacklist
from yarnam.core.model.actions import (
    AskContainer,
    Finish,
    ReleaseContainer,
    RequestPlan,
    ShareStrike,
)
from yarnam.core.model.events import TimerKind
from yarnam.core.model.ids import AskId, NodeId
from yarnam.core.model.job_spec import BlacklistSpec, GangSpec, JobSpec, RetrySpec
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import ContainerEnd, ExitKind, ProcessExit


def with_blacklist(workers: int = 2, **rules: float) -> JobSpec:
    spec = replace(BlacklistSpec(), **rules)  # type: ignore[arg-type]
    return job(workers=workers, retry=RetrySpec(on_user_failure=9, blacklist=spec))


def out(play: Play) -> tuple[str, ...]:
    return node_blacklist.excluded(play.gang, play.policy, play.now_s)


def last(play: Play) -> tuple[str, ...]:
    of_the_job = node_blacklist.suspects(play.gang, play.policy, play.now_s)
    return (*of_the_job, *node_blacklist.hinted(play.gang, play.policy, play.now_s))


def fail_on(play: Play, node: str, text: str = "no lease") -> None:
    """Grant the first ask that waits on this node; its agent cannot make it ready."""
    ask = play.waiting()[0]
    play.grant(ask, node)
    play.unable(ask, text)


def acquiring(spec: JobSpec | None = None, cluster: int = 8) -> Play:
    play = Play(spec or with_blacklist())
    play.start()
    play.plan(nodes=cluster)
    return play


def test_two_strikes_exclude_a_node_for_the_cool_down() -> None:
    play = acquiring()
    fail_on(play, "n1")
    assert (out(play), last(play)) == ((), ("n1",))
    fail_on(play, "n1")
    assert (out(play), last(play)) == (("n1",), ())
    play.after(3599)
    assert out(play) == ("n1",)
    play.after(2)
    assert (out(play), last(play)) == ((), ())


def test_strikes_expire() -> None:
    play = acquiring()
    fail_on(play, "n1")
    play.after(3601)
    fail_on(play, "n1")
    assert out(play) == ()


def test_every_strike_is_shared_with_its_reason() -> None:
    play = acquiring()
    ask = play.waiting()[0]
    play.grant(ask, "n1")
    shared = only(play.unable(ask, "GPU 3 is held by job x"), ShareStrike)
    assert (shared.node, "GPU 3 is held by job x" in shared.reason) == ("n1", True)


def test_the_job_s_own_fault_is_no_strike() -> None:
    play = acquiring()
    ask = play.waiting()[0]
    play.grant(ask, "n1")
    assert of(play.unable(ask, "no such file", is_user=True), ShareStrike) == []
    assert last(play) == ()


def test_a_device_that_others_hold_is_no_strike() -> None:
    """Any user of a node can do that to every job, without any fault of the node."""
    play = acquiring()
    for _ in range(2):  # as many as would exclude it
        ask = play.waiting()[0]
        play.grant(ask, "n1")
        assert of(play.unable(ask, "GPU 3 is held by bob", is_busy=True), ShareStrike) == []
        assert of(play.all, ReleaseContainer)[-1].ask == ask
    assert play.gang.nodes.strikes == ()
    assert out(play) == ()


def test_a_container_that_cannot_be_started_is_a_strike() -> None:
    play = acquiring()
    ask = play.waiting()[0]
    play.grant(ask, "n1")
    play.end(ask, ContainerEnd.FAILED, "Container launch failed")
    assert last(play) == ("n1",)


def test_one_that_ended_after_its_agent_had_come_is_not() -> None:
    play = acquiring()
    ask = play.waiting()[0]
    play.grant(ask, "n1")
    play.register(ask, "n1")
    play.end(ask, ContainerEnd.FAILED, "killed by somebody")
    assert last(play) == ()


def test_a_lost_node_is_out_at_once() -> None:
    play = Play(with_blacklist()).to_running()
    play.end(play.asks()[0], ContainerEnd.LOST, "node lost")
    assert out(play) == ("n1",)


def test_a_silent_agent_is_one_strike() -> None:
    play = Play(with_blacklist()).to_running()
    play.silent(play.asks()[0])
    assert (out(play), last(play)) == ((), ("n1",))


def test_a_doubled_event_is_one_strike() -> None:
    play = Play(with_blacklist()).to_running()
    for _ in range(3):
        play.silent(play.asks()[0])
    assert (out(play), last(play)) == ((), ("n1",))


def test_a_grant_on_an_excluded_node_is_given_back_and_the_hold_goes_on() -> None:
    play = acquiring()
    fail_on(play, "n1")
    fail_on(play, "n1")
    one, two = play.asks()
    play.grant(one, "n2")
    actions = play.grant(two, "n1")
    assert "blacklist" in only(actions, ReleaseContainer).reason
    assert only(actions, AskContainer).ask not in {one, two}
    assert play.gang.phase is Phase.ACQUIRING
    assert play.gang.acquisition.misfits == 1


def test_a_grant_outside_of_the_nodes_that_the_job_names_is_given_back() -> None:
    spec = job()
    play = Play(replace(spec, placement=replace(spec.placement, include_nodes=("n1", "n2"))))
    play.start()
    play.plan()
    one, two = play.asks()
    assert of(play.grant(one, "n1"), ReleaseContainer) == []
    assert "not among the nodes" in only(play.grant(two, "n3"), ReleaseContainer).reason


def test_no_share_means_no_blacklist() -> None:
    play = Play(with_blacklist(max_share=0.0)).to_running()
    play.end(play.asks()[0], ContainerEnd.LOST)
    assert out(play) == ()


def test_what_else_is_held_there_goes_too() -> None:
    play = acquiring(with_blacklist(workers=3))
    fail_on(play, "n1")
    one, two, three = play.asks()
    play.grant(one, "n1")
    play.grant(two, "n2")
    play.grant(three, "n1")
    actions = play.unable(three, "no lease")
    assert {a.ask for a in of(actions, ReleaseContainer)} == {one, three}
    assert two in play.asks()
    assert len(play.waiting()) == 2


def test_the_planner_leaves_out_the_excluded_and_uses_the_suspected_last() -> None:
    play = acquiring()
    fail_on(play, "n1")
    fail_on(play, "n1")
    fail_on(play, "n2")
    play.suspect("n3")
    play.fire(TimerKind.ASK) if play.gang.timer(TimerKind.ASK) else play.fire(TimerKind.HOLD)
    play.jitter(0.5)
    request = only(play.fire(TimerKind.BACKOFF), RequestPlan)
    assert (request.excluded, request.suspects, request.doubtful) == (("n1",), ("n2",), ("n3",))


def test_the_cap_lifts_the_oldest_exclusions_first() -> None:
    play = acquiring(cluster=6)
    for node in ("n1", "n2", "n3"):
        fail_on(play, node)
        fail_on(play, node)
        play.after(1)
    assert out(play) == ("n2", "n3"), "a third of six"
    assert "n1" in last(play), "but used last"


def test_a_cluster_that_shrinks_lifts_too() -> None:
    play = acquiring(with_blacklist(workers=1), cluster=6)
    for node in ("n1", "n2"):
        fail_on(play, node)
        fail_on(play, node)
    assert out(play) == ("n1", "n2")
    play.fire(TimerKind.HOLD if play.gang.timer(TimerKind.HOLD) else TimerKind.ASK)
    play.jitter(0.5)
    play.fire(TimerKind.BACKOFF)
    play.plan(nodes=3)
    assert out(play) == ("n2",)


def test_a_lifted_node_needs_a_new_fault_to_be_out_again() -> None:
    play = acquiring(cluster=3)
    for node in ("n1", "n2"):
        fail_on(play, node)
        fail_on(play, node)
    assert out(play) == ("n2",)
    play.suspect("n3")
    fail_on(play, "n3")
    assert out(play) == ("n3",), "with the others' hint that was the second strike"
    fail_on(play, "n1")
    assert out(play) == ("n1",)


def test_zero_strikes_exclude_nobody() -> None:
    play = Play(with_blacklist(strikes=0)).to_running()
    play.end(play.asks()[0], ContainerEnd.LOST)
    assert (out(play), last(play)) == ((), ("n1",))


def test_hints_alone_exclude_nobody() -> None:
    play = acquiring()
    for _ in range(5):
        play.after(1).suspect("n1", "n2")
    assert (out(play), last(play)) == ((), ("n1", "n2"))


def test_a_hint_and_a_strike_do() -> None:
    play = acquiring()
    play.suspect("n1")
    fail_on(play, "n1")
    assert out(play) == ("n1",)


def test_a_hint_after_a_strike_does_and_what_is_held_there_goes() -> None:
    play = acquiring()
    fail_on(play, "n1")
    one = play.waiting()[0]
    play.grant(one, "n1")
    actions = play.suspect("n1")
    assert out(play) == ("n1",)
    assert only(actions, ReleaseContainer).ask == one


def test_hints_expire() -> None:
    play = acquiring()
    play.suspect("n1")
    play.after(3601)
    assert last(play) == ()


def test_never_because_of_the_blacklist_lifts_it() -> None:
    """A gang that needs every node must not be told that it never fits."""
    play = acquiring(cluster=3)
    fail_on(play, "n1")
    fail_on(play, "n1")
    play.fire(TimerKind.HOLD if play.gang.timer(TimerKind.HOLD) else TimerKind.ASK)
    play.jitter(0.5)
    play.fire(TimerKind.BACKOFF)
    request = only(play.refuse("the gang needs 3 nodes", is_never=True), RequestPlan)
    assert request.excluded == ()
    only(play.refuse("the gang needs 4 nodes", is_never=True), Finish)


def test_an_am_restart_keeps_the_blacklist() -> None:
    play = acquiring()
    fail_on(play, "n1")
    fail_on(play, "n1")
    fail_on(play, "n2")
    play.after(5).restart_am()
    assert (out(play), last(play)) == (("n1",), ("n2",))


# ---- programs that crash ------------------------------------------------------------------------


def crash_on(play: Play, node: str, others: tuple[str, ...] = ("n8", "n9")) -> None:
    """A whole run; the first task, on this node, is killed by SIGSEGV."""
    play.grant_all(on=(node, *others)).register_all()
    play.start_all()
    (victim,) = [m.ask for m in play.gang.members if m.grant and m.grant.node == node]
    play.exited(victim, ProcessExit(0, ExitKind.SIGNAL, signal=11, ended_at_s=play.now_s))
    for member in play.gang.members:
        if member.ask != victim:
            play.exited(member.ask, stopped(0), stopped(1))
    assert play.gang.phase is Phase.BACKING_OFF, play.gang.phase
    play.jitter(0.5)
    play.fire(TimerKind.BACKOFF)
    play.plan(nodes=8)


def test_a_program_that_crashes_on_one_node_only_speaks_against_the_node() -> None:
    play = acquiring()
    crash_on(play, "n1")
    assert last(play) == (), "once is the program's affair"
    crash_on(play, "n1")
    assert last(play) == ("n1",)
    crash_on(play, "n1")
    assert out(play) == ("n1",)


def test_a_program_that_crashes_everywhere_does_not() -> None:
    play = acquiring()
    for node in ("n1", "n2", "n1", "n1"):
        crash_on(play, node)
    assert (out(play), last(play)) == ((), ())


def test_a_gang_on_one_node_proves_nothing() -> None:
    play = acquiring(with_blacklist(workers=1))
    for _ in range(3):
        crash_on(play, "n1", ())
    assert (out(play), last(play)) == ((), ())


def test_an_exit_code_says_nothing_of_the_node() -> None:
    play = acquiring()
    for _ in range(3):
        play.grant_all(on=("n1", "n2")).register_all()
        play.start_all()
        one, two = play.asks()
        play.exited(one, failing(1, play.now_s))
        play.exited(two, stopped(0), stopped(1))
        play.to_next_attempt()
    assert last(play) == ()


def test_a_recovery_does_not_keep_what_stands_on_an_excluded_node() -> None:
    play = Play(job(workers=3)).to_acquiring()
    for ask, node in zip(play.asks(), ("n1", "n1", "n2"), strict=True):
        play.grant(ask, node)
    play.register_all()
    play.start_all()
    one, two, three = play.asks()
    play.end(one, ContainerEnd.LOST, "node lost")
    play.exited(two, stopped())
    play.exited(three, stopped())
    assert play.asks() == [three]
    assert two in {a.ask for a in of(play.all, ReleaseContainer)}


def test_the_unknown_cluster_has_at_most_one_node_excluded() -> None:
    play = Play(job(gang=ANEW, retry=RetrySpec(max_restarts=9)))
    play.start()
    for node in ("n1", "n2"):
        play.plan()
        play.grant(play.asks()[0], node)
        play.end(play.asks()[0], ContainerEnd.LOST)
        play.fire(TimerKind.HOLD)
        play.jitter(0.5)
        play.fire(TimerKind.BACKOFF)
    assert out(play) == ("n2",)


def test_the_status_shows_who_is_refused_until_when_and_why() -> None:
    play = Play(with_blacklist(workers=3)).to_running()
    play.end(play.asks()[0], ContainerEnd.LOST, "Container released on a *lost* node")
    (shown,) = describe(play.gang, play.now_s).blacklist
    assert (shown.node, shown.until_s) == ("n1", play.now_s + 3600)
    assert shown.why == "node lost: Container released on a *lost* node"
    assert describe(play.gang, play.now_s + 3601).blacklist == ()


def test_ids_of_replaced_asks_are_new() -> None:
    play = acquiring()
    fail_on(play, "n1")
    assert AskId(1, "worker", 0) not in play.asks()
    assert NodeId("n1") in last(play)


def test_the_spec_of_a_job_is_what_counts() -> None:
    policy = Play(job(gang=GangSpec(recovery_timeout_s=7.0))).policy
    assert (policy.gang.recovery_timeout_s, policy.retry.blacklist) == (7.0, BlacklistSpec())
