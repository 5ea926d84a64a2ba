"""The job's place in the line: what the AM tells the ticket office, and hears from it.

Two sides. ``TurnTaking`` stands in line (``stand_in``, ``others``, ``claim``) while it looks for
room. The loop shows every new state of the gang (``show``), and a task of its own tells the office
what follows from it: grants on their way, a gang that stands, a back-off. The office is asked in a
lane of its own; when it does not answer, the job goes on without it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Union

from yarnam.am.lanes import Lane
from yarnam.am.settings import AmSettings
from yarnam.errors import YarnamError
from yarnam.gang import Gang
from yarnam.gang.sizing import Waiter
from yarnam.gang.state import MemberState
from yarnam.model.ids import NodeId
from yarnam.model.job import JobSpec
from yarnam.model.placement import PlacementPlan, Target
from yarnam.model.resources import Resources
from yarnam.model.status import Phase
from yarnam.model.tickets import Demand, RunningGang, Ticket
from yarnam.ports import Clock
from yarnam.ports.tickets import MayClaim, TicketList, TicketOffice
from yarnam.queues.ticket import ticket_of
from yarnam.wire.records import TicketRecord

log = logging.getLogger("yarnam.am")

STANDING = frozenset({Phase.LAUNCHING, Phase.RUNNING, Phase.STOPPING})


@dataclass(frozen=True, slots=True)
class Acquiring:
    """What is still to be granted."""

    demands: tuple[Demand, ...]


@dataclass(frozen=True, slots=True)
class Aside:
    """The job waits, but not for GPUs to come free."""

    why: str


@dataclass(frozen=True, slots=True)
class Standing:
    """The gang stands."""

    gang: RunningGang


Showing = Union[Acquiring, Aside, Standing]


class Line:
    """``open_office`` None: there is none, and every question is answered at once with "without".
    It is called in the lane, since what it loads takes a while."""

    def __init__(
        self,
        job: JobSpec,
        targets: Sequence[Target],
        application: str,
        open_office: Callable[[], TicketOffice] | None,
        lane: Lane,
        clock: Clock,
        settings: AmSettings,
        remember: Callable[[TicketRecord], None] = lambda place: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        takes_turns = job.gang.ticket and job.gang.look_before_ask
        self._job = job
        self._targets = targets
        self._application = application
        self._open_office = open_office if takes_turns else None
        self._office: TicketOffice | None = None
        self._lane = lane
        self._clock = clock
        self._settings = settings
        self._remember = remember
        self._sleep = sleep
        self._changed = asyncio.Event()
        self._shown = asyncio.Event()
        self._showing: Showing | None = None
        self._opening: asyncio.Task[None] | None = None
        self._teller: asyncio.Task[None] | None = None
        self._opened_at_s = 0.0
        self._ticket: Ticket | None = None
        self._number = 0
        self._taken_at_s = 0.0
        self._stands_since_s: float | None = None
        self._trouble = ""

    # ---- life --------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin to connect; returns at once."""
        if self._open_office is None:
            return
        self._opened_at_s = self._clock.now_s()
        loop = asyncio.get_running_loop()
        self._opening = loop.create_task(self._open(self._open_office))
        self._teller = loop.create_task(self._tell())

    async def _open(self, make: Callable[[], TicketOffice]) -> None:
        loop = asyncio.get_running_loop()

        def changed() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._changed.set)

        try:
            office = await self._lane.call(make)
            office.open(changed)
        except Exception as error:
            # No safety rests on it: by chance alone the job gets its gang as well.
            log.exception("no turns with other jobs")
            self._open_office = None
            self._trouble = str(error)
        else:
            self._office = office

    def resume(self, place: TicketRecord) -> None:
        """An earlier AM attempt had this number: the job comes back to its place."""
        self._number, self._taken_at_s = place.number, place.taken_at_s

    async def close(self) -> None:
        """Leave the office: whatever the job had there is gone."""
        tasks = [task for task in (self._opening, self._teller) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._office is not None:
            await self._lane.call(self._office.close)

    @property
    def is_there(self) -> bool:
        """Whether turns are taken at all by this job."""
        return self._open_office is not None

    @property
    def trouble(self) -> str:
        """Why there are no turns for now, though there is an office; empty: there are."""
        return (self._office.trouble if self._office else "") or self._trouble

    @property
    def ticket(self) -> Ticket | None:
        return self._ticket

    # ---- for TurnTaking ----------------------------------------------------------------------

    async def stand_in(self) -> bool:
        """Wait in line; each call is a sign of life. False: there are no turns now."""
        if self._opening is not None:
            await self._opening
        office = self._office
        if office is None:
            return False
        self._showing = None  # The loop's last word is no longer true.
        while office.trouble and (patience_s := self._patience_s()) > 0:
            await self.wait(patience_s)
        wanted = self._wanted()
        try:
            if self._ticket is None:
                self._take(await self._lane.call(lambda: office.take(wanted)))
            else:
                self._ticket = wanted
                await self._lane.call(lambda: office.update(wanted))
        except YarnamError as error:
            self._has_failed(error)
            return False
        self._trouble = ""
        return True

    async def others(self) -> TicketList | None:
        """None: there are no turns now."""
        office = self._office
        if office is None or self._ticket is None:
            return None
        self._changed.clear()
        try:
            return await self._lane.call(office.others)
        except YarnamError as error:
            self._has_failed(error)
            return None

    async def claim(self, ticket: Ticket, may: MayClaim) -> bool | None:
        """Whether the job may ask for what is on ``ticket`` now, and the others know it; None:
        there are no turns now."""
        office = self._office
        if office is None or self._ticket is None:
            return None
        try:
            is_ours = await self._lane.call(lambda: office.claim(ticket, may))
        except YarnamError as error:
            self._has_failed(error)
            return None
        if is_ours:
            self._ticket = ticket
        return is_ours

    async def wait(self, limit_s: float) -> bool:
        """Until something has changed since ``others``, at most so long; whether it did."""
        await self._either(self._changed, limit_s)
        has_changed = self._changed.is_set()
        self._changed.clear()
        return has_changed

    def ticket_for(self, plan: PlacementPlan | None) -> Ticket:
        """The job's ticket, with just what this plan asks for; None: what the job waits for."""
        mine = self._ticket or self._wanted()
        if plan is None:
            return mine
        asks = plan.rungs[0].asks
        return replace(mine, demands=tuple(Demand(ask.target.resources, ask.count) for ask in asks))

    # ---- for a gang that grows ---------------------------------------------------------------

    def waiters(self) -> tuple[Waiter, ...]:
        """The other jobs in line for GPUs, of which YARN knows nothing. Blocks like the office."""
        if self._office is None or self._office.trouble:
            return ()
        try:
            tickets = self._office.others().tickets
        except YarnamError as error:
            log.warning("the line is not known: %s", error.message)
            return ()
        return tuple(Waiter(ticket.queue, ticket.gpus) for ticket in tickets if not ticket.aside)

    # ---- for the loop ------------------------------------------------------------------------

    def show(self, gang: Gang) -> None:
        """The gang as it is now. Returns at once; the office is told by and by."""
        if not self.is_there:
            return
        showing = self._showing_of(gang)
        if showing is not None and showing != self._showing:
            self._showing = showing
            self._shown.set()

    def _showing_of(self, gang: Gang) -> Showing | None:
        phase = gang.phase
        if phase not in STANDING:
            self._stands_since_s = None
        if phase is Phase.ACQUIRING:
            missing = [m for m in gang.members if m.state is MemberState.ASKED]
            return Acquiring(_demands(member.target for member in missing))
        if phase in STANDING:
            return Standing(self._running(gang))
        if phase is Phase.BACKING_OFF:
            return Aside("its attempt backs off")
        if phase is Phase.SUSPENDED:
            return Aside("it is suspended")
        return None  # PENDING: TurnTaking speaks for it. The end: the office is closed.

    def _running(self, gang: Gang) -> RunningGang:
        if self._stands_since_s is None:
            self._stands_since_s = gang.since_s
        held = [member for member in gang.members if member.is_holding]
        on_node: dict[NodeId, int] = {}
        for member in held:
            if member.grant is not None:
                gpus = member.target.resources.gpus
                on_node[member.grant.node] = on_node.get(member.grant.node, 0) + gpus
        duration_s = self._job.duration_s
        return RunningGang(
            job=self._application,
            queue=self._job.queue,
            gpus=sum(member.target.resources.gpus for member in held),
            ends_at_s=None if duration_s is None else self._stands_since_s + duration_s,
            nodes=tuple(sorted(on_node.items())),
            since_s=self._stands_since_s,
        )

    async def _tell(self) -> None:
        """Tells the office the newest state, again while it does not answer, and gives signs of
        life while containers are on their way."""
        told: Showing | None = None
        while True:
            await self._either(self._shown, self._settings.sign_of_life_s)
            self._shown.clear()
            showing = self._showing
            if showing is None or self._office is None:
                told = None
                continue
            if isinstance(showing, Acquiring) and isinstance(told, Acquiring) and showing != told:
                await self._let_looks_grow_old()
                if not isinstance(self._showing, Acquiring):
                    self._shown.set()
                    continue
            if await self._tell_once(showing):
                told = showing
            else:
                await self._sleep(self._settings.retry_pause_s)
            if told != self._showing:
                self._shown.set()

    async def _let_looks_grow_old(self) -> None:
        """Others add what is on its way to what they saw in use a moment ago: a grant may be
        counted twice for that moment, but never be left out."""
        ends_at_s = self._clock.now_s() + self._settings.shrink_delay_s
        while isinstance(self._showing, Acquiring):
            left_s = ends_at_s - self._clock.now_s()
            if left_s <= 0:
                return
            await self._either(self._shown, left_s)
            self._shown.clear()

    async def _tell_once(self, showing: Showing) -> bool:
        office = self._office
        assert office is not None
        try:
            if isinstance(showing, Standing):
                self._ticket = None
                await self._lane.call(lambda: office.stand(showing.gang))
                return True
            if self._ticket is None:
                self._take(await self._lane.call(lambda: office.take(self._wanted())))
            assert self._ticket is not None
            ticket = self._ticket
            if isinstance(showing, Acquiring):
                demands = showing.demands or ticket.demands
                ticket = replace(ticket, demands=demands, is_acquiring=True, aside="")
            else:
                ticket = replace(ticket, is_acquiring=False, aside=showing.why)
            await self._lane.call(lambda: office.update(ticket))
        except YarnamError as error:
            self._has_failed(error)
            return False
        self._trouble = ""
        return True

    # ---- inside ------------------------------------------------------------------------------

    async def _either(self, event: asyncio.Event, limit_s: float) -> None:
        """Until the event is set, at most so long."""
        waiting = [
            asyncio.ensure_future(event.wait()),
            asyncio.ensure_future(self._sleep(limit_s)),
        ]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()

    def _take(self, ticket: Ticket) -> None:
        self._ticket = ticket
        if ticket.number != self._number:
            log.info("ticket %d", ticket.number)
            self._number, self._taken_at_s = ticket.number, ticket.taken_at_s
            self._remember(TicketRecord(ticket.number, ticket.taken_at_s))

    def _wanted(self) -> Ticket:
        taken_at_s = self._taken_at_s or self._clock.now_s()
        return ticket_of(self._job, self._targets, self._application, self._number, taken_at_s)

    def _patience_s(self) -> float:
        """Of the start: the office is connected to while the AM starts, so there is little left."""
        passed_s = self._clock.now_s() - self._opened_at_s
        return max(0.0, self._settings.office_patience_s - passed_s)

    def _has_failed(self, error: YarnamError) -> None:
        if error.message != self._trouble:
            log.warning("no turns for now: %s", error)
        self._trouble = error.message


def _demands(targets: Iterable[Target]) -> tuple[Demand, ...]:
    counts: dict[Resources, int] = {}
    for target in targets:
        counts[target.resources] = counts.get(target.resources, 0) + 1
    return tuple(Demand(resources, count) for resources, count in counts.items())
