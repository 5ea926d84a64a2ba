"""Answers ``RequestPlan`` in the simulator, as ``am.planning`` does in the ApplicationMaster: with
tickets in turn, without them after a second look.

The planner's answer is needed only where it can matter, so a count of free GPUs goes before it:
where that says no, ``plan`` would too (tests/sim holds it to that).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from yarnam.model.actions import RequestPlan
from yarnam.model.events import Event, PlanReady, PlanRefused
from yarnam.model.ids import NodeId
from yarnam.model.placement import NoFit, PlacementPlan, Reason, Target
from yarnam.model.snapshot import ClusterSnapshot
from yarnam.model.status import Phase
from yarnam.model.tickets import Demand, MayAsk, RunningGang, Ticket, Turn
from yarnam.placement import declared_targets, ladder_for_submit, plan
from yarnam.placement.answer import answer
from yarnam.queues import clear_of, look_after_change_s, look_interval_s, second_look_s, turn
from yarnam.sim.resource_manager import Container
from yarnam.sim.settings import SimJob
from yarnam.sim.timeline import Appointment
from yarnam.sim.world import World

Deliver = Callable[[Event], None]

BUSY = NoFit(Reason.TOO_FEW_FREE_GPUS, is_never=False, message="the whole gang does not fit now")


class Planning:
    """Without tickets: look; where room is scarce pause at random and look again; then answer."""

    def __init__(self, job: SimJob, world: World) -> None:
        self._job = job
        self._world = world
        self._targets: tuple[Target, ...] = ()
        self._never: NoFit | None = None
        self._shapes: tuple[Demand, ...] = ()
        """In how many containers of which size it may be, the largest first."""
        self._coming: Appointment | None = None
        self._has_waited = False
        self._deliver: Deliver

    def open(self, now_s: float, deliver: Deliver) -> None:
        """Submission: the targets are declared on what the cluster is now."""
        self._deliver = deliver
        ladder = ladder_for_submit(self._snapshot(), self._job.spec)
        if isinstance(ladder, NoFit):
            self._never = ladder
            return
        self._targets = declared_targets(ladder)
        gpus = self._job.gpus
        sizes = {target.resources.gpus: target.resources for target in self._targets}
        self._shapes = tuple(
            Demand(sizes[size], gpus // size) for size in sorted(sizes, reverse=True)
        )

    def request(self, action: RequestPlan) -> None:
        look_s = self._world.rm.settings.look_s
        if action.supplement is None:
            self._after(look_s, lambda: self._look(action))
        else:
            # Lost tasks are replaced at once, as in the ApplicationMaster: the rest stands idle.
            self._after(look_s, lambda: self._replace(action))

    def _replace(self, action: RequestPlan) -> None:
        found = answer(self._snapshot(), self._job.spec, self._targets, action)
        self._answer(action, found)

    def entered(self, phase: Phase) -> None:
        """The gang machine has changed its phase."""

    def stands(self, containers: Sequence[Container]) -> None:
        """The whole gang stands."""

    def finished(self) -> None:
        """The job is over."""
        self._cancel()

    def _look(self, action: RequestPlan, *, is_second: bool = False) -> None:
        outcome = self._plan(action)
        is_scarce = self._has_waited or self._world.rm.nodes.free_gpus() < 2 * self._job.gpus
        self._has_waited = isinstance(outcome, NoFit)
        if isinstance(outcome, PlacementPlan) and is_scarce and not is_second:
            pause_s = second_look_s(self._world.dice.random())
            self._after(pause_s, lambda: self._look(action, is_second=True))
            return
        self._answer(action, outcome)

    def _answer(self, action: RequestPlan, outcome: PlacementPlan | NoFit) -> None:
        now_s = self._world.timeline.now_s
        nodes = self._world.rm.settings.nodes
        if isinstance(outcome, NoFit):
            self._deliver(PlanRefused(now_s, action.attempt, outcome, nodes))
        else:
            self._deliver(PlanReady(now_s, action.attempt, outcome, nodes))

    def _plan(
        self, action: RequestPlan, avoid: Sequence[NodeId] = (), *, blind: bool = False
    ) -> PlacementPlan | NoFit:
        if self._never is not None:
            return self._never
        if not blind and not self._could_fit():
            return BUSY
        return plan(
            self._snapshot(),
            self._job.spec,
            (*action.excluded, *avoid),
            targets=self._targets,
            first_rung=action.first_rung,
            blind=blind or not self._job.spec.gang.look_before_ask,
        )

    def _could_fit(self) -> bool:
        return self._fitting() is not None

    def _fitting(self) -> Demand | None:
        """The largest containers of which there is room for the whole gang, by GPUs alone."""
        queue = self._world.rm.queues[self._job.queue]
        if queue.used.gpus + self._job.gpus > queue.maximum:
            return None
        nodes = self._world.rm.nodes
        for shape in self._shapes:
            if nodes.could_hold(shape.count, shape.resources.gpus):
                return shape
        return None

    def _snapshot(self) -> ClusterSnapshot:
        return self._world.rm.snapshot(self._job.queue)

    def _cancel(self) -> None:
        if self._coming is not None:
            self._coming.cancel()
            self._coming = None

    def _after(self, delay_s: float, call: Callable[[], None]) -> None:
        self._cancel()
        self._coming = self._world.timeline.after(delay_s, call)


class TicketPlanning(Planning):
    """With tickets: one from the first wish for a gang until it stands; answers when it is its
    turn and the gang fits."""

    def __init__(self, job: SimJob, world: World) -> None:
        super().__init__(job, world)
        self._ticket: Ticket | None = None
        self._waited_at: tuple[int, int] | None = None
        self._last: Turn | None = None
        self._asked: RequestPlan | None = None
        """What is to be answered."""

    def request(self, action: RequestPlan) -> None:
        if action.supplement is not None:
            super().request(action)
            return
        if self._ticket is None:
            self._ticket = self._world.office.take(self._new_ticket(), self._changed)
        else:
            self._show(replace(self._ticket, is_acquiring=False, aside=""))
        self._waited_at = None
        self._asked = action
        super().request(action)

    def entered(self, phase: Phase) -> None:
        if phase is Phase.BACKING_OFF:
            self._world.office.gone(self._job.spec.name)
        if phase is Phase.BACKING_OFF and self._ticket is not None:
            self._show(replace(self._ticket, is_acquiring=False, aside="its attempt backs off"))

    def stands(self, containers: Sequence[Container]) -> None:
        office = self._world.office
        if self._ticket is not None:
            office.give_back(self._ticket.number)
            self._ticket = None
        gpus: dict[NodeId, int] = {}
        for container in containers:
            name = self._world.rm.nodes.names[container.node]
            gpus[name] = gpus.get(name, 0) + container.resources.gpus
        declared_s = self._job.declared_s
        office.stand(
            RunningGang(
                job=self._job.spec.name,
                queue=self._job.queue,
                gpus=self._job.gpus,
                ends_at_s=None if declared_s is None else self._world.timeline.now_s + declared_s,
                nodes=tuple(sorted(gpus.items())),
                since_s=self._world.timeline.now_s,
            )
        )

    def finished(self) -> None:
        super().finished()
        if self._ticket is not None:
            self._world.office.give_back(self._ticket.number)
            self._ticket = None
        self._world.office.gone(self._job.spec.name)

    def _look(self, action: RequestPlan, *, is_second: bool = False) -> None:
        """Nothing has changed since the last look: neither has the answer."""
        versions = (self._world.rm.nodes.version, self._world.office.version)
        if self._waited_at != versions or self._last is None:
            if self._ask(action):
                return
            self._waited_at = versions
        assert self._last is not None
        pause_s = look_interval_s(self._last, self._world.dice.random())
        self._after(pause_s, lambda: self._look(action))

    def _changed(self) -> None:
        """Somebody has gone: look soon, in the order of the line."""
        action, coming = self._asked, self._coming
        if action is None or coming is None or self._last is None:
            return
        pause_s = look_after_change_s(self._last, self._world.dice.random())
        if self._world.timeline.now_s + pause_s < coming.at_s:
            self._after(pause_s, lambda: self._look(action))

    def _ask(self, action: RequestPlan) -> bool:
        """Whether there was an answer. The planner comes last, since it costs the most: a turn
        that would be refused even if the gang fits needs no plan."""
        assert self._ticket is not None
        if self._never is not None:
            self._answer(action, self._never)
            return True
        tickets, running = self._world.office.others()
        now_s = self._world.timeline.now_s
        snapshot = self._snapshot()
        fits = self._fitting()
        mine = self._ticket if fits is None else replace(self._ticket, demands=(fits,))
        self._last = turn(mine, tickets, snapshot, running, fits_now=fits is not None, now_s=now_s)
        if not isinstance(self._last, MayAsk):
            return False
        outcome = self._plan(action, self._last.avoid, blind=self._last.is_accumulating)
        if isinstance(outcome, PlacementPlan):
            clear = clear_of(outcome, self._last.avoid, snapshot)
            if clear is None and self._last.is_strict:
                outcome = BUSY
            elif clear is not None:
                outcome = clear
        if isinstance(outcome, NoFit):
            self._last = turn(self._ticket, tickets, snapshot, running, fits_now=False, now_s=now_s)
            return False
        self._asked = None
        self._show(replace(self._ticket, is_acquiring=True))
        self._answer(action, outcome)
        return True

    def _show(self, ticket: Ticket) -> None:
        self._ticket = ticket
        self._world.office.update(ticket)

    def _new_ticket(self) -> Ticket:
        job = self._job
        return Ticket(
            number=0,
            job=job.spec.name,
            name=job.spec.name,
            queue=job.queue,
            demands=self._shapes[-1:],
            taken_at_s=self._world.timeline.now_s,
            duration_s=job.declared_s,
        )
