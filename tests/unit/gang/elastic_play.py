"""A script for an elastic gang: words for what changes its size."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.gang.play import Play, job, of, rung, stopped
from yarnam.core.gang import MemberState
from yarnam.core.model.actions import Action, AskContainer
from yarnam.core.model.events import (
    ClusterSeen,
    GroupFormed,
    PlanReady,
    ScaleRequested,
    TimerKind,
)
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_spec import ElasticSpec, JobSpec
from yarnam.core.model.job_status import Phase
from yarnam.core.model.plans import LocalityLevel, PlacementPlan, TargetAsk

ELASTIC = ElasticSpec(
    patience_s=30.0, grow_interval_s=60.0, min_run_s=300.0, shrink_after_s=60.0,
    checkpoint_grace_s=20.0,
)  # fmt: skip


def elastic_job(least: int = 2, most: int = 4, **changes: object) -> JobSpec:
    made = job(most, **changes)  # type: ignore[arg-type]
    roles = tuple(
        replace(role, min_tasks=least) if role.name == "worker" else role for role in made.roles
    )
    return replace(made, roles=roles, elastic=ELASTIC)


class Elastic(Play):
    """Words for a gang that changes its size."""

    def after(self, seconds: float) -> Elastic:
        super().after(seconds)
        return self

    def room_for(self, workers: int) -> tuple[Action, ...]:
        """The planner's answer to the question where the gang could go."""
        whole = rung(self.spec.at_size(workers))
        return self.send(PlanReady(0, self.gang.attempt, PlacementPlan((whole,))))

    def running(self, workers: int) -> Elastic:
        self.start()
        self.after(31.0).room_for(workers)
        self.grant_all().register_all()
        self.start_all()
        assert self.gang.phase is Phase.RUNNING
        return self

    def ask_size(self, tasks: int | None) -> tuple[Action, ...]:
        return self.send(ScaleRequested(0, "ann", tasks))

    def program_asks(self, tasks: int | None, scheduled: int = 0) -> tuple[Action, ...]:
        event = ScaleRequested(0, "the program", tasks, is_program=True, scheduled=scheduled)
        return self.send(event)

    def see(
        self, spare: int = 0, excess: int = 0, waiting: int = 0, outranked: int = 0
    ) -> tuple[Action, ...]:
        seen = ClusterSeen(0, self.gang.attempt, spare, excess, waiting, 0.5, outranked)
        return self.send(seen)

    def probed(self, **seen: int) -> tuple[Action, ...]:
        """The next probe in its time, and what it finds."""
        self.fire(TimerKind.RESIZE)
        return self.see(**seen)

    def further(self, workers: int, level: LocalityLevel = LocalityLevel.ANY) -> list[AskId]:
        """The planner has room for so many more; the asks for them."""
        [ask] = [a for a in rung(self.spec, level).asks if a.target.role == "worker"]
        one = replace(rung(self.spec, level), asks=(TargetAsk(ask.target, workers),))
        actions = self.send(PlanReady(0, self.gang.attempt, PlacementPlan((one,))))
        return [action.ask for action in of(actions, AskContainer)]

    def come(self, asks: list[AskId], nodes: tuple[str, ...] = ("n5", "n6", "n7")) -> None:
        for ask, node in zip(asks, nodes, strict=False):
            self.after(0.5).grant(ask, node)
            self.after(0.5).register(ask, node)

    def all_stop(self) -> tuple[Action, ...]:
        actions: tuple[Action, ...] = ()
        for member in self.gang.members:
            actions = self.after(0.1).exited(member.ask, stopped(0), stopped(1))
        return actions

    def stop_rest(self) -> tuple[Action, ...]:
        """Those that were not lost have stopped."""
        actions: tuple[Action, ...] = ()
        for member in self.gang.members:
            if member.state is MemberState.STARTED:
                actions = self.after(0.1).exited(member.ask, stopped(0), stopped(1))
        return actions

    def all_asks(self) -> set[AskId]:
        return {action.ask for action in of(self.all, AskContainer)}

    @property
    def size(self) -> int:
        return len(self.gang.members)


def in_place_job(least: int = 2, most: int = 4, framework: str = "torchrun") -> JobSpec:
    made = elastic_job(least, most)
    elastic = replace(made.elastic, restart=False, min_run_s=0.0, reform_timeout_s=200.0)
    return replace(made, elastic=elastic, framework=framework)


class InPlace(Elastic):
    """Of a gang whose processes go on when others come and go."""

    def running(self, workers: int) -> InPlace:
        super().running(workers)
        return self

    def grows(self, workers: int) -> list[AskId]:
        """Up to the last container's being ready; the asks."""
        self.probed(spare=workers)
        asks = self.further(workers)
        self.come(asks)
        return asks

    def formed(self, number: int, tasks: int) -> tuple[Action, ...]:
        """The framework's next group is of so many tasks."""
        return self.send(GroupFormed(0, self.gang.attempt, number, tasks))

    @property
    def names(self) -> list[str]:
        return [member.name for member in self.gang.members]
