"""The world of an elastic gang: users wish for sizes, looks at the cluster are answered.

On top of what holds for every gang: a gang that runs, or is launched, has one of the sizes that the
job allows; a growth is limited, and never lasts into another attempt; a change of size is free.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from tests.property.gang_world import (
    NODES,
    World,
    _healthy_move,
    require,
    rungs_for,
    small_job,
)
from yarnam.core.gang import Gang, GangPolicy, step
from yarnam.core.gang.policy import SizePolicy
from yarnam.core.gang.state import StopKind
from yarnam.core.model.actions import Action, ProbeCluster, RequestPlan
from yarnam.core.model.events import (
    AgentSilent,
    AgentUnable,
    AmRestarted,
    ClusterSeen,
    ContainerEnded,
    Event,
    PlanReady,
    ScaleRequested,
    TaskExited,
    TimerFired,
    TimerKind,
)
from yarnam.core.model.job_spec import ElasticSpec, JobSpec, RoleSpec
from yarnam.core.model.job_status import FINAL_PHASES, Phase
from yarnam.core.model.outcomes import ContainerEnd, ExitKind
from yarnam.core.model.plans import PlacementPlan

Stepped = tuple[Gang, tuple[Action, ...]]

LEAST, MOST = 2, 5
LAUNCHES = frozenset({Phase.STAGING, Phase.LAUNCHING})


def elastic_job(*, with_ps: bool = False, recovery_timeout_s: float = 60.0) -> JobSpec:
    """Two to five workers of two processes, maybe a parameter server."""
    job = small_job(with_ps=with_ps)
    worker, *others = job.roles
    return replace(
        job,
        roles=(replace(worker, tasks=MOST, min_tasks=LEAST), *others),
        gang=replace(job.gang, recovery_timeout_s=recovery_timeout_s),
        elastic=ElasticSpec(
            patience_s=20.0, grow_interval_s=30.0, min_run_s=60.0, shrink_after_s=30.0,
            checkpoint_grace_s=5.0,
        ),
    )  # fmt: skip


@dataclass
class ElasticWorld(World):
    looks: list[ProbeCluster] = field(default_factory=list)
    resizes: int = 0
    may_end: bool = False
    """Whether healthy tasks come to an end: a gang that is done soon never changes its size."""

    is_calm: bool = True
    """Since the gang is being stopped nothing has gone wrong."""

    def deliver(self, event: Event) -> None:
        gang = getattr(self, "gang", None)
        if gang is not None:
            is_trouble = isinstance(event, ContainerEnded | AgentUnable | AgentSilent | TimerFired)
            if isinstance(event, TaskExited):
                fine = {ExitKind.OK, ExitKind.STOPPED}
                is_trouble = any(process.kind not in fine for process in event.exits)
            is_calm = self.is_calm or gang.phase is not Phase.STOPPING
            self.is_calm = is_calm and not (is_trouble and gang.phase is Phase.STOPPING)
        super().deliver(event)

    # ---- moves -------------------------------------------------------------------------------

    def user_scales(self, tasks: int | None) -> None:
        self.deliver(ScaleRequested(self.now_s, "u", tasks))

    def program_scales(self, tasks: int | None, scheduled: int) -> None:
        event = ScaleRequested(
            self.now_s, "the program", tasks, is_program=True, scheduled=scheduled
        )
        is_users, before = self.gang.size_request.is_by_user, self.gang.size_request.tasks
        self.deliver(event)
        if is_users:
            require(self.gang.size_request.tasks == before, "a user's size comes first")

    def look_is_answered(
        self, spare: int, excess: int = 0, waiting: int = 0, outranked: int = 0
    ) -> None:
        if self.looks:
            look = self.looks.pop(0)
            asked = look.growth.wanted[0].count
            seen = ClusterSeen(
                self.now_s, look.attempt, min(spare, asked), excess, waiting, 0.5, outranked
            )
            self.inflight.append(seen)

    def planner_answers(self, answer: str, rung: int = 0, lead: int = 0) -> None:
        if not self.plans or answer != "ready" or self.plans[0].supplement is not None:
            super().planner_answers(answer, rung, lead)
            return
        request = self.plans.pop(0)
        top = MOST if request.most_tasks is None else request.most_tasks
        size = max(LEAST, top - rung % 4)
        rungs = rungs_for(self.job.at_size(size))
        first = rungs[(request.first_rung + rung) % len(rungs) :]
        plan = PlacementPlan(first, self.now_s, lead=lead)
        self.inflight.append(PlanReady(self.now_s, request.attempt, plan, len(NODES)))

    def _fair_move(self, *, exits: bool = True) -> None:
        if self.looks and not self.inflight:
            self.look_is_answered(MOST)
        else:
            super()._fair_move(exits=exits)

    def _fair_yarn(self, *, exits: bool = True) -> bool:
        return super()._fair_yarn(exits=exits and self.may_end)

    def drain(self) -> None:
        self.may_end = True
        super().drain()

    # ---- what must hold -----------------------------------------------------------------------

    def _perform(self, action: Action, before: Gang) -> None:
        if isinstance(action, ProbeCluster):
            require(self.gang.phase is Phase.RUNNING, "a probe while nothing runs")
            [wanted] = action.growth.wanted
            tasks = len(action.growth.held) - self._others()
            require(0 <= wanted.count <= MOST - tasks, f"asks about {wanted.count} more")
            self.looks.append(action)
            return
        if isinstance(action, RequestPlan) and self.gang.resizing.growth is not None:
            require(action.supplement is not None, "the whole gang is planned while it runs")
        super()._perform(action, before)

    def _learn(self, event: Event) -> None:
        super()._learn(event)
        if isinstance(event, AmRestarted):
            self.looks.clear()

    def _is_whole(self, role: RoleSpec, count: int) -> bool:
        return (role.min_tasks or role.tasks) <= count <= role.tasks

    def _others(self) -> int:
        return sum(role.tasks for role in self.job.roles if not role.is_elastic)

    def _check_recovery(self, before: Gang) -> None:
        gang = self.gang
        self._check_growth(before)
        if gang.phase is Phase.RUNNING:
            tasks = len(gang.members) - self._others()
            require(LEAST <= tasks <= MOST, f"{tasks} tasks run")
            kinds = {timer.timer.kind for timer in gang.timers}
            require(TimerKind.RESIZE in kinds, "nobody will look at the size again")
        stopping = before.stopping
        if gang.attempt > before.attempt and gang.phase in LAUNCHES:
            self.resizes += 1
            self.extra_attempts += 1
            if stopping is not None and stopping.kind is StopKind.RESIZED and self.is_calm:
                paid = (
                    gang.retries.restarts,
                    gang.acquisition.failures,
                    gang.retries.preemptions,
                    gang.retries.user_retries,
                )
                require(
                    paid
                    == (
                        before.retries.restarts,
                        before.acquisition.failures,
                        before.retries.preemptions,
                        before.retries.user_retries,
                    ),
                    "a change of size was not free",
                )
                wanted = stopping.to
                tasks = len(gang.members) - self._others()
                require(wanted is None or tasks == wanted, f"{tasks} tasks, not {wanted}")
            elif stopping is None or stopping.kind is not StopKind.RESIZED:
                require(len(gang.members) <= len(before.members), "a loss that made it larger")
            return
        if gang.retries.preemptions > before.retries.preemptions and gang.phase in LAUNCHES:
            require(gang.retries.restarts == before.retries.restarts, "a preemption was not free")
            return
        if gang.attempt > before.attempt and stopping is not None:
            is_free = (
                stopping.kind is StopKind.RESIZED
                and gang.retries.restarts == before.retries.restarts
            )
            require(not is_free, "recovered for free")
        super()._check_recovery(before)

    def _check_growth(self, before: Gang) -> None:
        gang = self.gang
        if gang.resizing.growth is None:
            return
        require(
            gang.attempt == before.attempt or before.resizing.growth is None,
            "a growth outlived a try",
        )
        require(gang.phase in {Phase.RUNNING, Phase.STOPPING}, f"a growth in {gang.phase}")
        require(gang.resizing.growth.to <= MOST, "grows beyond the most")
        kinds = {timer.timer.kind for timer in gang.timers}
        if gang.resizing.growth.members and gang.phase is Phase.RUNNING:
            require(TimerKind.GROWTH in kinds, "a growth without a limit")
            tasks = len(gang.members) - self._others() + len(gang.resizing.growth.members)
            require(
                tasks == gang.resizing.growth.to, f"grows to {tasks}, not {gang.resizing.growth.to}"
            )
        if gang.phase is Phase.STOPPING:
            assert gang.stopping is not None
            require(gang.stopping.kind is StopKind.RESIZED, "holds on to a growth at an end")


def elastic_walk(world: ElasticWorld, seed: int, moves: int) -> None:
    """A seeded walk: mostly what a healthy world does, changes of size, some of everything."""
    dice = random.Random(seed)
    n = dice.randrange
    chaos = dice.choice((0.0, 0.05, 0.3))
    for _ in range(moves):
        if world.looks and dice.random() < 0.5:
            world.look_is_answered(n(4), n(3), n(2))
        elif dice.random() < 0.05:
            world.user_scales(dice.choice((None, 0, 2, 3, 4, 5, 9)))
        elif dice.random() >= chaos:
            _healthy_move(world, dice)
        else:
            dice.choice(
                (
                    lambda: world.yarn_grants(n(99), n(99)),
                    lambda: world.agent_registers(n(99), is_elsewhere=n(5) == 0),
                    lambda: world.container_ends(n(99), dice.choice(tuple(ContainerEnd))),
                    lambda: world.agent_reports(n(99), dice.choice(("silent", "unable"))),
                    lambda: world.task_starts(n(99)),
                    lambda: world.task_exits(n(99), dice.choice(tuple(ExitKind))),
                    lambda: world.planner_answers(dice.choice(("ready", "busy")), n(5)),
                    lambda: world.message_comes(n(99)),
                    lambda: world.message_comes_twice(n(99)),
                    lambda: world.message_is_lost(n(99)),
                    lambda: world.old_message_comes(n(999)),
                    lambda: world.time_passes(dice.choice((0.1, 5.0, 70.0))),
                    lambda: world.timer_fires(),
                    lambda: world.old_timer_fires(n(99)),
                    lambda: world.others_suspect(n(99)),
                    lambda: world.yarn_announces(n(99), dice.choice((None, 5.0, 60.0))),
                    lambda: world.am_restarts(n(6)),
                )
            )()


def is_over(world: World) -> bool:
    return world.gang.phase in FINAL_PHASES


def loses_one(world: World) -> None:
    """The first task of the gang is lost with its node."""
    ask = world.gang.members[0].ask
    world.truths[ask].is_ended = True
    world.deliver(ContainerEnded(world.now_s, ask, ContainerEnd.LOST, "node lost"))


def never_mind_the_least(gang: Gang, event: Event, policy: GangPolicy) -> Stepped:
    """A fault put in on purpose."""
    size = policy.size
    assert isinstance(size, SizePolicy)
    return step(gang, event, replace(policy, size=replace(size, least=1)))
