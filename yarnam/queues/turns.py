"""``turn``: may this job ask YARN for its gang now, or do others come first?

Nobody orders the ApplicationMasters of a cluster: the Fair Scheduler deals containers out to all
of them in turn, and two gangs that each get a part can hold those parts against each other. With
tickets they agree on an order, and everybody works it out alone, from the same tickets and
the same snapshot:

1. **Line up** (``line``). Queues below their share first, then the smallest gang first. A job that
   has been passed over for long enough becomes the *head* and goes before all.
2. **Lay down.** What has been asked for is on its way: room for it is set aside. Then, in order,
   each gang that fits is laid on what is left. One that does not fit is passed over. If that is the
   head, nodes are kept for it: those with the least work left, by the declared ends of what
   runs there, else by the rule that what has run long will run long. It starts as soon as they are
   free; nothing is held meanwhile.
3. **Go, or wait.** A job may ask if its gang fits beside all that, on nodes that are not kept; or
   on kept ones if it ends before they are expected to be free (backfill: Lifka, "The ANL/IBM SP
   scheduling system", 1995). Of a gang that does not tell how long it runs nobody knows that:
   it may pass a head that is not expected soon, until the head has waited so long that nothing
   is left to chance.

An endless job on a kept node does not hold the head up for ever: the longer it runs, the later its
end is expected, until other nodes are kept.

A ticket gives no right to GPUs beyond a queue's maximum, and YARN still decides what is granted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from yarnam.model.ids import NodeId
from yarnam.model.snapshot import ClusterSnapshot
from yarnam.model.tickets import MayAsk, RunningGang, Ticket, Turn, WaitTurn
from yarnam.queues.floor import Floor, Keep, releases_of
from yarnam.queues.line import Line, exceeds_maximum, in_line, is_silent, queues_of

ACCUMULATE_WITHIN_S = 30.0
"""A head that asks before its gang fits holds GPUs idle for up to this long: well within the
default ``gang.hold_timeout`` of 120 s."""

NOT_SOON_S = 300.0
"""A head that is expected no sooner may be passed by gangs of unknown duration, most of which are
short. Of 5, 10 and 30 minutes the first two came out alike and better than the third in simulations
(docs/explanation/contention.md)."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The nodes kept for a head that does not fit."""

    head: Ticket
    keep: Keep
    is_firm: bool
    is_strict: bool

    def lets_pass(self, ticket: Ticket, now_s: float) -> str:
        """Why the ticket may stand on kept nodes; empty: it may not."""
        left_s = self.keep.ready_at_s - now_s
        if left_s == inf:
            return ""
        if ticket.duration_s is not None:
            is_short = ticket.duration_s <= left_s
            return f"it ends before {_who(self.head)} can start" if is_short else ""
        if self.is_firm or left_s < NOT_SOON_S:
            return ""
        return f"{_who(self.head)} is not expected within {left_s:.0f} s"


def turn(
    me: Ticket,
    tickets: Sequence[Ticket],
    snapshot: ClusterSnapshot,
    running: Sequence[RunningGang],
    *,
    fits_now: bool,
    now_s: float,
) -> Turn:
    """Whether the holder of ``me`` may ask now.

    ``tickets`` are all there are (``me`` among them or not); ``snapshot`` is as fresh as
    ``fits_now``, which is the planner's word on this job's whole gang, its queue's maximum
    included. ``running`` are gangs that stand.
    ``now_s`` is in seconds since the epoch, by the clock of all other times given.
    """
    line = in_line(me, tickets, snapshot, running, now_s)
    place = next(i for i, ticket in enumerate(line.order) if ticket.number == me.number)
    ahead = line.order[:place]
    full = _full(me, snapshot)
    if full:
        return WaitTurn(len(ahead), ahead[0] if ahead else me, full)
    if not ahead:
        return _first(me, tickets, snapshot, running, fits_now=fits_now, now_s=now_s)
    if not fits_now:
        return WaitTurn(len(ahead), ahead[0], f"its {_gpus(me)} are not free")
    return _among_others(me, ahead, line, tickets, snapshot, running, now_s)


def _first(
    me: Ticket,
    tickets: Sequence[Ticket],
    snapshot: ClusterSnapshot,
    running: Sequence[RunningGang],
    *,
    fits_now: bool,
    now_s: float,
) -> Turn:
    """Nobody is before it; but grants that are dealt out to two gangs in turn would complete
    neither, and what others have asked for they may hold already."""
    floor = floor_beside(me, tickets, snapshot, now_s)
    if fits_now and (not floor.touched or floor.lay(me)):
        return MayAsk("first in line, and its gang fits")
    if fits_now:
        return WaitTurn(0, me, "others have asked for what is free")
    keep = floor.keep_for(me, releases_of(running, now_s), now_s)
    is_soon = keep.is_declared and keep.ready_at_s <= now_s + ACCUMULATE_WITHIN_S
    if is_soon and _has_strangers(tickets, snapshot, running):
        return MayAsk(
            f"first in line; the rest of its {_gpus(me)} is about to come free",
            is_accumulating=True,
        )
    return WaitTurn(0, me, f"first in line; its {_gpus(me)} are not free{_when(keep, now_s)}")


def _among_others(
    me: Ticket,
    ahead: Sequence[Ticket],
    line: Line,
    tickets: Sequence[Ticket],
    snapshot: ClusterSnapshot,
    running: Sequence[RunningGang],
    now_s: float,
) -> Turn:
    """Its gang fits now: does it still, beside all that comes first?"""
    floor = floor_beside(me, tickets, snapshot, now_s)
    taken = WaitTurn(len(ahead), ahead[0], "those before it are about to take what is free")
    if not floor.could_lay(me):
        return taken
    kept = kept_for_head(line, floor, running, now_s)
    for ticket in ahead:
        if not ticket.is_acquiring and ticket is not line.head:
            floor.lay(ticket, barred=barred_for(kept, ticket, now_s))
    barred = barred_for(kept, me, now_s)
    avoid = floor.out_of_bounds(me) | barred
    if floor.lay(me, barred=avoid):
        is_strict = bool(barred) and kept is not None and kept.is_strict
        reason = _why(kept, me, ahead, now_s)
        return MayAsk(reason, is_backfill=True, avoid=tuple(sorted(avoid)), is_strict=is_strict)
    if kept is None or not barred:
        return taken
    reason = f"nodes are kept for {_who(kept.head)}{_when(kept.keep, now_s)}"
    return WaitTurn(len(ahead), kept.head, f"{reason}, the rest is too little")


def kept_for_head(
    line: Line, floor: Floor, running: Sequence[RunningGang], now_s: float
) -> Kept | None:
    """What is kept for the head, if it does not fit beside what has been asked for. It is the first
    to be laid down."""
    if line.head is None or floor.lay(line.head):
        return None
    return kept_on(floor, line, running, now_s)


def kept_on(floor: Floor, line: Line, running: Sequence[RunningGang], now_s: float) -> Kept:
    """The nodes for a head that does not fit on what is left."""
    assert line.head is not None
    keep = floor.keep_for(line.head, releases_of(running, now_s), now_s)
    return Kept(line.head, keep, line.is_firm, line.is_strict)


def barred_for(kept: Kept | None, ticket: Ticket, now_s: float) -> frozenset[NodeId]:
    """The kept nodes, unless the ticket may stand on them."""
    if kept is None or kept.lets_pass(ticket, now_s):
        return frozenset()
    return kept.keep.nodes


def _why(kept: Kept | None, me: Ticket, ahead: Sequence[Ticket], now_s: float) -> str:
    if kept is None:
        return _beside(ahead)
    return kept.lets_pass(me, now_s) or f"beside the nodes kept for {_who(kept.head)}"


def floor_beside(
    me: Ticket, tickets: Iterable[Ticket], snapshot: ClusterSnapshot, now_s: float
) -> Floor:
    """What is free beside all that others have asked for. Grants that the snapshot shows already
    are set aside twice, for the moment that an acquisition takes: too careful, never too bold."""
    floor = Floor(snapshot)
    for ticket in sorted(tickets, key=lambda t: t.number):
        if ticket.number == me.number or is_silent(ticket, now_s):
            continue
        if ticket.is_acquiring:
            floor.lay_what_fits(ticket)
    return floor


def _full(me: Ticket, snapshot: ClusterSnapshot) -> str:
    queue = snapshot.queue
    if queue.name != me.queue:
        queue = queues_of(snapshot).get(me.queue, queue)
    if queue.name != me.queue or not exceeds_maximum(me, queue):
        return ""
    return f"queue {queue.name} has {queue.used} of its maximum of {queue.maximum}"


def _has_strangers(
    tickets: Iterable[Ticket], snapshot: ClusterSnapshot, running: Iterable[RunningGang]
) -> bool:
    """Whether somebody has GPUs who keeps no order, and may take those that come free."""
    used = sum(node.used.gpus for node in snapshot.nodes if node.is_usable)
    known = sum(gang.gpus for gang in running)
    known += sum(ticket.gpus for ticket in tickets if ticket.is_acquiring)
    return used > known


def _gpus(ticket: Ticket) -> str:
    return f"{ticket.gpus} GPUs" if ticket.gpus else f"{ticket.tasks} tasks"


def _who(ticket: Ticket) -> str:
    return f"{ticket.job} ({_gpus(ticket)})"


def _beside(ahead: Sequence[Ticket]) -> str:
    others = f" and {len(ahead) - 1} more" if len(ahead) > 1 else ""
    return f"fits beside {_who(ahead[0])}{others}"


def _when(keep: Keep, now_s: float) -> str:
    if keep.ready_at_s == inf:
        return ""
    return f", expected in {max(0.0, keep.ready_at_s - now_s):.0f} s"
