"""A world that plays against the gang machine: YARN, agents, shell and clock, with bad manners.

It answers the machine's actions with events, late, twice, out of order or never, and checks after
every step what must hold at any time (``check``) and at last (``drain``: with a fair world from
here on, the gang ends). It is driven by Hypothesis and by seeded random walks alike, and knows
nothing of the machine's insides but its public state.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from yarnam.core.failures.process_failure import UNKNOWN
from yarnam.core.gang import (
    Gang,
    GangPolicy,
    Member,
    MemberState,
    describe,
    initial,
    policy_for,
    step,
)
from yarnam.core.model.actions import (
    Action,
    AdoptGang,
    AskContainer,
    CancelPlanRequest,
    CancelTimer,
    CheckNodes,
    DrawJitter,
    Finish,
    LaunchGang,
    PrepareGang,
    ReleaseContainer,
    ReleaseKept,
    RequestPlan,
    StartTimer,
    StopStoring,
    StopTask,
    StoreOutputs,
)
from yarnam.core.model.events import (
    AgentRegistered,
    AgentSilent,
    AgentUnable,
    AmRestarted,
    AwaitedJobsSeen,
    BrokerFailed,
    CancelRequested,
    ContainerEnded,
    ContainerGranted,
    ContainersMarked,
    CordonedNode,
    Event,
    InputsRefused,
    JitterDrawn,
    JobStarted,
    NodeChecked,
    NodeLeaving,
    NodesCordoned,
    NodesSuspected,
    OutputsStored,
    PlanReady,
    PlanRefused,
    ResumeRequested,
    StoringFailed,
    StoringTroubled,
    SuspendRequested,
    TaskExited,
    TaskReady,
    TaskStaged,
    TaskStarted,
    TimerFired,
    TimerId,
    TimerKind,
)
from yarnam.core.model.ids import PRE_RUN_ROLE, AskId, ContainerId, NodeId, RackId
from yarnam.core.model.job_spec import (
    PRE_RUN_RETRIES,
    After,
    Completion,
    CompletionRule,
    DataInput,
    Dependency,
    EarlyExit,
    GangSpec,
    InputMode,
    JobCondition,
    JobSpec,
    NodeCheck,
    PlacementSpec,
    PreRunSpec,
    RetrySpec,
    RoleSpec,
    StagingSpec,
    StartCondition,
)
from yarnam.core.model.job_status import FINAL_PHASES, JobState, Phase
from yarnam.core.model.outcomes import (
    ContainerEnd,
    ExitKind,
    FailureRole,
    NodeMeasures,
    ProcessExit,
    RetryAction,
    VerdictKind,
)
from yarnam.core.model.plans import (
    LocalityLevel,
    NoFit,
    PlacementPlan,
    Reason,
    Rung,
    Target,
    TargetAsk,
)
from yarnam.core.model.resources import Resources

Step = Callable[[Gang, Event, GangPolicy], tuple[Gang, tuple[Action, ...]]]

RACKS = {
    NodeId("n1"): RackId("/r1"),
    NodeId("n2"): RackId("/r1"),
    NodeId("bad"): RackId("/r1"),
    NodeId("n3"): RackId("/r2"),
    NodeId("n4"): RackId("/r2"),
}
NODES = tuple(RACKS)
ENDED = FINAL_PHASES | {Phase.STORING}
"""The gang is over: nothing is held."""
LAUNCHED = frozenset({Phase.LAUNCHING, Phase.RUNNING})
MAY_RUN = frozenset({MemberState.READY, MemberState.STARTED})
GETS_CONTAINERS = frozenset({Phase.ACQUIRING, Phase.REPLACING})

SIZE = Resources(1024, 1, 2)

FINDINGS = (
    None,
    *(replace(UNKNOWN, action=action) for action in RetryAction),
    replace(UNKNOWN, role=FailureRole.CASCADE),
)
"""What an agent may say of a failed process."""

AGENT_TROUBLE = ("silent", "unable", "busy", "user")


EARLIER = (
    Dependency("prep", JobCondition.SUCCEEDED, ("application_1_0001", "application_1_0002")),
    Dependency("old", JobCondition.ENDED, ("application_1_0003",)),
)


def small_job(
    *,
    with_ps: bool = False,
    attempts: int = 3,
    restarts: int = 2,
    output: str = "",
    is_staged: bool = False,
    check: NodeCheck = NodeCheck.OFF,
    has_pre_run: bool = False,
    has_rules: bool = False,
    waits_for_jobs: bool = False,
    time_limit_s: float | None = None,
) -> JobSpec:
    """Three workers of two processes, maybe a parameter server; tight limits. ``has_rules``: with
    roles that end, and may fail, in other ways."""
    roles = [RoleSpec("worker", 3, SIZE, ("train",), 2)]
    if with_ps:
        roles.append(RoleSpec("ps", 1, Resources(1024, 1, 0), ("serve",), 1))
    if has_rules:
        roles = _roles_with_rules(with_ps=with_ps)
    return JobSpec(
        name="job",
        queue="root.a",
        user="u",
        framework="command",
        roles=tuple(roles),
        output=output,
        inputs=(DataInput("d", "/d", mode=InputMode.CACHE),) if is_staged else (),
        staging=StagingSpec(timeout_s=900.0),
        placement=PlacementSpec(exclude_nodes=("bad",), check=check),
        gang=GangSpec(attempts=attempts, wait_timeout_s=5000.0, recovery_timeout_s=60.0),
        retry=RetrySpec(max_restarts=restarts, on_user_failure=1),
        pre_run=PreRunSpec(time_limit_s=40.0, is_due=has_pre_run),
        depends_on=EARLIER if waits_for_jobs else (),
        time_limit_s=time_limit_s,
    )


LEAST_OK = 2
"""Workers that must succeed where roles have rules."""


def _roles_with_rules(*, with_ps: bool) -> list[RoleSpec]:
    enough = Completion(CompletionRule.AT_LEAST, LEAST_OK)
    small = Resources(1024, 1, 0)
    early = EarlyExit.FAIL if with_ps else EarlyExit.ACCEPT
    last = (After("worker"), After("ps", StartCondition.READY))
    if not with_ps:
        # The first task decides, all are waited for, and all start when the data is prepared.
        enough = Completion(CompletionRule.ANY, waits_for_all=True)
        first = (After("prepare", StartCondition.ENDED),)
        return [
            RoleSpec("board", 1, small, ("show",), 1, service=True, optional=True, after=last),
            RoleSpec("worker", 3, SIZE, ("train",), 2, completion=enough, after=last[1:] + first),
            RoleSpec("ps", 1, small, ("serve",), 1, early_exit=early),
            RoleSpec("prepare", 2, small, ("prepare",), 1),
        ]
    return [
        RoleSpec("board", 1, small, ("show",), 1, service=not with_ps, optional=True, after=last),
        RoleSpec("worker", 3, SIZE, ("train",), 2, completion=enough, after=last[1:]),
        RoleSpec("ps", 1, small, ("serve",), 1, early_exit=early),
    ]


def rungs_for(job: JobSpec) -> tuple[Rung, ...]:
    """Rungs that exercise every kind of verification."""
    places: tuple[tuple[LocalityLevel, dict[str, object]], ...] = (
        (LocalityLevel.NODE, {"node_limit": 2}),
        (LocalityLevel.RACK, {}),
        (LocalityLevel.ANY, {"same_rack": True}),
        (LocalityLevel.ANY, {"one_task_per_node": True}),
        (LocalityLevel.ANY, {}),
    )
    return tuple(
        Rung(
            number=number,
            level=level,
            asks=tuple(TargetAsk(_target(role, level), role.tasks) for role in job.roles),
            score=1.0,
            reason="test",
            **flags,  # type: ignore[arg-type]
        )
        for number, (level, flags) in enumerate(places)
    )


def _target(role: RoleSpec, level: LocalityLevel) -> Target:
    return Target(
        service=f"{role.name}-{level.name.lower()}",
        role=role.name,
        level=level,
        resources=role.resources,
        processes_per_task=role.processes_per_task,
        nodes=(NodeId("n1"), NodeId("n2")) if level is LocalityLevel.NODE else (),
        racks=(RackId("/r1"),) if level is LocalityLevel.RACK else (),
    )


class Violation(AssertionError):
    """The machine did what it must never do."""


def excluded(gang: Gang, policy: GangPolicy, now_s: float) -> tuple[NodeId, ...]:
    """Nodes that must get no task now: the job's own list, then its blacklist."""
    mine = (one.node for one in gang.nodes.exclusions if now_s < one.until_s)
    return tuple(dict.fromkeys((*policy.excluded, *mine)))


def most_excluded(gang: Gang, policy: GangPolicy) -> int:
    """How many nodes may be on the blacklist at once."""
    share = policy.retry.blacklist.max_share
    if not gang.nodes.cluster_nodes:
        return 1 if share else 0
    return int(share * gang.nodes.cluster_nodes + 1e-9)


def require(fact: object, text: str) -> None:
    if not fact:
        raise Violation(text)


@dataclass
class Truth:
    """What really is the case with one ask, and what the machine has been told of it."""

    target: Target
    grant: ContainerGranted | None = None
    is_told_granted: bool = False
    is_told_ended: bool = False
    is_released: bool = False
    is_released_since_told: bool = False
    is_gone_with_am: bool = False
    is_ended: bool = False
    told_agent: AgentRegistered | None = None
    launched: int = 0
    """Number of the attempt that started its processes last; 0: none did."""
    prepared: int = 0
    """Number of the attempt for which it fetches inputs, or has; 0: none."""
    staged: int = 0
    check: int = 0
    """Number of the check that it was asked for last; 0: none."""
    checks: set[int] = field(default_factory=set)
    """Those that it has answered."""
    is_exited: bool = False
    """Its processes have ended, those of the last launch."""
    is_told_exited: bool = False
    is_told_ok: bool = False
    told_started: int = 0
    """Number of the attempt of which the machine was told that its processes run."""
    told_ready: int = 0

    @property
    def is_launched(self) -> bool:
        return self.launched > 0


@dataclass
class World:
    """One run. ``play`` is the machine under test: ``step``, or a mutant of it."""

    job: JobSpec
    play: Step = step
    now_s: float = 1000.0
    inflight: list[Event] = field(default_factory=list)
    seen: list[Event] = field(default_factory=list)
    timers: dict[TimerId, float] = field(default_factory=dict)
    old_timers: list[TimerId] = field(default_factory=list)
    truths: dict[AskId, Truth] = field(default_factory=dict)
    plans: list[RequestPlan] = field(default_factory=list)
    draws: list[DrawJitter] = field(default_factory=list)
    finishes: int = 0
    launches: list[LaunchGang] = field(default_factory=list)
    runs: int = 0
    am_attempt: int = 1
    containers: int = 0
    edges: set[tuple[Phase, str, Phase]] = field(default_factory=set)
    preempted: set[int] = field(default_factory=set)
    """Attempts in which YARN took a task of a launched gang."""
    recoveries: int = 0
    recoveries_at_launch: int = 0
    transients: int = 0
    """Of these: before all processes had started."""
    extra_attempts: int = 0
    """Attempts that are no tries to acquire: changes of size."""
    stores: list[StoreOutputs] = field(default_factory=list)
    """What the shell was told to store and has not answered."""
    stops: list[StopStoring] = field(default_factory=list)
    has_stored: bool = False
    """Whether the output really is there."""
    is_told_stored: bool = False

    def __post_init__(self) -> None:
        self.gang = initial(self.job)
        self.policy = policy_for(self.job)
        self.rungs = rungs_for(self.job)
        self.pre_run_rungs = rungs_for(self.job.as_pre_run())
        self.deliver(JobStarted(self.now_s))

    # ---- the machine's side ---------------------------------------------------------------

    def deliver(self, event: Event) -> None:
        """One step, everything it asks for, and all the checks."""
        event = replace(event, at_s=self.now_s)
        before = self.gang
        after, actions = self.play(before, event, self.policy)
        self.seen.append(event)
        must_be_out = self._lost_node(event, before)
        self._learn(event)
        self.gang = after
        self._note_preemption(event, before)
        self.edges.add((before.phase, type(event).__name__, after.phase))
        if after.phase is Phase.RUNNING and before.phase is not Phase.RUNNING:
            self.runs += 1
        for action in actions:
            self._perform(action, before)
        self._check(event, before, actions)
        if must_be_out is not None and after.phase not in FINAL_PHASES:
            out = excluded(after, self.policy, self.now_s)
            require(must_be_out in out, f"{must_be_out} was lost and is not excluded")

    def _note_preemption(self, event: Event, before: Gang) -> None:
        """Unless the gang goes on without the task."""
        if not isinstance(event, ContainerEnded) or event.end is not ContainerEnd.PREEMPTED:
            return
        member, now = before.find(event.ask), self.gang.find(event.ask)
        is_lost = member is not None and member.grant is not None and member.state in MAY_RUN
        is_tolerated = now is not None and now.is_tolerated
        if before.phase in LAUNCHED and is_lost and not is_tolerated:
            self.preempted.add(before.attempt)

    def _lost_node(self, event: Event, before: Gang) -> NodeId | None:
        """The node that this event speaks against so clearly that it must be excluded."""
        if not isinstance(event, ContainerEnded):
            return None
        member = before.find(event.ask)
        if member is None or member.grant is None:
            return None
        if member.state not in MAY_RUN and before.phase not in GETS_CONTAINERS:
            return None
        return member.grant.node if event.end is ContainerEnd.LOST else None

    def _learn(self, event: Event) -> None:
        if isinstance(event, ContainerGranted) and event.ask in self.truths:
            truth = self.truths[event.ask]
            truth.is_told_granted = True
            truth.is_released_since_told = False
        elif isinstance(event, ContainerEnded) and event.ask in self.truths:
            self.truths[event.ask].is_told_ended = True
        elif isinstance(event, AgentRegistered) and event.ask in self.truths:
            self.truths[event.ask].told_agent = event
        elif isinstance(event, TaskExited) and event.ask in self.truths:
            truth = self.truths[event.ask]
            truth.is_told_exited = truth.is_told_exited or event.attempt == truth.launched
            is_ok = all(process.kind is ExitKind.OK for process in event.exits)
            truth.is_told_ok = truth.is_told_ok or (is_ok and event.attempt == truth.launched)
        elif isinstance(event, TaskStarted) and event.ask in self.truths:
            self.truths[event.ask].told_started = event.attempt
        elif isinstance(event, TaskReady) and event.ask in self.truths:
            self.truths[event.ask].told_ready = event.attempt
        elif isinstance(event, OutputsStored):
            self.is_told_stored = True
        elif isinstance(event, AmRestarted):
            for truth in self.truths.values():
                if truth.grant is None or truth.grant.container not in event.kept:
                    truth.is_gone_with_am = True
                    truth.is_ended = True
            self.timers.clear()
            self.plans.clear()
            self.stores.clear()
            self.stops.clear()
            self.draws.clear()

    def _perform(self, action: Action, before: Gang) -> None:
        if isinstance(action, AskContainer):
            require(action.ask not in self.truths, f"{action.ask} was asked for twice")
            self.truths[action.ask] = Truth(action.target)
        elif isinstance(action, ReleaseContainer):
            self._release(action)
        elif isinstance(action, StartTimer):
            require(action.delay_s >= 0, "a timer in the past")
            self.timers[action.timer] = self.now_s + action.delay_s
        elif isinstance(action, CancelTimer):
            if self.timers.pop(action.timer, None) is not None:
                self.old_timers.append(action.timer)
        elif isinstance(action, RequestPlan | CancelPlanRequest):
            self._plan(action)
        elif isinstance(action, DrawJitter):
            self.draws.append(action)
        else:
            self._tell(action, before)

    def _tell(self, action: Action, before: Gang) -> None:
        if isinstance(action, CheckNodes | PrepareGang | LaunchGang):
            self._to_barrier(action)
        elif isinstance(action, StopTask):
            require(
                self.truths[action.ask].launched == action.attempt,
                f"stop of {action.ask} in attempt {action.attempt}, which never launched it",
            )
        elif isinstance(action, AdoptGang | ReleaseKept):
            self._take_over(action)
        elif isinstance(action, StoreOutputs | StopStoring):
            self._store(action)
        elif isinstance(action, Finish):
            self._finish(action, before)

    def _take_over(self, action: AdoptGang | ReleaseKept) -> None:
        if isinstance(action, ReleaseKept):
            for truth in self.truths.values():
                if truth.grant is not None and truth.grant.container in action.containers:
                    truth.is_released = truth.is_released_since_told = truth.is_ended = True
            return
        require(self.gang.phase in LAUNCHED, f"adopted in {self.gang.phase}")
        require(action.attempt == self.launches[-1].attempt, "another attempt was adopted")
        for task in action.tasks:
            truth = self.truths[task.ask]
            require(not truth.is_released, f"{task.ask} was adopted after its release")
            require(not task.is_started or truth.launched == action.attempt, "it never started")
            if truth.is_gone_with_am:
                # The broker knows by its absence that it has ended.
                end = ContainerEnded(self.now_s, task.ask, ContainerEnd.FAILED, "not kept")
                self.inflight.append(end)

    def _plan(self, action: RequestPlan | CancelPlanRequest) -> None:
        if isinstance(action, CancelPlanRequest):
            self.plans.clear()
            return
        out = excluded(self.gang, self.policy, self.now_s)
        unfit = (one.node for one in self.gang.acquisition.refusals if one.is_unfit)
        out = tuple(dict.fromkeys((*out, *unfit)))
        require(out == action.excluded, "the planner must know who is out")
        last = [*action.suspects, *action.doubtful]
        require(len({*out, *last}) == len([*out, *last]), "a node is both out and last")
        self.plans.append(action)

    def _release(self, action: ReleaseContainer) -> None:
        truth = self.truths.get(action.ask)
        if truth is not None:
            truth.is_released = truth.is_released_since_told = True

    def _finish(self, action: Finish, before: Gang) -> None:
        self.finishes += 1
        require(before.phase not in FINAL_PHASES or self.am_attempt > 1, "two Finish")
        is_whole = not self.job.output or self.is_told_stored
        is_success = action.verdict.kind is VerdictKind.SUCCEEDED
        require(is_whole or not is_success, "SUCCEEDED without its outputs")
        if is_success and not self.has_elastic_role:
            self._check_success()

    @property
    def has_elastic_role(self) -> bool:
        return self.job.elastic_role is not None

    def _store(self, action: StoreOutputs | StopStoring) -> None:
        require(self.gang.phase is Phase.STORING, f"storing in {self.gang.phase}")
        require(action.attempt == self.launches[-1].attempt, "outputs of another attempt")
        if isinstance(action, StopStoring):
            self.stops.append(action)
            return
        launched = self.launches[-1].members
        require(action.tasks == tuple(m.task for m in launched), "outputs of other tasks")
        self._check_success()
        self.stores.append(action)

    def _check_success(self) -> None:
        """As the spec has it: all workers, or as many as it asks for."""
        launched = [m for m in self.launches[-1].members if m.placed.role == "worker"]
        ok = sum(self.truths[member.ask].is_told_ok for member in launched)
        rules = {role.name: role.completion for role in self.job.roles}
        rule = rules["worker"]
        least = {CompletionRule.ALL: len(launched), CompletionRule.ANY: 1}.get(rule.rule, LEAST_OK)
        require(ok >= least, f"success by {ok} workers")
        have_ended = all(self._has_ended(member.ask) for member in launched)
        require(not rule.waits_for_all or have_ended, "success before all workers had ended")

    def _has_ended(self, ask: AskId) -> bool:
        truth = self.truths[ask]
        return truth.is_told_exited or truth.is_ended or truth.is_released

    def _to_barrier(self, action: CheckNodes | PrepareGang | LaunchGang) -> None:
        if isinstance(action, CheckNodes):
            self._check_nodes(action)
        elif isinstance(action, PrepareGang):
            self._prepare(action)
        else:
            self._launch(action)

    def _check_nodes(self, action: CheckNodes) -> None:
        require(self.job.placement.check is not NodeCheck.OFF, "checked without being asked to")
        nodes = [one.node for one in action.nodes]
        require(len(nodes) == len(set(nodes)), "two agents of one node measure it")
        for one in action.nodes:
            truth = self.truths[one.ask]
            require(not truth.is_released and truth.is_told_granted, f"{one.ask} is not held")
            require(truth.check < action.check, "a number is used twice")
            truth.check = action.check

    def node_is_measured(self, pick: int, *, is_good: bool = True) -> None:
        """Also one that has answered already."""
        asked = self.asks(lambda t: t.check > 0 and not t.is_ended)
        if asked:
            ask = asked[pick % len(asked)]
            truth = self.truths[ask]
            measures = NodeMeasures(1000.0, 8000.0, 200.0, trouble=() if is_good else ("broken",))
            self.inflight.append(
                NodeChecked(self.now_s, ask, self.gang.attempt, truth.check, measures)
            )
            truth.checks.add(truth.check)

    def _prepare(self, action: PrepareGang) -> None:
        require(bool(self.job.inputs), "prepared without inputs to bring")
        require(all(old.attempt != action.attempt for old in self.launches), "prepared, launched")
        for member in action.members:
            truth = self.truths[member.ask]
            require(not truth.is_released and truth.is_told_granted, f"{member.ask} is not held")
            truth.prepared = action.attempt

    def task_stages(self, pick: int) -> None:
        """Also one that has already, and one that is launched."""
        prepared = self.asks(lambda t: t.prepared > 0 and not t.is_ended)
        if prepared:
            ask = prepared[pick % len(prepared)]
            self.truths[ask].staged = self.truths[ask].prepared
            self.inflight.append(TaskStaged(self.now_s, ask, self.truths[ask].prepared))

    def _launch(self, action: LaunchGang) -> None:
        if self.job.placement.check is not NodeCheck.OFF:
            measured = {t.grant.node for t in self.truths.values() if t.grant and t.check}
            for member in action.members:
                require(member.placed.node in measured, f"{member.placed.node} was not checked")
        for member in action.members if self.job.inputs else ():
            has = self.truths[member.ask].staged == action.attempt
            require(has, f"{member.ask} was launched without its inputs")
        earlier = [old for old in self.launches if old.attempt == action.attempt]
        self.launches.append(action)
        self._check_order(action, earlier)
        if earlier:
            return
        whole_job = self.job.as_pre_run() if self.gang.is_pre_run else self.job
        for role in whole_job.roles:
            members = [m for m in action.members if m.placed.role == role.name]
            whole = self._is_whole(role, len(members))
            require(whole, f"launched {len(members)} of {role.tasks} tasks")
            indices = [m.task.index for m in members]
            require(indices == list(range(len(members))), f"indices of {role.name}: {indices}")
            places = [(m.placed.rack, m.placed.node) for m in members]
            require(places == sorted(places), "ranks do not follow rack and node")
        rung = self.gang.rung
        assert rung is not None
        used = [m.placed.node for m in action.members]
        for member in action.members:
            truth = self.truths[member.ask]
            require(truth.is_told_granted, f"{member.ask} was launched without a grant")
            require(truth.told_agent is not None, f"{member.ask} was launched without its agent")
            require(not truth.is_released, f"{member.ask} was launched after its release")
            require(not truth.is_told_ended, f"{member.ask} was launched after its end")
            require(not truth.is_gone_with_am, f"{member.ask} was launched after its AM")
            out = excluded(self.gang, self.policy, self.now_s)
            require(member.placed.node not in out, "launched on an excluded node")
            require(
                truth.target.accepts(member.placed.node, member.placed.rack),
                f"{member.ask} stands outside of its target",
            )
        require(rung.node_limit is None or len(set(used)) <= rung.node_limit, "too many nodes")
        require(not rung.one_task_per_node or len(set(used)) == len(used), "a node used twice")
        racks = {m.placed.rack for m in action.members}
        require(not rung.same_rack or len(racks) == 1, "more than one rack")

    def _check_order(self, action: LaunchGang, earlier: list[LaunchGang]) -> None:
        """The whole gang stands before any process starts, and each role waits for its turn."""
        waited = set(earlier[-1].waiting) if earlier else {m.ask for m in action.members}
        now = waited - set(action.waiting)
        require(now and set(action.waiting) <= waited, "two launches, one attempt")
        require(all(old.members == action.members for old in earlier), "another gang, one attempt")
        after = {role.name: role.after for role in self.job.roles}
        for ask in now:
            for one in after.get(ask.role, ()):
                for member in action.members:
                    if member.placed.role == one.role:
                        self._check_came(member.ask, one.until, action.attempt)
            truth = self.truths[ask]
            require(not truth.is_released, f"{ask} was launched after its release")
            require(
                not truth.is_launched or truth.is_told_exited,
                f"{ask} was launched again before its processes had ended",
            )
            truth.launched = action.attempt
            truth.is_exited = truth.is_told_exited = truth.is_told_ok = False

    def _check_came(self, ask: AskId, until: StartCondition, attempt: int) -> None:
        truth, member = self.truths[ask], self.gang.find(ask)
        has_ended = member is not None and member.has_ended
        require(has_ended or until is not StartCondition.ENDED, f"{ask} has not ended")
        is_ready = until is StartCondition.STARTED or truth.told_ready == attempt
        has_come = truth.told_started == attempt and is_ready
        require(has_ended or has_come, f"{ask} has not come so far, and others start after it")

    def _is_whole(self, role: RoleSpec, count: int) -> bool:
        return count == role.tasks

    # ---- what must hold at any time ---------------------------------------------------------

    def _check(self, event: Event, before: Gang, actions: tuple[Action, ...]) -> None:
        gang = self.gang
        if before.phase in FINAL_PHASES:
            require(gang.phase is before.phase, "an ended gang came back")
            require(gang.verdict == before.verdict, "the verdict changed")
            allowed = ReleaseContainer, Finish
            require(all(isinstance(a, allowed) for a in actions), "an ended gang acts")
        if gang.phase in FINAL_PHASES:
            require(gang.verdict is not None and self.finishes >= 1, "ended without a verdict")
        else:
            require(self.finishes == 0, "Finish, but not ended")
        self._check_holding()
        self._check_storing(before)
        self._check_waits()
        self._check_bounds()
        self._check_recovery(before)
        self._check_pre_run(before)
        self._check_blacklist(event, before)
        self._check_kept(event, actions)
        if isinstance(event, TaskStarted | TaskExited) and event.attempt != before.attempt:
            require(gang == before, "a report of an older launch changed the gang")
        again, _ = self.play(gang, replace(event, at_s=self.now_s), self.policy)
        require(again == gang, f"a doubled {type(event).__name__} changed the gang")
        status = describe(gang, self.now_s)
        waits = gang.phase in {Phase.PENDING, Phase.BACKING_OFF, *GETS_CONTAINERS}
        require(not waits or status.state is not JobState.RUNNING, "RUNNING while it waits")
        require(status.reason or gang.phase in {Phase.PENDING}, f"no reason in {gang.phase}")

    def _check_kept(self, event: Event, actions: tuple[Action, ...]) -> None:
        """A new ApplicationMaster adopts or releases whatever it is given."""
        kept = set(event.kept) if isinstance(event, AmRestarted) else set[ContainerId]()
        for action in actions:
            if isinstance(action, AdoptGang):
                kept -= {task.container for task in action.tasks}
            elif isinstance(action, ReleaseKept):
                kept -= set(action.containers)
        require(not kept, f"{kept} were kept, and nobody has them")

    def _check_storing(self, before: Gang) -> None:
        """From the gang's success on nothing is run any more; its outputs, or an end."""
        gang = self.gang
        if before.phase is Phase.STORING:
            require(gang.phase in {Phase.STORING, *FINAL_PHASES}, "storing, and then not")
            require(gang.attempt == before.attempt, "a new attempt after the success")
        if gang.phase is Phase.STORING:
            require(self.job.output, "nothing to store")
            kinds = {timer.timer.kind for timer in gang.timers}
            require(len(kinds & {TimerKind.STORE, TimerKind.STOP}) == 1, "storing without a limit")
            answer = OutputsStored | StoringFailed
            is_coming = any(isinstance(event, answer) for event in self.inflight)
            is_asked = self.stores or self.stops or TimerKind.STOP in kinds
            require(is_coming or is_asked, "nobody stores")

    def _check_holding(self) -> None:
        """released + held + lost = granted, and nothing is held that was released."""
        gang = self.gang
        for ask, truth in self.truths.items():
            member = gang.find(ask)
            held = member is not None and member.is_holding and gang.phase not in ENDED
            if held and truth.is_released:
                raise Violation(f"{ask} is held after its release")
            is_asked = member is not None and member.state is MemberState.ASKED
            if is_asked and gang.phase not in ENDED:
                require(not truth.is_told_granted, f"the grant of {ask} was not noticed")
            if held and member is not None and member.grant is not None:
                node, rack = member.grant.node, member.grant.rack
                out = excluded(gang, self.policy, self.now_s)
                is_parked = gang.phase in GETS_CONTAINERS
                require(not is_parked or node not in out, f"{ask} is held on an excluded node")
                require(truth.target.accepts(node, rack), f"{ask} is held outside of its target")
            if truth.is_told_granted and not truth.is_gone_with_am:
                accounted = held or truth.is_released_since_told or truth.is_told_ended
                require(accounted, f"{ask} leaked in {gang.phase}: neither held nor released")
            asked = truth.is_released or truth.is_gone_with_am or truth.is_told_ended
            if not asked and gang.phase not in ENDED:
                require(member is not None, f"{ask} was forgotten without being withdrawn")
            if gang.phase in ENDED:
                require(asked, f"{ask} was left behind at the end")

    def _check_waits(self) -> None:
        """Every wait has a named limit that runs."""
        gang = self.gang
        known = {timer.timer for timer in gang.timers}
        require(known == set(self.timers), f"timers {known} but running are {set(self.timers)}")
        kinds = {timer.kind for timer in known}
        phase = gang.phase
        is_acquiring = phase is Phase.ACQUIRING
        limit = TimerKind.HOLD if is_acquiring else TimerKind.RECOVERY
        if gang.is_localizing:
            require(limit not in kinds, f"{limit} goes on after the last grant")
            limit = TimerKind.LOCALIZE
        require(gang.is_localizing or TimerKind.LOCALIZE not in kinds, "localizes nothing")
        if gang.search is not None:
            require(limit in kinds, "replacing a lost task without a limit")
            drawn = self.draws or any(isinstance(e, JitterDrawn) for e in self.inflight)
            goes_on = gang.search.is_planning or drawn or TimerKind.BACKOFF in kinds
            waits = gang.search.missing or any(m.state is MemberState.ASKED for m in gang.members)
            is_asked = is_acquiring and not gang.search.missing
            require(goes_on or not waits or is_asked, "nobody looks for what is missing")
        elif is_acquiring:
            require(kinds & {TimerKind.ASK, limit}, "acquiring without a limit")
            granted = any(m.state is not MemberState.ASKED for m in gang.members)
            require(not granted or limit in kinds, "holding without a limit")
        limits = kinds & {TimerKind.CHECK, TimerKind.STAGING, TimerKind.LAUNCH, TimerKind.READY}
        limit_of = {
            Phase.CHECKING: {TimerKind.CHECK},
            Phase.STAGING: {TimerKind.STAGING},
            Phase.LAUNCHING: {TimerKind.LAUNCH},
        }
        is_limited = limits == limit_of.get(phase, set())
        waits = phase is Phase.LAUNCHING and any(m.is_waiting for m in gang.members)
        is_limited |= waits and limits == {TimerKind.READY}
        require(is_limited, f"{phase} with the limits {limits}")
        if phase is Phase.STOPPING:
            require(TimerKind.STOP in kinds, "stopping without a limit")
        if phase is Phase.BACKING_OFF:
            drawn = self.draws or any(isinstance(e, JitterDrawn) for e in self.inflight)
            require(TimerKind.BACKOFF in kinds or drawn, "backing off without an end")
        if gang.awaited and phase not in FINAL_PHASES:
            require(phase in {Phase.PENDING, Phase.SUSPENDED}, f"{phase} before the other jobs")
            require(not self.plans and not self.truths, "it waits for jobs, and wants something")
            require(TimerKind.WAIT not in kinds, "its wait for capacity has begun")
        elif phase in {Phase.PENDING, Phase.BACKING_OFF, Phase.ACQUIRING}:
            require(TimerKind.WAIT in kinds, "the whole wait has no limit")
        is_limited = phase is Phase.RUNNING and not gang.is_pre_run
        if is_limited and self.job.time_limit_s is not None:
            require(TimerKind.TIME_LIMIT in kinds, "it runs without its limit")
        if phase is Phase.SUSPENDED:
            require(kinds == {TimerKind.SUSPENSION}, f"suspended with the limits {kinds}")
            require(not gang.members and not self.plans, "suspended, and wants something")
        if phase in FINAL_PHASES:
            require(not known, "timers after the end")

    def _check_bounds(self) -> None:
        gang, policy = self.gang, self.policy
        require(gang.acquisition.failures <= policy.attempts, "more failed attempts than allowed")
        require(
            gang.acquisition.failures < policy.attempts or gang.phase in FINAL_PHASES,
            "goes on after the last attempt",
        )
        require(gang.retries.restarts <= policy.retry.max_restarts, "more restarts than allowed")
        require(
            gang.retries.user_retries <= policy.retry.on_user_failure,
            "more user retries than allowed",
        )
        free = (
            gang.retries.restarts
            + gang.retries.user_retries
            + gang.retries.preemptions
            + self.am_attempt
        )
        free += self.transients
        if gang.pre_run is not None:
            require(gang.pre_run.retries <= PRE_RUN_RETRIES, "more pre-runs than allowed")
            free += gang.pre_run.retries + 1
        limit = policy.attempts * (1 + self.runs) + free + self.extra_attempts
        require(len(gang.history) <= limit, f"{len(gang.history)} attempts, at most {limit}")
        attempts = [record.attempt for record in gang.history]
        require(attempts == sorted(set(attempts)), "an attempt number was used twice")

    def _check_pre_run(self, before: Gang) -> None:
        """One container at most until it is over, which it is once; nothing of it is the gang's."""
        gang = self.gang
        require(before.is_pre_run or not gang.is_pre_run, "a pre-run that was over began anew")
        if gang.is_pre_run:
            held = [ask for ask, truth in self.truths.items() if truth.target.role != PRE_RUN_ROLE]
            require(not held and len(gang.members) <= 1, "a pre-run asked for more than its task")
            counts = (gang.retries.restarts, gang.retries.user_retries, gang.retries.preemptions)
            require(counts == (0, 0, 0), "a pre-run used up retries of the gang")
            limits = {timer.timer.kind for timer in gang.timers}
            is_limited = gang.phase is not Phase.RUNNING or TimerKind.PRE_RUN in limits
            require(is_limited, "a pre-run without a limit")
        elif before.is_pre_run:
            require(not gang.members, "a container of the pre-run was kept")

    def _check_recovery(self, before: Gang) -> None:
        """Replaced in place: paid for, limited, and never what YARN has preempted."""
        gang = self.gang
        require(gang.phase is not Phase.REPLACING or gang.search is not None, "replaces nothing")
        if gang.search is not None:
            require(gang.phase in GETS_CONTAINERS, f"a search in {gang.phase}")
            tasks = len(gang.members) + len(gang.search.missing)
            require(tasks == gang.size, f"{tasks} tasks of {gang.size} are wanted or held")
            first = gang.phase is Phase.ACQUIRING
            kept = [m for m in gang.members if first or m.ask.attempt != gang.attempt]
            require(kept or before.search is not None, "a recovery that keeps nothing")
        is_same_kind = gang.is_pre_run == before.is_pre_run
        relaunched = gang.attempt > before.attempt and before.phase in {Phase.STOPPING, *LAUNCHED}
        if relaunched and is_same_kind:
            self.recoveries += 1
            cost = (
                gang.retries.restarts - before.retries.restarts,
                gang.acquisition.failures - before.acquisition.failures,
            )
            stopping = before.stopping
            ran = before.phase is Phase.RUNNING or (stopping is not None and stopping.was_running)
            # A process that failed is paid for as one that ran, whoever else had not started yet.
            allowed = ((1, 0),) if ran else ((0, 1), (1, 0))
            require(cost in allowed, f"a recovery that cost {cost}")
            self.recoveries_at_launch += not ran
            require(before.attempt not in self.preempted, "a preempted gang was kept")
        self.transients += gang.retries.transients_in_row > before.retries.transients_in_row
        if gang.retries.preemptions > before.retries.preemptions:
            paid = (gang.retries.restarts, gang.acquisition.failures, gang.retries.user_retries)
            require(
                paid
                == (
                    before.retries.restarts,
                    before.acquisition.failures,
                    before.retries.user_retries,
                ),
                "a preemption was not free",
            )
            require(not gang.members and gang.search is None, "a preempted gang holds on")

    def _check_blacklist(self, event: Event, before: Gang) -> None:
        gang, policy = self.gang, self.policy
        live = [e for e in gang.nodes.exclusions if self.now_s < e.until_s]
        cap = most_excluded(gang, policy)
        require(len(live) <= cap, f"{len(live)} nodes are excluded, at most {cap} may be")
        struck = {strike.node for strike in gang.nodes.strikes}
        require({e.node for e in live} <= struck, "excluded without a strike of its own")
        if isinstance(event, AmRestarted):
            kept = set(before.nodes.exclusions) <= set(gang.nodes.exclusions)
            kept &= set(before.nodes.strikes) <= set(gang.nodes.strikes)
            kept &= before.nodes.suspicions == gang.nodes.suspicions
            require(kept, "a new ApplicationMaster forgot the blacklist")
            if before.phase is not Phase.STOPPING:
                # There all ends may be known by now, and one may speak against a node.
                same = (before.nodes.exclusions, before.nodes.strikes) == (
                    gang.nodes.exclusions,
                    gang.nodes.strikes,
                )
                require(same, "a new ApplicationMaster blamed a node")
                require(_counts(gang) == _counts(before), "a new ApplicationMaster forgot counts")
            if before.phase is Phase.BACKING_OFF:
                until = before.deadline_s(TimerKind.BACKOFF)
                require(gang.deadline_s(TimerKind.BACKOFF) == until, "the back-off began anew")

    # ---- the world's moves ------------------------------------------------------------------

    def asks(self, test: Callable[[Truth], bool]) -> list[AskId]:
        return [ask for ask, truth in self.truths.items() if test(truth)]

    def yarn_grants(self, pick: int, node: int) -> None:
        """Also for an ask that was just withdrawn: the late grant."""
        waiting = self.asks(lambda t: t.grant is None and not t.is_ended)
        if waiting:
            ask = waiting[pick % len(waiting)]
            self.containers += 1
            host = NODES[node % len(NODES)]
            grant = ContainerGranted(
                self.now_s, ask, ContainerId(f"c{self.containers}"), host, RACKS[host]
            )
            self.truths[ask].grant = grant
            self.inflight.append(grant)

    def agent_registers(self, pick: int, *, is_elsewhere: bool = False) -> None:
        running = self.asks(lambda t: t.grant is not None and not t.is_ended)
        if running:
            ask = running[pick % len(running)]
            grant = self.truths[ask].grant
            assert grant is not None
            self.inflight.append(
                AgentRegistered(
                    self.now_s,
                    ask,
                    grant.container,
                    NodeId("n4") if is_elsewhere else grant.node,
                    address=f"{grant.node}.example",
                    gpu_ids=("0", "1"),
                    ports=(("p", 4000),),
                )
            )

    def container_ends(self, pick: int, end: ContainerEnd) -> None:
        alive = self.asks(lambda t: t.grant is not None and not t.is_ended)
        if alive:
            ask = alive[pick % len(alive)]
            self.truths[ask].is_ended = True
            self.inflight.append(ContainerEnded(self.now_s, ask, end, "diagnostics"))

    def yarn_announces(self, pick: int, timeout_s: float | None = None) -> None:
        """A preemption, or with ``timeout_s`` the end of a node."""
        alive = self.asks(lambda t: t.grant is not None and not t.is_ended)
        if not alive:
            return
        ask = alive[pick % len(alive)]
        grant = self.truths[ask].grant
        assert grant is not None
        self.inflight.append(
            ContainersMarked(self.now_s, (ask,))
            if timeout_s is None
            else NodeLeaving(self.now_s, grant.node, timeout_s)
        )

    def agent_reports(self, pick: int, event: str) -> None:
        alive = self.asks(lambda t: t.told_agent is not None and not t.is_ended)
        if not alive:
            return
        ask = alive[pick % len(alive)]
        if event == "silent":
            self.inflight.append(AgentSilent(self.now_s, ask, 8.0))
        else:
            why = (event == "user", event == "busy")
            self.inflight.append(AgentUnable(self.now_s, ask, "no room", *why))

    def task_starts(self, pick: int) -> None:
        launched = self.asks(lambda t: t.is_launched and not t.is_ended)
        if launched:
            ask = launched[pick % len(launched)]
            kind = TaskReady if self.job.roles[0].after and pick % 2 else TaskStarted
            self.inflight.append(kind(self.now_s, ask, self.truths[ask].launched))

    def task_exits(self, pick: int, kind: ExitKind) -> None:
        launched = self.asks(lambda t: t.is_launched and not t.is_ended and not t.is_exited)
        if launched:
            ask = launched[pick % len(launched)]
            self.truths[ask].is_exited = True
            exits = (
                replace(
                    ProcessExit(0, kind, code=1, signal=9, ended_at_s=self.now_s),
                    finding=FINDINGS[(pick + len(self.inflight)) % len(FINDINGS)],
                ),
                ProcessExit(1, ExitKind.OK if kind is ExitKind.OK else ExitKind.STOPPED),
            )
            self.inflight.append(TaskExited(self.now_s, ask, self.truths[ask].launched, exits))

    def planner_answers(self, answer: str, rung: int = 0, lead: int = 0) -> None:
        if not self.plans:
            return
        request = self.plans.pop(0)
        if answer == "ready" and request.supplement is not None:
            plan = PlacementPlan((self._supplement(request, rung),), self.now_s)
            self.inflight.append(PlanReady(self.now_s, request.attempt, plan, len(NODES)))
        elif answer == "ready":
            rungs = self.pre_run_rungs if request.is_pre_run else self.rungs
            first = rungs[(request.first_rung + rung) % len(rungs) :]
            plan = PlacementPlan(first, self.now_s, lead=lead)
            self.inflight.append(PlanReady(self.now_s, request.attempt, plan, len(NODES)))
        else:
            no_fit = NoFit(Reason.FRAGMENTED, answer == "never", "no room", "wait")
            self.inflight.append(PlanRefused(self.now_s, request.attempt, no_fit, len(NODES)))

    def _supplement(self, request: RequestPlan, rung: int) -> Rung:
        """What is missing, at some level; its limits hold for what stands already."""
        assert request.supplement is not None
        like = self.rungs[rung % len(self.rungs)]
        targets = {ask.target.role: ask.target for ask in like.asks}
        wanted = request.supplement.wanted
        asks = tuple(TargetAsk(targets[ask.target.role], ask.count) for ask in wanted)
        return Rung(like.number, like.level, asks, 1.0, "test")

    def others_suspect(self, pick: int) -> None:
        self.deliver(NodesSuspected(self.now_s, (NODES[pick % len(NODES)],)))

    def jitter_comes(self, u: float) -> None:
        if self.draws:
            self.inflight.append(JitterDrawn(self.now_s, self.draws.pop(0).attempt, u))

    def storing_goes_on(self, how: str) -> None:
        """``ok``; ``trouble`` that passes; ``failed``. Told to stop, it may have been too late."""
        if self.stops:
            stop = self.stops.pop(0)
            self.has_stored = self.has_stored or (how == "ok" and bool(self.stores))
            self.stores.clear()
            self._answer_storing(stop.attempt, "ok" if self.has_stored else "failed")
        elif self.stores:
            store = self.stores[0]
            if how != "trouble":
                self.stores.clear()
            self.has_stored = self.has_stored or how == "ok"
            self._answer_storing(store.attempt, "ok" if self.has_stored else how)

    def _answer_storing(self, attempt: int, how: str) -> None:
        event: Event = OutputsStored(self.now_s, attempt, 3, 4096)
        if how == "trouble":
            event = StoringTroubled(self.now_s, attempt, "HDFS is in safe mode")
        elif how == "failed":
            event = StoringFailed(self.now_s, attempt, 65, "is there already")
        self.inflight.append(event)

    def message_comes(self, pick: int) -> None:
        if self.inflight:
            self.deliver(self.inflight.pop(pick % len(self.inflight)))

    def message_comes_twice(self, pick: int) -> None:
        """And the second time later, maybe much later."""
        if self.inflight:
            self.deliver(self.inflight[pick % len(self.inflight)])

    def message_is_lost(self, pick: int) -> None:
        """Agents' reports may be lost; YARN's answers are repeated until they are heard."""
        agents = [e for e in self.inflight if isinstance(e, AgentRegistered | TaskStarted)]
        if agents:
            self.inflight.remove(agents[pick % len(agents)])

    def old_message_comes(self, pick: int) -> None:
        """Something from long ago, once more."""
        old = [e for e in self.seen if not isinstance(e, JobStarted | AmRestarted | TimerFired)]
        if old and not isinstance(
            old[pick % len(old)],
            CancelRequested | SuspendRequested | InputsRefused | BrokerFailed,
        ):
            event = old[pick % len(old)]
            ask = getattr(event, "ask", None)
            truth = self.truths.get(ask) if isinstance(ask, AskId) else None
            if truth is None or truth.is_told_ended or truth.is_released or truth.is_told_granted:
                self.deliver(event)

    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds

    def timer_fires(self) -> None:
        """The next one due."""
        if self.timers:
            timer = min(self.timers, key=lambda t: (self.timers[t], t.kind.value))
            self.now_s = max(self.now_s, self.timers.pop(timer))
            self.old_timers.append(timer)
            self.deliver(TimerFired(self.now_s, timer))

    def old_timer_fires(self, pick: int) -> None:
        stale = [timer for timer in self.old_timers if timer not in self.timers]
        if stale:
            before = self.gang
            self.deliver(TimerFired(self.now_s, stale[pick % len(stale)]))
            require(self.gang == before, "a stale timer changed the gang")

    def am_restarts(self, keeps: int = 0) -> None:
        """At most three lives; what was in flight to the old one is lost, but for its agents, and
        what agents say again. ``keeps``: no container outlives it (0), all do (1), or all but
        one."""
        if self.am_attempt < 3:
            self.am_attempt += 1
            kept = self.asks(lambda t: bool(t.grant) and not t.is_ended and not t.is_released)
            if keeps != 1:
                kept = kept[: keeps - 2] + kept[keeps - 1 :] if keeps else []
            again = TaskStarted | TaskReady | TaskExited
            self.inflight = [
                e
                for e in self.inflight
                if isinstance(e, AgentRegistered) or (isinstance(e, again) and e.ask in kept)
            ]
            grants = [self.truths[ask].grant for ask in kept]
            containers = tuple(grant.container for grant in grants if grant is not None)
            self.deliver(AmRestarted(self.now_s, self.am_attempt, containers))

    def user_cancels(self) -> None:
        self.deliver(CancelRequested(self.now_s, "u", "enough"))

    def user_suspends(self) -> None:
        self.extra_attempts += 1
        self.deliver(SuspendRequested(self.now_s, "u", 300.0))

    def user_resumes(self) -> None:
        self.deliver(ResumeRequested(self.now_s, "u"))

    def inputs_are_refused(self) -> None:
        self.deliver(InputsRefused(self.now_s, "a.npy is corrupt"))

    def other_jobs_change(self, pick: int, state: JobState | None) -> None:
        """YARN is asked until all have ended; a late answer may come after that."""
        jobs = self.gang.awaited or initial(self.job).awaited
        if jobs:
            number = pick % len(jobs)
            changed = replace(jobs[number], state=state, is_forgotten=state is None)
            jobs = (*jobs[:number], changed, *jobs[number + 1 :])
            before = self.gang
            self.deliver(AwaitedJobsSeen(self.now_s, jobs))
            require(before.awaited or self.gang == before, "a late answer changed the gang")

    def nodes_are_cordoned(self, pick: int, leave_s: float | None) -> None:
        """One of them, or none."""
        leave_by_s = None if leave_s is None else self.now_s + leave_s
        chosen = tuple(CordonedNode(n, "cordoned", leave_by_s) for n in NODES[pick % 5 :][:1])
        self.deliver(NodesCordoned(self.now_s, chosen))

    def broker_fails(self) -> None:
        self.deliver(BrokerFailed(self.now_s, "Skein is gone"))

    # ---- at last ------------------------------------------------------------------------------

    def drain(self) -> None:
        """From here on the world is fair: the gang must end, and soon."""
        self.deliver(NodesCordoned(self.now_s, ()))
        for _ in range(2000):
            if self.gang.phase in FINAL_PHASES and not self.inflight:
                break
            self._fair_move()
        require(self.gang.phase in FINAL_PHASES, f"stuck in {self.gang.phase}")
        lives = 1 if self.am_attempt == 1 else self.am_attempt
        require(1 <= self.finishes <= lives, f"{self.finishes} Finish in {lives} AM attempts")

    def _fair_move(self, *, exits: bool = True) -> None:
        """The next thing that happens where all is well; ``exits``: tasks may also be done."""
        if self.inflight:
            self.message_comes(0)
        elif self.plans:
            self.planner_answers("ready")
        elif self.stores or self.stops:
            self.storing_goes_on("ok")
        elif self.draws:
            self.jitter_comes(0.5)
        elif self.gang.awaited:
            for number in range(len(self.gang.awaited)):
                self.other_jobs_change(number, JobState.SUCCEEDED)
        elif not self._fair_yarn(exits=exits):
            self.timer_fires()

    def _fair_yarn(self, *, exits: bool = True) -> bool:
        self.now_s += 0.1
        for ask, truth in self.truths.items():
            member = self.gang.find(ask)
            if truth.is_ended or truth.is_released or member is None:
                continue
            if truth.grant is None:
                room = [n for n in NODES if self._fits(truth, n)]
                if room:
                    waiting = self.asks(lambda t: t.grant is None and not t.is_ended)
                    self.yarn_grants(waiting.index(ask), NODES.index(room[0]))
                    return True
            elif truth.told_agent is None:
                alive = self.asks(lambda t: t.grant is not None and not t.is_ended)
                self.agent_registers(alive.index(ask))
                return True
            elif self.gang.phase in {Phase.CHECKING, Phase.STAGING}:
                if self._gets_ready(ask, truth, member):
                    return True
            elif self.gang.phase is Phase.LAUNCHING:
                if self._gets_up(ask, truth, member):
                    return True
            elif not member.is_to_start and self._gets_done(ask, truth, member, exits=exits):
                return True
        return False

    def _gets_done(self, ask: AskId, truth: Truth, member: Member, *, exits: bool) -> bool:
        """Whether the task ends, as it was ordered to or because it is done."""
        if truth.is_exited:
            return False
        if self.gang.phase is Phase.STOPPING and member.state in MAY_RUN:
            self._task_ends(ask, ExitKind.STOPPED)
            return True
        if self.gang.phase is Phase.RUNNING and exits:
            self._task_ends(ask, ExitKind.OK)
            return True
        return False

    def _gets_up(self, ask: AskId, truth: Truth, member: Member) -> bool:
        """Whether the task starts, or says that it is ready, which somebody waits for."""
        if member.state is MemberState.READY and not member.is_waiting:
            self.inflight.append(TaskStarted(self.now_s, ask, truth.launched))
            return True
        is_awaited = any(one.is_waiting for one in self.gang.members)
        if member.state is MemberState.STARTED and not member.is_serving and is_awaited:
            self.inflight.append(TaskReady(self.now_s, ask, truth.launched))
            return True
        return False

    def _gets_ready(self, ask: AskId, truth: Truth, member: Member) -> bool:
        """Whether the agent has anything to do before the barrier opens, and does it."""
        if self.gang.phase is Phase.CHECKING:
            is_asked = truth.check == self.gang.checks and truth.check not in truth.checks
            if is_asked:
                asked = self.asks(lambda t: t.check > 0 and not t.is_ended)
                self.node_is_measured(asked.index(ask))
            return is_asked
        if not member.is_staged:
            truth.staged = truth.prepared
            self.inflight.append(TaskStaged(self.now_s, ask, truth.prepared))
        return not member.is_staged

    def _task_ends(self, ask: AskId, kind: ExitKind) -> None:
        truth = self.truths[ask]
        truth.is_exited = True
        exits = (ProcessExit(0, kind, ended_at_s=self.now_s),)
        self.inflight.append(TaskExited(self.now_s, ask, truth.launched, exits))

    def _fits(self, truth: Truth, node: NodeId) -> bool:
        rung = self.gang.rung
        held = [m.grant for m in self.gang.members if m.grant is not None]
        used = {g.node for g in held}
        if rung is None or node in excluded(self.gang, self.policy, self.now_s):
            return False
        return (
            truth.target.accepts(node, RACKS[node])
            and not (rung.one_task_per_node and node in used)
            and (rung.node_limit is None or len(used | {node}) <= rung.node_limit)
            and not (rung.same_rack and any(g.rack != RACKS[node] for g in held))
        )


def _counts(gang: Gang) -> tuple[int, ...]:
    return (
        gang.acquisition.failures,
        gang.retries.restarts,
        gang.retries.user_retries,
        gang.retries.preemptions,
        gang.retries.preempted_in_row,
        gang.acquisition.refused_plans,
        len(gang.history),
    )


def random_walk(world: World, seed: int, moves: int) -> None:
    """A seeded walk: mostly what a healthy world does, some of everything else."""
    dice = random.Random(seed)
    n = dice.randrange
    chaos = dice.choice((0.0, 0.1, 0.4))
    checks = world.job.placement.check is not NodeCheck.OFF
    administrator = random.Random(seed)
    for _ in range(moves):
        if chaos and administrator.random() < 0.03:
            limit_s = administrator.choice((None, 5.0, 60.0))
            world.nodes_are_cordoned(administrator.randrange(99), limit_s)
        if dice.random() >= chaos:
            _healthy_move(world, dice)
            continue
        dice.choice(
            (
                lambda: world.yarn_grants(n(99), n(99)),
                lambda: world.agent_registers(n(99), is_elsewhere=n(5) == 0),
                lambda: world.container_ends(n(99), dice.choice(tuple(ContainerEnd))),
                lambda: world.agent_reports(n(99), dice.choice(AGENT_TROUBLE)),
                lambda: world.task_starts(n(99)),
                lambda: world.task_exits(n(99), dice.choice(tuple(ExitKind))),
                lambda: world.planner_answers(dice.choice(("ready", "busy", "never")), n(5)),
                lambda: world.message_comes(n(99)),
                lambda: world.message_comes_twice(n(99)),
                lambda: world.message_is_lost(n(99)),
                lambda: world.old_message_comes(n(999)),
                lambda: world.time_passes(dice.choice((0.1, 5.0, 60.0))),
                lambda: world.timer_fires(),
                lambda: world.old_timer_fires(n(99)),
                lambda: world.am_restarts(n(6)),
                lambda: world.others_suspect(n(99)),
                lambda: world.yarn_announces(n(99), dice.choice((None, 5.0, 60.0))),
                lambda: world.storing_goes_on(dice.choice(("ok", "trouble", "failed"))),
                lambda: world.user_cancels() if n(8) == 0 else None,
                lambda: world.user_suspends() if n(6) == 0 else None,
                lambda: world.user_resumes(),
                lambda: world.broker_fails() if n(8) == 0 else None,
                lambda: world.inputs_are_refused() if n(8) == 0 else None,
                *([lambda: world.task_stages(n(99))] if world.job.inputs else []),
                *([lambda: world.node_is_measured(n(99), is_good=n(3) > 0)] if checks else []),
            )
        )()
    world.drain()


def troubled_run(world: World, seed: int, moves: int) -> None:
    """A seeded walk that is mostly about a gang that runs: losses while it runs, while it stops and
    while what it lost is being replaced; preemptions; the same nodes again and again."""
    dice = random.Random(seed)
    n = dice.randrange
    checks = world.job.placement.check is not NodeCheck.OFF
    losses: tuple[Callable[[], None], ...] = (
        lambda: world.container_ends(n(99), ContainerEnd.FAILED),
        lambda: world.container_ends(n(99), ContainerEnd.LOST),
        lambda: world.agent_reports(n(99), "silent"),
        lambda: world.agent_reports(n(99), "unable"),
        lambda: world.task_exits(n(99), ExitKind.STOPPED),
        lambda: world.others_suspect(n(99)),
        lambda: world.old_message_comes(n(999)),
        *([lambda: world.node_is_measured(n(99), is_good=False)] if checks else []),
    )
    rare: tuple[Callable[[], None], ...] = (
        lambda: world.container_ends(n(99), ContainerEnd.PREEMPTED),
        lambda: world.task_exits(n(99), ExitKind.SIGNAL),
        lambda: world.planner_answers("never" if world.gang.search is not None else "busy"),
        lambda: world.planner_answers("ready", n(5)),
        lambda: world.timer_fires(),
        lambda: world.old_timer_fires(n(99)),
        lambda: world.yarn_grants(n(99), n(99)),
        lambda: world.am_restarts(n(6)) if n(6) == 0 else None,
    )
    for _ in range(moves):
        stands = world.gang.phase in {Phase.RUNNING, Phase.STOPPING}
        begins = {Phase.CHECKING, Phase.STAGING, Phase.LAUNCHING}
        starts = world.gang.phase in begins and n(4) == 0
        if (stands or starts or world.gang.search is not None) and n(5) == 0:
            dice.choice(losses if n(3) else rare)()
        elif world.inflight and n(3) == 0:
            world.message_comes(n(99))
        else:
            world._fair_move(exits=not stands or n(30) == 0)
    world.drain()


def stored_run(world: World, seed: int) -> None:
    """Up to the storing of the outputs, and there trouble of every kind."""
    dice = random.Random(seed)
    for _ in range(300):
        if world.gang.phase is not Phase.STORING:
            world._fair_move()
            continue
        dice.choice(
            (
                lambda: world.storing_goes_on(dice.choice(("ok", "trouble", "failed"))),
                lambda: world.am_restarts(dice.randrange(6)),
                lambda: world.timer_fires(),
                lambda: world.old_timer_fires(dice.randrange(99)),
                lambda: world.message_comes(dice.randrange(99)),
                lambda: world.message_comes_twice(dice.randrange(99)),
                lambda: world.old_message_comes(dice.randrange(999)),
                lambda: world.yarn_grants(dice.randrange(99), dice.randrange(99)),
                lambda: world.user_cancels() if dice.randrange(4) == 0 else None,
                lambda: world.broker_fails() if dice.randrange(4) == 0 else None,
            )
        )()
    world.drain()


def _healthy_move(world: World, dice: random.Random) -> None:
    """What mostly happens: answers come, YARN grants, tasks start; timers fire when due."""
    n = dice.randrange
    if n(12) == 0:
        world.yarn_grants(n(99), n(99))
    if n(12) == 0:
        world.old_timer_fires(n(99))
    if world.inflight and n(4):
        world.message_comes(0 if n(4) else n(99))
    elif world.plans:
        world.planner_answers("busy" if n(6) == 0 else "ready", n(5) if n(2) else 0)
    elif world.stores or world.stops:
        world.storing_goes_on(dice.choice(("ok", "ok", "trouble", "trouble", "failed")))
    elif world.draws:
        world.jitter_comes(dice.random())
    elif world._fair_yarn():
        pass
    elif not world.inflight or n(30) == 0:
        if n(10) == 0:
            world.time_passes(dice.random() * 100)
        world.timer_fires()
    _mishap(world, dice)


STATES = (JobState.QUEUED, JobState.RUNNING, JobState.RUNNING, JobState.SUCCEEDED,
          JobState.SUCCEEDED, JobState.FAILED, None)  # fmt: skip


def waiting_run(world: World, seed: int) -> None:
    """Other jobs come and go, the user changes his mind, and AMs die: before the first plan."""
    dice = random.Random(seed)
    n = dice.randrange
    for _ in range(30):
        dice.choice(
            (
                lambda: world.other_jobs_change(n(3), dice.choice(STATES[: 5 + n(20) // 18 * 2])),
                lambda: world.am_restarts(n(6)),
                lambda: world.timer_fires(),
                lambda: world.user_suspends() if n(3) == 0 else None,
                lambda: world.user_resumes(),
                lambda: world.user_cancels() if n(40) == 0 else None,
                lambda: world.others_suspect(n(99)),
                lambda: world.message_comes(n(99)),
                lambda: world.planner_answers("ready"),
            )
        )()
    random_walk(world, seed, moves=60)


def _mishap(world: World, dice: random.Random) -> None:
    n = dice.randrange
    phase = world.gang.phase
    if phase is Phase.RUNNING and n(12) == 0:
        world.agent_reports(n(99), "silent")
    if n(12 if phase is Phase.RUNNING else 60) == 0:
        world.container_ends(n(99), dice.choice(tuple(ContainerEnd)))
    if n(40) == 0 and phase in GETS_CONTAINERS:
        world.timer_fires()
    if n(40) == 0:
        world.task_exits(n(99), dice.choice(tuple(ExitKind)))
