"""A script for one gang: short words for events, and the actions they led to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from yarnam.core.gang import Gang, MemberState, initial, policy_for, step
from yarnam.core.model.actions import (
    Action,
    AskContainer,
    Finish,
    LaunchGang,
    RequestPlan,
    StartTimer,
)
from yarnam.core.model.events import (
    AgentRegistered,
    AgentSilent,
    AgentUnable,
    AmRestarted,
    CancelRequested,
    ContainerEnded,
    ContainerGranted,
    Event,
    JitterDrawn,
    JobStarted,
    NodesSuspected,
    PlanReady,
    PlanRefused,
    TaskExited,
    TaskStarted,
    TimerFired,
    TimerKind,
)
from yarnam.core.model.ids import AskId, ContainerId, NodeId, RackId
from yarnam.core.model.job_spec import (
    GangSpec,
    JobSpec,
    PlacementSpec,
    RetrySpec,
    RoleSpec,
)
from yarnam.core.model.outcomes import ContainerEnd, ExitKind, ProcessExit, Verdict
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

A = TypeVar("A")

T0 = 1_700_000_000.0
"""14 November 2023, 22:13:20 UTC."""


ANEW = GangSpec(hold_timeout_s=120.0, ask_timeout_s=300.0, attempts=3, recovery_timeout_s=0.0)
"""A lost task is never replaced in place."""


def job(
    workers: int = 2,
    *,
    processes: int = 2,
    ps: int = 0,
    chief: int = 0,
    gang: GangSpec | None = None,
    retry: RetrySpec | None = None,
    exclude: tuple[str, ...] = (),
) -> JobSpec:
    roles = [
        RoleSpec("ps", ps, Resources(1024, 1, 0), ("serve",), 1),
        RoleSpec("worker", workers, Resources(1024, 2, processes), ("train",), processes),
        RoleSpec("chief", chief, Resources(1024, 2, processes), ("train",), processes),
    ]
    return JobSpec(
        name="mnist",
        queue="root.ml",
        user="ann",
        framework="command",
        roles=tuple(role for role in roles if role.tasks),
        placement=PlacementSpec(exclude_nodes=exclude),
        gang=gang or GangSpec(hold_timeout_s=120.0, ask_timeout_s=300.0, attempts=3),
        retry=retry or RetrySpec(),
    )


def role(name: str, tasks: int = 1, **rules: Any) -> RoleSpec:
    """One process a task; ``rules``: keys of RoleSpec."""
    return RoleSpec(name, tasks, Resources(1024, 1, 0), (name,), 1, **rules)


def roles_job(*roles: RoleSpec, retry: RetrySpec | None = None) -> JobSpec:
    """Of these roles."""
    return replace(job(retry=retry), roles=roles)


def rung(spec: JobSpec, level: LocalityLevel = LocalityLevel.ANY, **flags: object) -> Rung:
    asks = tuple(
        TargetAsk(
            Target(
                f"{role.name}-{level.name.lower()}",
                role.name,
                level,
                role.resources,
                role.processes_per_task,
                nodes=(NodeId("n1"), NodeId("n2")) if level is LocalityLevel.NODE else (),
                racks=(RackId("/r1"),) if level is LocalityLevel.RACK else (),
            ),
            role.tasks,
        )
        for role in spec.roles
    )
    return Rung(int(level), level, asks, 1.0, "test", **flags)  # type: ignore[arg-type]


@dataclass
class Play:
    """``at`` moves the clock; every word returns the actions of its step."""

    spec: JobSpec = field(default_factory=job)
    now_s: float = T0

    def __post_init__(self) -> None:
        self.gang: Gang = initial(self.spec)
        self.policy = policy_for(self.spec)
        self.all: list[Action] = []
        self.events: list[Event] = []

    def send(self, event: Event) -> tuple[Action, ...]:
        event = replace(event, at_s=self.now_s)
        self.gang, actions = step(self.gang, event, self.policy)
        self.all.extend(actions)
        self.events.append(event)
        return actions

    def after(self, seconds: float) -> Play:
        self.now_s += seconds
        return self

    def start(self) -> tuple[Action, ...]:
        return self.send(JobStarted(0))

    def plan(
        self, level: LocalityLevel = LocalityLevel.ANY, *, nodes: int = 0, **flags: object
    ) -> tuple[Action, ...]:
        plan = PlacementPlan((rung(self.spec, level, **flags),))
        return self.send(PlanReady(0, self.gang.attempt, plan, nodes))

    def suspect(self, *nodes: str) -> tuple[Action, ...]:
        return self.send(NodesSuspected(0, tuple(NodeId(node) for node in nodes)))

    def fill(
        self,
        level: LocalityLevel = LocalityLevel.ANY,
        expected: tuple[str, ...] = (),
        **flags: object,
    ) -> tuple[Action, ...]:
        """The planner's answer to the last look for what a running gang has lost."""
        request = [a for a in self.all if isinstance(a, RequestPlan)][-1]
        assert request.supplement is not None
        whole = rung(self.spec, level, **flags)
        targets = {ask.target.role: ask.target for ask in whole.asks}
        asks = tuple(
            TargetAsk(targets[ask.target.role], ask.count, tuple(NodeId(n) for n in expected))
            for ask in request.supplement.wanted
        )
        plan = PlacementPlan((replace(whole, asks=asks),))
        return self.send(PlanReady(0, self.gang.attempt, plan))

    def refuse(self, message: str = "no room", *, is_never: bool = False) -> tuple[Action, ...]:
        no_fit = NoFit(Reason.FRAGMENTED, is_never, message, "needs 1 more node")
        return self.send(PlanRefused(0, self.gang.attempt, no_fit))

    def jitter(self, u: float) -> tuple[Action, ...]:
        return self.send(JitterDrawn(0, self.gang.attempt, u))

    def asks(self) -> list[AskId]:
        return [member.ask for member in self.gang.members]

    def ask_of(self, role: str, number: int = 0) -> AskId:
        return [m.ask for m in self.gang.members if m.target.role == role][number]

    def waiting(self) -> list[AskId]:
        return [m.ask for m in self.gang.members if m.state is MemberState.ASKED]

    def grant(self, ask: AskId, node: str = "n1", rack: str = "/r1") -> tuple[Action, ...]:
        return self.send(
            ContainerGranted(
                0, ask, ContainerId(f"c-{ask}"), NodeId(node), RackId(rack), f"{node}:8042"
            )
        )

    def register(
        self,
        ask: AskId,
        node: str = "n1",
        gpus: tuple[str, ...] = ("0", "1"),
        container: str = "",
    ) -> tuple[Action, ...]:
        return self.send(
            AgentRegistered(
                0,
                ask,
                ContainerId(container or f"c-{ask}"),
                NodeId(node),
                address=f"{node}.cluster",
                gpu_ids=gpus,
                ports=(("p", 4000),),
                log_address=f"{node}.cluster:5000",
            )
        )

    def end(self, ask: AskId, end: ContainerEnd, text: str = "") -> tuple[Action, ...]:
        return self.send(ContainerEnded(0, ask, end, text))

    def unable(
        self, ask: AskId, text: str, *, is_user: bool = False, is_busy: bool = False
    ) -> tuple[Action, ...]:
        return self.send(AgentUnable(0, ask, text, is_user, is_busy))

    def silent(self, ask: AskId, for_s: float = 8.0) -> tuple[Action, ...]:
        return self.send(AgentSilent(0, ask, for_s))

    def started(self, ask: AskId) -> tuple[Action, ...]:
        return self.send(TaskStarted(0, ask, self.gang.attempt))

    def exited(
        self, ask: AskId, *exits: ProcessExit, attempt: int | None = None
    ) -> tuple[Action, ...]:
        number = self.gang.attempt if attempt is None else attempt
        return self.send(TaskExited(0, ask, number, exits))

    def ok(self, ask: AskId) -> tuple[Action, ...]:
        return self.exited(ask, ProcessExit(0, ExitKind.OK, ended_at_s=self.now_s))

    def fire(self, kind: TimerKind) -> tuple[Action, ...]:
        """The timer of this kind, at its deadline."""
        timer = self.gang.timer(kind)
        assert timer is not None, f"no {kind} timer runs"
        self.now_s = max(self.now_s, timer.deadline_s)
        return self.send(TimerFired(0, timer.timer))

    def cancel(self, reason: str = "") -> tuple[Action, ...]:
        return self.send(CancelRequested(0, "ann", reason))

    def restart_am(self, *kept: AskId) -> tuple[Action, ...]:
        """``kept``: whose containers YARN has kept."""
        grants = [member.grant for member in self.gang.everyone if member.ask in kept]
        containers = tuple(grant.container for grant in grants if grant is not None)
        return self.send(AmRestarted(0, self.gang.am_attempt + 1, containers))

    # ---- whole stretches ----------------------------------------------------------------------

    def to_acquiring(self, level: LocalityLevel = LocalityLevel.ANY, **flags: object) -> Play:
        self.start()
        self.plan(level, **flags)
        return self

    def grant_all(self, on: tuple[str, ...] = ("n1", "n2", "n3", "n4", "n5")) -> Play:
        for ask, node in zip(self.waiting(), on, strict=False):
            self.grant(ask, node)
        return self

    def register_all(self) -> tuple[Action, ...]:
        actions: tuple[Action, ...] = ()
        for member in self.gang.members:
            if member.grant is not None and member.state is MemberState.GRANTED:
                actions = self.register(member.ask, member.grant.node)
        return actions

    def to_launching(self) -> Play:
        self.to_acquiring()
        self.grant_all().register_all()
        return self

    def to_running(self) -> Play:
        self.to_launching()
        self.start_all()
        return self

    def start_all(self) -> Play:
        for ask in self.asks():
            self.started(ask)
        return self

    def to_next_attempt(self) -> Play:
        """From BACKING_OFF to the next acquisition."""
        self.jitter(0.5)
        self.fire(TimerKind.BACKOFF)
        self.plan()
        return self

    @property
    def verdict(self) -> Verdict:
        assert self.gang.verdict is not None
        return self.gang.verdict


def only(actions: tuple[Action, ...], kind: type[A]) -> A:
    found = [action for action in actions if isinstance(action, kind)]
    assert len(found) == 1, f"{len(found)} {kind.__name__} in {actions}"
    return found[0]


def of(actions: tuple[Action, ...] | list[Action], kind: type[A]) -> list[A]:
    return [action for action in actions if isinstance(action, kind)]


def timer_s(actions: tuple[Action, ...], kind: TimerKind) -> float:
    """The delay of the one timer of this kind that was started."""
    found = [a.delay_s for a in of(actions, StartTimer) if a.timer.kind is kind]
    assert len(found) == 1, f"{kind} started {len(found)} times in {actions}"
    return found[0]


def failing(code: int = 1, at_s: float = T0, rank: int = 0, *lines: str) -> ProcessExit:
    return ProcessExit(rank, ExitKind.NON_ZERO, code=code, ended_at_s=at_s, last_lines=lines)


def stopped(rank: int = 0) -> ProcessExit:
    return ProcessExit(rank, ExitKind.STOPPED)


__all__ = ["AskContainer", "Finish", "LaunchGang", "Play", "failing", "job", "of", "only"]
