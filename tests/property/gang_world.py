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

from yarnam.gang import Gang, GangPolicy, MemberState, describe, initial, policy_for, step
from yarnam.model.actions import (
    Action,
    AskContainer,
    CancelTimer,
    DrawJitter,
    Finish,
    LaunchGang,
    ReleaseContainer,
    RequestPlan,
    StartTimer,
    StopTask,
)
from yarnam.model.events import (
    AgentRegistered,
    AgentSilent,
    AgentUnable,
    AmRestarted,
    BrokerFailed,
    CancelRequested,
    ContainerEnded,
    ContainerGranted,
    Event,
    JitterDrawn,
    JobStarted,
    PlanReady,
    PlanRefused,
    TaskExited,
    TaskStarted,
    TimerFired,
    TimerId,
    TimerKind,
)
from yarnam.model.ids import AskId, ContainerId, NodeId, RackId
from yarnam.model.job import Framework, GangSpec, JobSpec, PlacementWish, RetrySpec, RoleSpec
from yarnam.model.outcomes import ContainerEnd, ExitKind, ProcessExit
from yarnam.model.placement import (
    LocalityLevel,
    NoFit,
    PlacementPlan,
    Reason,
    Rung,
    Target,
    TargetAsk,
)
from yarnam.model.resources import Resources
from yarnam.model.status import FINAL_PHASES, JobState, Phase

Step = Callable[[Gang, Event, GangPolicy], tuple[Gang, tuple[Action, ...]]]

RACKS = {
    NodeId("n1"): RackId("/r1"),
    NodeId("n2"): RackId("/r1"),
    NodeId("bad"): RackId("/r1"),
    NodeId("n3"): RackId("/r2"),
    NodeId("n4"): RackId("/r2"),
}
NODES = tuple(RACKS)
SIZE = Resources(1024, 1, 2)


def small_job(*, with_ps: bool = False, attempts: int = 3) -> JobSpec:
    """Three workers of two processes, maybe a parameter server; tight limits."""
    roles = [RoleSpec("worker", 3, SIZE, ("train",), 2)]
    if with_ps:
        roles.append(RoleSpec("ps", 1, Resources(1024, 1, 0), ("serve",), 1))
    return JobSpec(
        name="job",
        queue="root.a",
        user="u",
        framework=Framework.COMMAND,
        roles=tuple(roles),
        placement=PlacementWish(exclude_nodes=("bad",)),
        gang=GangSpec(attempts=attempts, wait_timeout_s=5000.0),
        retry=RetrySpec(max_restarts=1, on_user_failure=1),
    )


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
    is_launched: bool = False
    is_exited: bool = False


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

    def __post_init__(self) -> None:
        self.gang = initial(self.job)
        self.policy = policy_for(self.job)
        self.rungs = rungs_for(self.job)
        self.deliver(JobStarted(self.now_s))

    # ---- the machine's side ---------------------------------------------------------------

    def deliver(self, event: Event) -> None:
        """One step, everything it asks for, and all the checks."""
        event = replace(event, at_s=self.now_s)
        before = self.gang
        after, actions = self.play(before, event, self.policy)
        self.seen.append(event)
        self._learn(event)
        self.gang = after
        self.edges.add((before.phase, type(event).__name__, after.phase))
        if after.phase is Phase.RUNNING and before.phase is not Phase.RUNNING:
            self.runs += 1
        for action in actions:
            self._perform(action, before)
        self._check(event, before, actions)

    def _learn(self, event: Event) -> None:
        if isinstance(event, ContainerGranted) and event.ask in self.truths:
            truth = self.truths[event.ask]
            truth.is_told_granted = True
            truth.is_released_since_told = False
        elif isinstance(event, ContainerEnded) and event.ask in self.truths:
            self.truths[event.ask].is_told_ended = True
        elif isinstance(event, AgentRegistered) and event.ask in self.truths:
            self.truths[event.ask].told_agent = event
        elif isinstance(event, AmRestarted):
            for truth in self.truths.values():
                truth.is_gone_with_am = True
                truth.is_ended = True
            self.timers.clear()
            self.plans.clear()
            self.draws.clear()

    def _perform(self, action: Action, before: Gang) -> None:
        if isinstance(action, AskContainer):
            require(action.ask not in self.truths, f"{action.ask} was asked for twice")
            self.truths[action.ask] = Truth(action.target)
        elif isinstance(action, ReleaseContainer):
            truth = self.truths.get(action.ask)
            if truth is not None:
                truth.is_released = truth.is_released_since_told = True
        elif isinstance(action, StartTimer):
            require(action.delay_s >= 0, "a timer in the past")
            self.timers[action.timer] = self.now_s + action.delay_s
        elif isinstance(action, CancelTimer):
            if self.timers.pop(action.timer, None) is not None:
                self.old_timers.append(action.timer)
        elif isinstance(action, RequestPlan):
            require(self.policy.excluded == action.excluded, "the planner must know who is out")
            self.plans.append(action)
        elif isinstance(action, DrawJitter):
            self.draws.append(action)
        elif isinstance(action, LaunchGang):
            self._launch(action)
        elif isinstance(action, StopTask):
            require(self.truths[action.ask].is_launched, f"stop of {action.ask}, never launched")
        elif isinstance(action, Finish):
            self.finishes += 1
            require(before.phase not in FINAL_PHASES or self.am_attempt > 1, "two Finish")

    def _launch(self, action: LaunchGang) -> None:
        require(
            all(old.attempt != action.attempt for old in self.launches), "two launches, one attempt"
        )
        self.launches.append(action)
        for role in self.job.roles:
            members = [m for m in action.members if m.placed.role == role.name]
            require(len(members) == role.tasks, f"launched {len(members)} of {role.tasks} tasks")
            indices = [m.task.index for m in members]
            require(indices == list(range(role.tasks)), f"indices of {role.name}: {indices}")
            places = [(m.placed.rack, m.placed.node) for m in members]
            require(places == sorted(places), "ranks do not follow rack and node")
        rung = self.gang.rung
        assert rung is not None
        nodes = [m.placed.node for m in action.members]
        for member in action.members:
            truth = self.truths[member.ask]
            require(truth.is_told_granted, f"{member.ask} was launched without a grant")
            require(truth.told_agent is not None, f"{member.ask} was launched without its agent")
            require(not truth.is_released, f"{member.ask} was launched after its release")
            require(not truth.is_told_ended, f"{member.ask} was launched after its end")
            require(not truth.is_gone_with_am, f"{member.ask} was launched after its AM")
            require(member.placed.node not in self.policy.excluded, "launched on an excluded node")
            require(
                truth.target.accepts(member.placed.node, member.placed.rack),
                f"{member.ask} stands outside of its target",
            )
            truth.is_launched = True
        require(rung.node_limit is None or len(set(nodes)) <= rung.node_limit, "too many nodes")
        require(not rung.one_task_per_node or len(set(nodes)) == len(nodes), "a node used twice")
        racks = {m.placed.rack for m in action.members}
        require(not rung.same_rack or len(racks) == 1, "more than one rack")

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
        self._check_waits()
        self._check_bounds()
        again, _ = self.play(gang, replace(event, at_s=self.now_s), self.policy)
        require(again == gang, f"a doubled {type(event).__name__} changed the gang")
        status = describe(gang, self.now_s)
        waits = gang.phase in {Phase.PENDING, Phase.BACKING_OFF, Phase.ACQUIRING}
        require(not waits or status.state is not JobState.RUNNING, "RUNNING while it waits")
        require(status.reason or gang.phase in {Phase.PENDING}, f"no reason in {gang.phase}")

    def _check_holding(self) -> None:
        """released + held + lost = granted, and nothing is held that was released."""
        gang = self.gang
        for ask, truth in self.truths.items():
            member = gang.find(ask)
            held = member is not None and member.is_holding and gang.phase not in FINAL_PHASES
            if held and truth.is_released:
                raise Violation(f"{ask} is held after its release")
            is_asked = member is not None and member.state is MemberState.ASKED
            if is_asked and gang.phase not in FINAL_PHASES:
                require(not truth.is_told_granted, f"the grant of {ask} was not noticed")
            if held and member is not None and member.grant is not None:
                node, rack = member.grant.node, member.grant.rack
                require(node not in self.policy.excluded, f"{ask} is held on an excluded node")
                require(truth.target.accepts(node, rack), f"{ask} is held outside of its target")
            if truth.is_told_granted and not truth.is_gone_with_am:
                accounted = held or truth.is_released_since_told or truth.is_told_ended
                require(accounted, f"{ask} leaked in {gang.phase}: neither held nor released")
            asked = truth.is_released or truth.is_gone_with_am or truth.is_told_ended
            if not asked and gang.phase not in FINAL_PHASES:
                require(member is not None, f"{ask} was forgotten without being withdrawn")
            if gang.phase in FINAL_PHASES:
                require(asked, f"{ask} was left behind at the end")

    def _check_waits(self) -> None:
        """Every wait has a named limit that runs."""
        gang = self.gang
        known = {timer.timer for timer in gang.timers}
        require(known == set(self.timers), f"timers {known} but running are {set(self.timers)}")
        kinds = {timer.kind for timer in known}
        phase = gang.phase
        if phase is Phase.ACQUIRING:
            require(kinds & {TimerKind.ASK, TimerKind.HOLD}, "acquiring without a limit")
            granted = any(m.state is not MemberState.ASKED for m in gang.members)
            require(not granted or TimerKind.HOLD in kinds, "holding without a limit")
        if phase is Phase.LAUNCHING:
            require(TimerKind.LAUNCH in kinds, "launching without a limit")
        if phase is Phase.STOPPING:
            require(TimerKind.STOP in kinds, "stopping without a limit")
        if phase is Phase.BACKING_OFF:
            drawn = self.draws or any(isinstance(e, JitterDrawn) for e in self.inflight)
            require(TimerKind.BACKOFF in kinds or drawn, "backing off without an end")
        if phase in {Phase.PENDING, Phase.BACKING_OFF, Phase.ACQUIRING}:
            require(TimerKind.WAIT in kinds, "the whole wait has no limit")
        if phase in FINAL_PHASES:
            require(not known, "timers after the end")

    def _check_bounds(self) -> None:
        gang, policy = self.gang, self.policy
        require(gang.failures <= policy.attempts, "more failed attempts than allowed")
        require(
            gang.failures < policy.attempts or gang.phase in FINAL_PHASES,
            "goes on after the last attempt",
        )
        require(gang.restarts <= policy.max_restarts, "more restarts than allowed")
        require(gang.user_retries <= policy.user_retries, "more user retries than allowed")
        free = gang.restarts + gang.user_retries + gang.preemptions + self.am_attempt
        limit = policy.attempts * (1 + self.runs) + free
        require(len(gang.history) <= limit, f"{len(gang.history)} attempts, at most {limit}")
        attempts = [record.attempt for record in gang.history]
        require(attempts == sorted(set(attempts)), "an attempt number was used twice")

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

    def agent_reports(self, pick: int, event: str) -> None:
        alive = self.asks(lambda t: t.told_agent is not None and not t.is_ended)
        if not alive:
            return
        ask = alive[pick % len(alive)]
        if event == "silent":
            self.inflight.append(AgentSilent(self.now_s, ask, 8.0))
        else:
            self.inflight.append(AgentUnable(self.now_s, ask, "no room", event == "user"))

    def task_starts(self, pick: int) -> None:
        launched = self.asks(lambda t: t.is_launched and not t.is_ended)
        if launched:
            ask = launched[pick % len(launched)]
            self.inflight.append(TaskStarted(self.now_s, ask, ask.attempt))

    def task_exits(self, pick: int, kind: ExitKind) -> None:
        launched = self.asks(lambda t: t.is_launched and not t.is_ended and not t.is_exited)
        if launched:
            ask = launched[pick % len(launched)]
            self.truths[ask].is_exited = True
            exits = (
                ProcessExit(0, kind, code=1, signal=9, ended_at_s=self.now_s),
                ProcessExit(1, ExitKind.OK if kind is ExitKind.OK else ExitKind.STOPPED),
            )
            self.inflight.append(TaskExited(self.now_s, ask, ask.attempt, exits))

    def planner_answers(self, answer: str, rung: int = 0) -> None:
        if not self.plans:
            return
        request = self.plans.pop(0)
        if answer == "ready":
            first = self.rungs[(request.first_rung + rung) % len(self.rungs) :]
            self.inflight.append(
                PlanReady(self.now_s, request.attempt, PlacementPlan(first, self.now_s))
            )
        else:
            no_fit = NoFit(Reason.FRAGMENTED, answer == "never", "no room", "wait")
            self.inflight.append(PlanRefused(self.now_s, request.attempt, no_fit))

    def jitter_comes(self, u: float) -> None:
        if self.draws:
            self.inflight.append(JitterDrawn(self.now_s, self.draws.pop(0).attempt, u))

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
        if old and not isinstance(old[pick % len(old)], CancelRequested | BrokerFailed):
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

    def am_restarts(self) -> None:
        """At most three lives; what was in flight to the old one is lost, but for its agents."""
        if self.am_attempt < 3:
            self.am_attempt += 1
            self.inflight = [e for e in self.inflight if isinstance(e, AgentRegistered)]
            self.deliver(AmRestarted(self.now_s, self.am_attempt))

    def user_cancels(self) -> None:
        self.deliver(CancelRequested(self.now_s, "u", "enough"))

    def broker_fails(self) -> None:
        self.deliver(BrokerFailed(self.now_s, "Skein is gone"))

    # ---- at last ------------------------------------------------------------------------------

    def drain(self) -> None:
        """From here on the world is fair: the gang must end, and soon."""
        for _ in range(2000):
            if self.gang.phase in FINAL_PHASES and not self.inflight:
                break
            self._fair_move()
        require(self.gang.phase in FINAL_PHASES, f"stuck in {self.gang.phase}")
        lives = 1 if self.am_attempt == 1 else self.am_attempt
        require(1 <= self.finishes <= lives, f"{self.finishes} Finish in {lives} AM attempts")

    def _fair_move(self) -> None:
        if self.inflight:
            self.message_comes(0)
        elif self.plans:
            self.planner_answers("ready")
        elif self.draws:
            self.jitter_comes(0.5)
        elif not self._fair_yarn():
            self.timer_fires()

    def _fair_yarn(self) -> bool:
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
            elif truth.is_launched and member.state is MemberState.READY:
                self.inflight.append(TaskStarted(self.now_s, ask, ask.attempt))
                return True
            elif self.gang.phase is Phase.RUNNING and not truth.is_exited:
                truth.is_exited = True
                exits = (ProcessExit(0, ExitKind.OK, ended_at_s=self.now_s),)
                self.inflight.append(TaskExited(self.now_s, ask, ask.attempt, exits))
                return True
        return False

    def _fits(self, truth: Truth, node: NodeId) -> bool:
        rung = self.gang.rung
        held = [m.grant for m in self.gang.members if m.grant is not None]
        nodes = {g.node for g in held}
        if rung is None or node in self.policy.excluded:
            return False
        return (
            truth.target.accepts(node, RACKS[node])
            and not (rung.one_task_per_node and node in nodes)
            and (rung.node_limit is None or len(nodes | {node}) <= rung.node_limit)
            and not (rung.same_rack and any(g.rack != RACKS[node] for g in held))
        )


def random_walk(world: World, seed: int, moves: int) -> None:
    """A seeded walk: mostly what a healthy world does, some of everything else."""
    dice = random.Random(seed)
    n = dice.randrange
    chaos = dice.choice((0.0, 0.1, 0.4))
    for _ in range(moves):
        if dice.random() >= chaos:
            _healthy_move(world, dice)
            continue
        dice.choice(
            (
                lambda: world.yarn_grants(n(99), n(99)),
                lambda: world.agent_registers(n(99), is_elsewhere=n(5) == 0),
                lambda: world.container_ends(n(99), dice.choice(tuple(ContainerEnd))),
                lambda: world.agent_reports(n(99), dice.choice(("silent", "unable", "user"))),
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
                lambda: world.am_restarts(),
                lambda: world.user_cancels() if n(8) == 0 else None,
                lambda: world.broker_fails() if n(8) == 0 else None,
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
    if n(60) == 0:
        world.container_ends(n(99), dice.choice(tuple(ContainerEnd)))
    if world.inflight and n(4):
        world.message_comes(0 if n(4) else n(99))
    elif world.plans:
        world.planner_answers("busy" if n(6) == 0 else "ready", n(5) if n(2) else 0)
    elif world.draws:
        world.jitter_comes(dice.random())
    elif world._fair_yarn():
        pass
    elif not world.inflight or n(30) == 0:
        if n(10) == 0:
            world.time_passes(dice.random() * 100)
        world.timer_fires()
    if n(40) == 0 and world.gang.phase is Phase.ACQUIRING:
        world.timer_fires()
    if n(40) == 0:
        world.task_exits(n(99), dice.choice(tuple(ExitKind)))
