"""Whatever the world does to it, the gang machine keeps its promises."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.property.gang_world import (
    Step,
    Violation,
    World,
    random_walk,
    small_job,
    stored_run,
    troubled_run,
    waiting_run,
)
from yarnam.core.accounting.ledger import account_all
from yarnam.core.gang import Gang, GangPolicy, MemberState, step
from yarnam.core.gang.state import Exclusion
from yarnam.core.model.actions import (
    Action,
    AdoptGang,
    AskContainer,
    Finish,
    LaunchGang,
    ReleaseContainer,
    ReleaseKept,
    StartTimer,
    StopTask,
    StoreOutputs,
)
from yarnam.core.model.events import (
    AmRestarted,
    AwaitedJobsSeen,
    ContainerEnded,
    ContainerGranted,
    Event,
    NodesSuspected,
    TaskExited,
    TaskStaged,
    TimerFired,
    TimerKind,
)
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_spec import NodeCheck
from yarnam.core.model.job_status import FINAL_PHASES, Phase, PreRunState
from yarnam.core.model.outcomes import ContainerEnd, ExitKind, ProcessExit
from yarnam.errors import ExitCode
from yarnam.wire.codec import decode_event, encode_event

PICK = st.integers(0, 30)


class Machine(RuleBasedStateMachine):
    """Hypothesis chooses the world's moves; ``World`` holds the machine to its promises."""

    with_ps = False
    output = ""
    is_staged = False
    has_pre_run = False
    has_rules = False

    def __init__(self) -> None:
        super().__init__()
        job = small_job(
            with_ps=self.with_ps,
            output=self.output,
            is_staged=self.is_staged,
            has_pre_run=self.has_pre_run,
            has_rules=self.has_rules,
        )
        self.world = World(job)

    @rule(pick=PICK, node=st.integers(0, 4))
    def grant(self, pick: int, node: int) -> None:
        self.world.yarn_grants(pick, node)

    @rule(pick=PICK, elsewhere=st.booleans())
    def register(self, pick: int, elsewhere: bool) -> None:
        self.world.agent_registers(pick, is_elsewhere=elsewhere)

    @rule(pick=PICK, end=st.sampled_from(ContainerEnd))
    def end(self, pick: int, end: ContainerEnd) -> None:
        self.world.container_ends(pick, end)

    @rule(pick=PICK, what=st.sampled_from(("silent", "unable", "busy", "user")))
    def agent_trouble(self, pick: int, what: str) -> None:
        self.world.agent_reports(pick, what)

    @rule(pick=PICK)
    def stage(self, pick: int) -> None:
        self.world.task_stages(pick)

    @rule(pick=PICK)
    def start(self, pick: int) -> None:
        self.world.task_starts(pick)

    @rule(pick=PICK, kind=st.sampled_from(ExitKind))
    def exit(self, pick: int, kind: ExitKind) -> None:
        self.world.task_exits(pick, kind)

    @rule(
        answer=st.sampled_from(("ready", "ready", "busy", "never")),
        rung=st.integers(0, 4),
        lead=st.integers(0, 2),
    )
    def answer(self, answer: str, rung: int, lead: int) -> None:
        self.world.planner_answers(answer, rung, lead)

    @rule(u=st.floats(0, 1, exclude_max=True))
    def jitter(self, u: float) -> None:
        self.world.jitter_comes(u)

    @rule(pick=PICK)
    def message(self, pick: int) -> None:
        self.world.message_comes(pick)

    @rule(pick=PICK)
    def message_twice(self, pick: int) -> None:
        self.world.message_comes_twice(pick)

    @rule(pick=PICK)
    def message_lost(self, pick: int) -> None:
        self.world.message_is_lost(pick)

    @rule(pick=st.integers(0, 200))
    def old_message(self, pick: int) -> None:
        self.world.old_message_comes(pick)

    @rule(steps=st.integers(1, 12))
    def healthy_for_a_while(self, steps: int) -> None:
        for _ in range(steps):
            self.world._fair_move()

    @rule(seconds=st.sampled_from((0.1, 3.0, 61.0)))
    def time(self, seconds: float) -> None:
        self.world.time_passes(seconds)

    @rule()
    def timer(self) -> None:
        self.world.timer_fires()

    @rule(pick=PICK)
    def old_timer(self, pick: int) -> None:
        self.world.old_timer_fires(pick)

    @rule(pick=PICK)
    def hint(self, pick: int) -> None:
        self.world.others_suspect(pick)

    @rule(pick=PICK, timeout_s=st.sampled_from((None, 5.0, 60.0)))
    def announcement(self, pick: int, timeout_s: float | None) -> None:
        self.world.yarn_announces(pick, timeout_s)

    @rule(how=st.sampled_from(("ok", "trouble", "failed")))
    def storing(self, how: str) -> None:
        self.world.storing_goes_on(how)

    @rule(keeps=st.integers(0, 5))
    def am_restart(self, keeps: int) -> None:
        self.world.am_restarts(keeps)

    @rule()
    def cancel(self) -> None:
        self.world.user_cancels()

    @rule()
    def suspend(self) -> None:
        self.world.user_suspends()

    @rule()
    def resume(self) -> None:
        self.world.user_resumes()

    @rule()
    def refuse_inputs(self) -> None:
        self.world.inputs_are_refused()

    @rule()
    def broker(self) -> None:
        self.world.broker_fails()

    def teardown(self) -> None:
        self.world.drain()


class MachineWithPs(Machine):
    with_ps = True


class MachineWithOutputs(Machine):
    with_ps = True
    output = "/results/job"


class MachineWithInputs(Machine):
    is_staged = True


class MachineWithPreRun(Machine):
    has_pre_run = True


class MachineWithRules(Machine):
    has_rules = True
    output = "/results/job"


TestGang = Machine.TestCase
TestGang.settings = settings(
    max_examples=150,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestGangWithPs = MachineWithPs.TestCase
TestGangWithPs.settings = settings(TestGang.settings, max_examples=75)
TestGangWithOutputs = MachineWithOutputs.TestCase
TestGangWithOutputs.settings = settings(TestGang.settings, max_examples=75)
TestGangWithInputs = MachineWithInputs.TestCase
TestGangWithInputs.settings = settings(TestGang.settings, max_examples=75)
TestGangWithRules = MachineWithRules.TestCase
TestGangWithRules.settings = settings(TestGang.settings, max_examples=75)
TestGangWithPreRun = MachineWithPreRun.TestCase
TestGangWithPreRun.settings = settings(TestGang.settings, max_examples=75)


@pytest.mark.parametrize("with_ps", [False, True])
def test_seeded_walks_keep_every_promise(with_ps: bool) -> None:
    for seed in range(200):
        random_walk(World(small_job(with_ps=with_ps)), seed, moves=120)


def test_a_pre_run_comes_first_and_takes_nothing_of_the_gang() -> None:
    """``World`` looks at each step."""
    worlds = []
    for seed in range(300, 500):
        world = World(small_job(with_ps=seed % 2 == 1, is_staged=seed % 5 == 0, has_pre_run=True))
        (random_walk if seed % 3 else troubled_run)(world, seed, moves=150)
        worlds.append(world)
    ends = [world.gang.pre_run for world in worlds]
    states = {end.state for end in ends if end is not None}
    assert states == set(PreRunState), "it came to every end"
    assert any(end is not None and end.retries for end in ends)


def test_a_journal_of_a_pre_run_gives_the_gang_back() -> None:
    for seed in range(60):
        world = World(small_job(restarts=9, has_pre_run=True))
        troubled_run(world, seed, moves=120)
        events = [decode_event(encode_event(event)) for event in world.seen]
        assert account_all(world.job, 0.0, events)[0] == world.gang


def test_a_gang_runs_for_its_time_limit_at_most() -> None:
    """``World`` looks at each step."""
    ended = 0
    for seed in range(150):
        job = small_job(restarts=9, time_limit_s=120.0, has_pre_run=seed % 3 == 0)
        world = World(job)
        (random_walk if seed % 2 else troubled_run)(world, seed, moves=150)
        verdict = world.gang.verdict
        ended += verdict is not None and verdict.exit_code == ExitCode.TIME_LIMIT
        events = [decode_event(encode_event(event)) for event in world.seen]
        assert account_all(world.job, 0.0, events)[0] == world.gang
    assert ended > 5


def test_nothing_is_requested_before_the_jobs_that_come_first_have_ended() -> None:
    """``World`` looks at each step."""
    ends, plans = set(), 0
    for seed in range(200):
        world = World(small_job(waits_for_jobs=True, has_pre_run=seed % 3 == 0, restarts=9))
        waiting_run(world, seed)
        ends.add(world.gang.verdict and world.gang.verdict.exit_code)
        plans += bool(world.launches)
        events = [decode_event(encode_event(event)) for event in world.seen]
        assert account_all(world.job, 0.0, events)[0] == world.gang
    assert {ExitCode.OK, ExitCode.DEPENDENCY_FAILED, ExitCode.CANCELLED} <= ends
    assert plans > 50


def plans_before_the_others_have_ended(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    if isinstance(event, AmRestarted) and gang.awaited:
        gang = replace(gang, awaited=())
    return step(gang, event, policy)


def waits_again_after_a_late_answer(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    if isinstance(event, AwaitedJobsSeen) and not gang.awaited:
        gang = replace(gang, awaited=event.jobs)
    return step(gang, event, policy)


@pytest.mark.parametrize(
    "fault",
    [plans_before_the_others_have_ended, waits_again_after_a_late_answer],
    ids=lambda fault: fault.__name__,
)
def test_seeded_fault_of_the_wait_for_jobs_is_caught(fault: Step) -> None:
    for seed in range(60):
        try:
            waiting_run(World(small_job(waits_for_jobs=True), play=fault), seed)
        except Violation:
            return
    pytest.fail(f"{fault.__name__} went unnoticed in 60 walks")


def test_no_process_starts_before_all_have_their_inputs() -> None:
    """``World`` looks at each launch."""
    launches, lost_while_staging = 0, 0
    for seed in range(200):
        world = World(small_job(with_ps=seed % 2 == 1, is_staged=True, restarts=9))
        (random_walk if seed % 4 else troubled_run)(world, seed, moves=150)
        launches += len(world.launches)
        back = (Phase.STAGING, Phase.ACQUIRING)
        lost_while_staging += any((a, b) == back for a, _, b in world.edges)
    assert launches > 200
    assert lost_while_staging > 20, "it came to losses while inputs were on their way"


def test_no_process_starts_before_all_nodes_were_checked() -> None:
    """``World`` looks at each launch."""
    launches, replaced = 0, 0
    for seed in range(200):
        is_staged = seed % 3 == 0
        world = World(small_job(is_staged=is_staged, restarts=9, check=NodeCheck.QUICK))
        (random_walk if seed % 4 else troubled_run)(world, seed, moves=150)
        launches += len(world.launches)
        replaced += any((a, b) == (Phase.CHECKING, Phase.ACQUIRING) for a, _, b in world.edges)
    assert launches > 150
    assert replaced > 5, "it came to bad nodes"


def test_outputs_are_stored_whole_or_the_job_has_not_succeeded() -> None:
    ends: set[Phase] = set()
    for seed in range(300):
        world = World(small_job(with_ps=seed % 2 == 1, output="/results/job"))
        stored_run(world, seed)
        ends.add(world.gang.phase)
    assert ends == FINAL_PHASES


def test_a_journal_of_storing_gives_the_gang_back() -> None:
    for seed in range(30):
        world = World(small_job(output="/results/job"))
        stored_run(world, seed)
        events = [decode_event(encode_event(event)) for event in world.seen]
        assert account_all(world.job, 0.0, events)[0] == world.gang


@pytest.mark.parametrize("with_ps", [False, True])
def test_gangs_in_trouble_while_they_run_keep_every_promise(with_ps: bool) -> None:
    worlds = [World(small_job(with_ps=with_ps, restarts=9)) for _ in range(150)]
    for seed, world in enumerate(worlds):
        troubled_run(world, seed, moves=200)
    assert sum(world.recoveries for world in worlds) > len(worlds), "it came to recoveries"
    assert sum(world.recoveries_at_launch for world in worlds) > 20, "at the launch too"


def test_a_journal_gives_the_gang_back() -> None:
    """Written down as the AM writes it, read back, folded again."""
    for seed in range(60):
        world = World(small_job(restarts=9))
        troubled_run(world, seed, moves=120)
        events = [decode_event(encode_event(event)) for event in world.seen]
        assert account_all(world.job, 0.0, events)[0] == world.gang


# ---- the checks bite: faults seeded into the machine are caught ---------------------------------


def drops_a_release(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    releases = [a for a in actions if isinstance(a, ReleaseContainer)]
    return after, tuple(a for a in actions if not releases or a is not releases[-1])


def keeps_late_grants(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    if isinstance(event, ContainerGranted) and gang.find(event.ask) is None:
        return gang, ()
    return step(gang, event, policy)


def launches_one_short(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    return after, tuple(
        replace(a, members=a.members[:-1]) if isinstance(a, LaunchGang) else a for a in actions
    )


def finishes_twice(gang: Gang, event: Event, policy: GangPolicy) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    ends = tuple(a for a in actions if isinstance(a, Finish))
    return after, actions + ends


def holds_for_ever(gang: Gang, event: Event, policy: GangPolicy) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    limits = {TimerKind.HOLD, TimerKind.LOCALIZE}
    kept = tuple(t for t in after.timers if t.timer.kind not in limits)
    return replace(after, timers=kept), tuple(
        a for a in actions if not (isinstance(a, StartTimer) and a.timer.kind in limits)
    )


def forgets_who_is_excluded(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    if isinstance(event, ContainerGranted):
        return step(gang, event, replace(policy, excluded=()))
    return step(gang, event, policy)


def believes_every_grant(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    """Verifies against the member's own target only loosely: any rack will do."""
    member = gang.find(event.ask) if isinstance(event, ContainerGranted) else None
    if isinstance(event, ContainerGranted) and member is not None:
        loose = replace(member, target=replace(member.target, nodes=(event.node,)))
        members = tuple(loose if m is member else m for m in gang.members)
        return step(replace(gang, members=members), event, policy)
    return step(gang, event, policy)


def trusts_stale_timers(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    timer = gang.timer(event.timer.kind) if isinstance(event, TimerFired) else None
    if isinstance(event, TimerFired) and timer is not None:
        late = max(event.at_s, timer.deadline_s)
        return step(gang, TimerFired(late, timer.timer), policy)
    return step(gang, event, policy)


def forgets_failures_with_its_am(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    if isinstance(event, AmRestarted) and after.phase is Phase.BACKING_OFF:
        return replace(after, history=()), actions
    return after, actions


def forgets_what_yarn_has_kept(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    return after, tuple(a for a in actions if not isinstance(a, ReleaseKept))


def adopts_without_limits(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    if isinstance(event, AmRestarted) and any(isinstance(a, AdoptGang) for a in actions):
        return after, tuple(a for a in actions if not isinstance(a, StartTimer))
    return after, actions


def asks_under_an_old_name(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    renamed = tuple(
        AskContainer(AskId(1, a.ask.role, a.ask.number), a.target)
        if isinstance(a, AskContainer)
        else a
        for a in actions
    )
    return after, renamed


def stops_the_unlaunched(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    if after.phase is Phase.ACQUIRING and after.members:
        return after, (*actions, StopTask(after.members[0].ask, after.attempt, 1.0, "why not"))
    return after, actions


# ---- the same for recovery, preemption and the blacklist ----------------------------------------


def seen_as(
    wrong: Gang, gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    """One step with a wrong idea of the gang, which by itself changes nothing."""
    after, actions = step(wrong, event, policy)
    return (gang if after == wrong else after), actions


def launches_again_under_the_old_number(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    old = min((m.ask.attempt for m in after.members), default=after.attempt)
    return after, tuple(
        replace(a, attempt=old) if isinstance(a, LaunchGang) else a for a in actions
    )


def keeps_what_did_not_stop(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    """When the STOP timer fires, tasks that have not said how they ended count as ended."""
    if isinstance(event, TimerFired) and event.timer.kind is TimerKind.STOP:
        ended = ProcessExit(0, ExitKind.STOPPED)
        members = tuple(
            replace(m, state=MemberState.EXITED, exits=(ended,))
            if m.state is MemberState.STARTED
            else m
            for m in gang.members
        )
        return seen_as(replace(gang, members=members), gang, event, policy)
    return step(gang, event, policy)


def keeps_what_is_gone(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    """Containers that ended after their processes are held to be there."""
    members = tuple(replace(member, is_gone=False) for member in gang.members)
    return seen_as(replace(gang, members=members), gang, event, policy)


def replaces_without_a_limit(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    kept = tuple(t for t in after.timers if t.timer.kind is not TimerKind.RECOVERY)
    return replace(after, timers=kept), tuple(
        a for a in actions if not (isinstance(a, StartTimer) and a.timer.kind is TimerKind.RECOVERY)
    )


def replaces_for_free(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    return replace(after, retries=replace(after.retries, restarts=0)), actions


def goes_on_without_the_missing(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    if after.search is not None and len(after.members) > 1:
        return replace(after, search=replace(after.search, missing=())), actions
    return after, actions


def does_not_let_the_lost_go(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    """What is released when a recovery begins stays with YARN."""
    after, actions = step(gang, event, policy)
    if after.search is not None and gang.search is None:
        actions = tuple(a for a in actions if not isinstance(a, ReleaseContainer))
    return after, actions


def takes_a_preemption_for_a_loss(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    if isinstance(event, ContainerEnded) and event.end is ContainerEnd.PREEMPTED:
        event = replace(event, end=ContainerEnd.FAILED)
    return step(gang, event, policy)


def charges_for_preemptions(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    paid = after.retries.preemptions - gang.retries.preemptions
    counted = replace(after.acquisition, failures=after.acquisition.failures + paid)
    return replace(after, acquisition=counted), actions


def believes_reports_of_older_launches(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    if isinstance(event, TaskExited):
        event = replace(event, attempt=gang.attempt)
    return step(gang, event, policy)


def excludes_nobody(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    return replace(after, nodes=replace(after.nodes, exclusions=())), actions


def trusts_the_blacklisted(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    if not isinstance(event, ContainerGranted):
        return step(gang, event, policy)
    after, actions = step(replace(gang, nodes=replace(gang.nodes, exclusions=())), event, policy)
    return replace(after, nodes=replace(after.nodes, exclusions=gang.nodes.exclusions)), actions


def excludes_on_hearsay(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    if isinstance(event, NodesSuspected):
        heard = Exclusion(event.nodes[0], event.at_s, event.at_s + 10.0, "they say so")
        return replace(after, nodes=replace(after.nodes, exclusions=(heard,))), actions
    return after, actions


def knows_no_cap(gang: Gang, event: Event, policy: GangPolicy) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(
        replace(gang, nodes=replace(gang.nodes, cluster_nodes=1000)), event, policy
    )
    return replace(
        after, nodes=replace(after.nodes, cluster_nodes=gang.nodes.cluster_nodes)
    ), actions


def forgets_the_blacklist_with_its_am(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    if isinstance(event, AmRestarted):
        gang = replace(gang, nodes=replace(gang.nodes, strikes=(), exclusions=()))
    return step(gang, event, policy)


# ---- and for the outputs -------------------------------------------------------------------------


def succeeds_without_its_outputs(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    return step(gang, event, replace(policy, store_timeout_s=None))


def stores_for_ever(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    kept = tuple(t for t in after.timers if t.timer.kind is not TimerKind.STORE)
    return replace(after, timers=kept), tuple(
        a for a in actions if not (isinstance(a, StartTimer) and a.timer.kind is TimerKind.STORE)
    )


def runs_again_when_its_am_dies_while_it_stores(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    if isinstance(event, AmRestarted) and gang.phase is Phase.STORING:
        return step(replace(gang, phase=Phase.RUNNING), event, policy)
    return step(gang, event, policy)


def forgets_that_it_stores(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    if isinstance(event, AmRestarted):
        actions = tuple(a for a in actions if not isinstance(a, StoreOutputs))
    return after, actions


def stores_in_another_order(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    return after, tuple(
        replace(a, tasks=a.tasks[::-1]) if isinstance(a, StoreOutputs) else a for a in actions
    )


def holds_gpus_while_it_stores(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    if after.phase is Phase.STORING:
        actions = tuple(a for a in actions if not isinstance(a, ReleaseContainer))
    return after, actions


STORING_FAULTS: tuple[Step, ...] = (
    succeeds_without_its_outputs,
    stores_for_ever,
    runs_again_when_its_am_dies_while_it_stores,
    forgets_that_it_stores,
    stores_in_another_order,
    holds_gpus_while_it_stores,
)


@pytest.mark.parametrize("fault", STORING_FAULTS, ids=lambda fault: fault.__name__)
def test_seeded_fault_of_storing_is_caught(fault: Step) -> None:
    for seed in range(60):
        try:
            stored_run(World(small_job(with_ps=seed % 2 == 1, output="/o"), play=fault), seed)
        except Violation:
            return
    pytest.fail(f"{fault.__name__} went unnoticed in 60 walks")


def starts_with_the_first_that_has_its_inputs(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    if isinstance(event, TaskStaged) and gang.phase is Phase.STAGING:
        others = tuple(
            member if member.ask == event.ask else replace(member, is_staged=True)
            for member in gang.members
        )
        return step(replace(gang, members=others), event, policy)
    return step(gang, event, policy)


def waits_for_inputs_for_ever(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    if after.phase is Phase.STAGING:
        timers = tuple(t for t in after.timers if t.timer.kind is not TimerKind.STAGING)
        after = replace(after, timers=timers)
    return after, actions


def starts_where_a_node_was_excluded_meanwhile(
    gang: Gang, event: Event, policy: GangPolicy
) -> tuple[Gang, tuple[Action, ...]]:
    after, actions = step(gang, event, policy)
    is_left = gang.phase is Phase.STAGING and after.phase is not Phase.STAGING
    if is_left and isinstance(event, NodesSuspected):
        heard, out = after.nodes.suspicions, after.nodes.exclusions
        return replace(gang, nodes=replace(gang.nodes, suspicions=heard, exclusions=out)), ()
    return after, actions


STAGING_FAULTS: tuple[Step, ...] = (
    starts_with_the_first_that_has_its_inputs,
    waits_for_inputs_for_ever,
    starts_where_a_node_was_excluded_meanwhile,
)


@pytest.mark.parametrize("fault", STAGING_FAULTS, ids=lambda fault: fault.__name__)
def test_seeded_fault_of_staging_is_caught(fault: Step) -> None:
    for seed in range(300):
        try:
            job = small_job(with_ps=seed % 2 == 1, is_staged=True, restarts=9)
            random_walk(World(job, play=fault), seed, moves=120)
            troubled_run(World(job, play=fault), seed, moves=200)
        except Violation:
            return
    pytest.fail(f"{fault.__name__} went unnoticed in 300 walks")


FAULTS: tuple[Step, ...] = (
    launches_again_under_the_old_number,
    keeps_what_did_not_stop,
    keeps_what_is_gone,
    replaces_without_a_limit,
    replaces_for_free,
    goes_on_without_the_missing,
    does_not_let_the_lost_go,
    takes_a_preemption_for_a_loss,
    charges_for_preemptions,
    believes_reports_of_older_launches,
    excludes_nobody,
    trusts_the_blacklisted,
    excludes_on_hearsay,
    knows_no_cap,
    forgets_the_blacklist_with_its_am,
    drops_a_release,
    keeps_late_grants,
    launches_one_short,
    finishes_twice,
    holds_for_ever,
    forgets_who_is_excluded,
    believes_every_grant,
    trusts_stale_timers,
    forgets_failures_with_its_am,
    forgets_what_yarn_has_kept,
    adopts_without_limits,
    asks_under_an_old_name,
    stops_the_unlaunched,
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_seeded_fault_is_caught(fault: Step) -> None:
    for seed in range(60):
        has_ps = seed % 2 == 1
        try:
            random_walk(World(small_job(with_ps=has_ps), play=fault), seed, moves=120)
            troubled_run(World(small_job(with_ps=has_ps, restarts=9), play=fault), seed, moves=200)
        except Violation:
            return
    pytest.fail(f"{fault.__name__} went unnoticed in 120 walks")


@pytest.mark.parametrize("with_ps", [False, True])
def test_roles_with_rules_keep_every_promise(with_ps: bool) -> None:
    job = small_job(with_ps=with_ps, has_rules=True, output="/results/job")
    for seed in range(100):
        random_walk(World(job), seed, moves=120)
        troubled_run(World(job), seed, moves=200)
