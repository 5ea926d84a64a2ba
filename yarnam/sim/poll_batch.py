"""The moments at which all jobs that wait poll the cluster.

In the product one of the ApplicationMasters that wait asks the ResourceManager every two seconds or
so and publishes what it saw; the others decide by that. So here all of them poll at one moment, on
the same snapshot, in the order of the queue: a later one sees what those before it have just asked
for. A job's own first poll comes when it arrives.

Of jobs that are alike and see the same, one decides for all: what is refused to the first of them
is refused to those behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from yarnam.core.admission.polling import FIRST_POLL_S, POLL_CAP_S
from yarnam.core.admission.wait_queue import wait_queue
from yarnam.core.model.ids import NodeId
from yarnam.core.model.tickets import MustWait
from yarnam.sim.sim_tickets import SimTicketQueue
from yarnam.sim.timeline import Timeline
from yarnam.sim.yarn_model.resource_manager import SimResourceManager

BATCH_S = FIRST_POLL_S
"""The time between two moments at which jobs poll if GPUs have come free, or a job has asked: the
mean interval of the first in the queue, which publishes. Other changes and time alone are noticed
after ``POLL_CAP_S``."""

Kind = tuple[int, tuple[NodeId, ...], "int | None", "int | None"]
"""The kind of a job: its YARN queue and sizes (``PollBatch.kind_of``), nodes that it may not use,
and the fewest and the most tasks that will do now."""


class WaitingJob(Protocol):
    """A job that has polled once and has to wait."""

    @property
    def queue(self) -> str: ...

    def poll_at(self, moment: Moment, *, is_first: bool) -> None:
        """Poll now. ``is_first``: first of all jobs, or of those of its YARN queue. Other jobs ask
        only if their gang fits."""
        ...


class Moment:
    """The findings of one job, shared with all that poll at this moment."""

    __slots__ = ("_fits", "_refused")

    def __init__(self) -> None:
        self._fits: dict[Kind, bool] = {}
        self._refused: dict[tuple[Kind, bool], MustWait] = {}

    def fits(self, kind: Kind, find_out: Callable[[], bool]) -> bool:
        """Whether the gangs of this kind may fit."""
        known = self._fits.get(kind)
        if known is None:
            known = self._fits[kind] = find_out()
        return known

    def refusal(self, kind: Kind, *, may_pass: bool) -> MustWait | None:
        """The refusal that an earlier job of the same kind got. ``may_pass``: the job may use nodes
        that are reserved for the head."""
        return self._refused.get((kind, may_pass))

    def refuse(self, kind: Kind, decision: MustWait, *, may_pass: bool) -> None:
        self._refused[kind, may_pass] = decision

    def somebody_has_asked(self) -> None:
        """Forget the refusals: the room that is left to other jobs has changed."""
        self._refused.clear()


class PollBatch:
    """The poll batch of one run."""

    def __init__(
        self,
        timeline: Timeline,
        rm: SimResourceManager,
        tickets: SimTicketQueue,
        *,
        has_policy: bool = False,
    ) -> None:
        """``has_policy``: the queues have a policy, which has an order of its own."""
        self._has_policy = has_policy
        self._timeline = timeline
        self._rm = rm
        self._tickets = tickets
        self._waiting: dict[int, WaitingJob] = {}
        self._kinds: dict[tuple[object, ...], int] = {}
        self._is_coming = False
        self._polled_at_s = 0.0
        self._seen = (-1, -1)

    def join(self, number: int, job: WaitingJob) -> None:
        """Let the holder of the ticket with this number poll from the next moment on."""
        self._waiting[number] = job
        if not self._is_coming:
            self._is_coming = True
            self._timeline.after(BATCH_S, self._tick)

    def kind_of(self, *what: object) -> int:
        """A number for what is alike: quicker to compare."""
        return self._kinds.setdefault(what, len(self._kinds))

    def leave(self, number: int) -> None:
        """It waits no longer, or has something to do on its own."""
        self._waiting.pop(number, None)

    def _tick(self) -> None:
        if not self._waiting:
            self._is_coming = False
            return
        freed = self._rm.nodes.freed, self._tickets.freed
        if freed != self._seen or self._timeline.now_s - self._polled_at_s >= POLL_CAP_S:
            self._polled_at_s, self._seen = self._timeline.now_s, freed
            self._ask_all()
        self._timeline.after(BATCH_S, self._tick)

    def _ask_all(self) -> None:
        moment, tickets = Moment(), self._tickets
        version = tickets.version
        for job, is_first in list(self._in_order()):
            if tickets.version != version:
                moment.somebody_has_asked()
                version = tickets.version
            job.poll_at(moment, is_first=is_first)

    def _in_order(self) -> Iterator[tuple[WaitingJob, bool]]:
        """As the wait queue is at this moment, those whom free GPUs could not help at its end."""
        left, begun = dict(self._waiting), set[str]()
        if self._has_policy:
            yield from ((left[number], False) for number in sorted(left))
            return
        number, one = next(iter(left.items()))
        now_s = self._timeline.now_s
        seen = self._tickets.queue_snapshot(self._rm.snapshot(one.queue), now_s)
        mine = self._tickets.tickets[number]
        if seen.presorted is not None:
            # One that free GPUs could help: of it the queue is known.
            mine = next(iter(seen.presorted.order), mine)
        for position, ticket in enumerate(wait_queue(mine, seen).order):
            job = left.pop(ticket.number, None)
            if job is not None:
                yield job, not position or ticket.queue not in begun
            begun.add(ticket.queue)
        for job in left.values():
            yield job, False
