"""``decide`` whether a job that waits for GPUs now asks YARN for its gang, and by which plan, or
waits.

No scheduler orders the ApplicationMasters of a cluster: the Fair Scheduler deals containers out to
all of them in turn, and two gangs that each get a part can block each other with those parts. With
tickets they agree on an order. Each computes it alone, from the same tickets and the same snapshot:

1. **Queue up** (``wait_queue``). Queues below their share first, then the smallest gang first. A
   job that has been bypassed for long enough becomes the *head* and goes before all others.
2. **Reserve.** Capacity is set aside for what has been requested already. Then each gang that fits,
   in order, is placed on what is left; one that does not fit is bypassed. If that is the head,
   nodes are reserved for it: those with the least work left, by the declared ends of the gangs
   that run there, or else by the rule that what has run long will run long. It starts as soon as
   they are free; no GPU is held meanwhile.
3. **Ask, or wait.** A job may ask if its gang fits beside all that on nodes that are not reserved;
   or on reserved ones if it ends before they are expected to be free (backfill: Lifka, "The ANL/IBM
   SP scheduling system", 1995). A gang without a declared duration is unpredictable: it may bypass
   a head that is not expected soon, until the head has waited so long that nothing is left to
   chance.

4. **Claim** (``entitlement``). What YARN would take from queues above their share counts as room
   for the first gang of a queue that is below its own.

An endless job on a reserved node does not delay the head forever: the longer it runs, the later its
end is expected, until other nodes are reserved.

A ticket gives no right to GPUs beyond a queue's maximum, and YARN still decides what is granted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from math import inf
from typing import Protocol, Union

from yarnam.core.admission.entitlement import entitlement, for_yarn_to_place, lead_of
from yarnam.core.admission.job_ticket import asked_demands
from yarnam.core.admission.places_ahead import HeadReservation, PlacesAhead
from yarnam.core.admission.queue_lines import arrival
from yarnam.core.admission.reservations import Reservation, ReservationLedger
from yarnam.core.admission.wait_queue import (
    QueueSnapshot,
    WaitQueue,
    exceeds_maximum,
    exceeds_user_limit,
    is_silent,
    queues_of,
    sum_of_demands,
    wait_queue,
)
from yarnam.core.model.ids import NodeId
from yarnam.core.model.plans import NoFit, PlacementPlan, Rung
from yarnam.core.model.printable import duration
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.core.model.tickets import AdmissionDecision, Admitted, Demand, MustWait, Ticket

ACCUMULATE_WITHIN_S = 30.0
"""A head that asks before its gang fits holds GPUs idle for up to this long: well within the
default ``gang.hold_timeout`` of 120 s."""


class Planner(Protocol):
    """The planner for one job on one snapshot: pure. ``avoid``: nodes to exclude besides those
    that the job may not use. ``blind``: take all that is in use as free."""

    def __call__(
        self, avoid: tuple[NodeId, ...] = (), *, blind: bool = False
    ) -> PlacementPlan | NoFit: ...


MayKeepClear = Callable[[Collection[NodeId]], bool]
"""``False`` means no plan without these nodes has a rung that keeps clear of them
(``clear_rungs``)."""


def _always(avoid: Collection[NodeId]) -> bool:
    del avoid
    return True


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask YARN for this plan now."""

    plan: PlacementPlan
    ticket: Ticket
    """The job's ticket as the others must see it from now on: with just what the plan asks for."""
    admitted: Admitted
    is_claim: bool = False
    """Others hold what it asks for, and YARN is to take it from them."""


Decision = Union[Ask, MustWait, NoFit]
"""A NoFit: the gang can never fit, so there is nothing to wait for."""


def decide(
    me: Ticket,
    seen: QueueSnapshot,
    plan: Planner,
    *,
    may_fit: bool = True,
    excluded: Collection[NodeId] = (),
    may_claim: bool = True,
    explain: bool = True,
    may_keep_clear: MayKeepClear = _always,
) -> Decision:
    """The one admission decision, of the ApplicationMaster and of the simulator.

    Args:
        me: the job's ticket, as it waits: in the smallest containers that it may be cut into.
        seen: the data that all jobs share; its snapshot is the one that ``plan`` plans on.
        plan: called last, since it costs the most; again with nodes to avoid where others go first.
        may_fit: False if it is known without a plan that the gang does not fit now.
        excluded: nodes that the job has learnt to avoid. They count for its own decision only: its
            ticket has only its user's exclusions.
        may_claim: with False it waits for free GPUs even if it is entitled to others
            (``entitlement.ClaimHistory``).
        explain: with False the reason why the first in the queue waits does not include for how
            long, which takes most of its decision's time.
        may_keep_clear: asked before ``plan`` where only such rungs will do: False saves that plan.
    """
    mine = replace(me, excluded=tuple(sorted({*me.excluded, *excluded}))) if excluded else me
    decision = _within_what_is_free(
        me, mine, seen, plan, may_fit=may_fit, explain=explain, may_keep_clear=may_keep_clear
    )
    is_waiting = isinstance(decision, MustWait)
    claim = entitlement(mine, seen) if is_waiting and may_claim else ""
    if not claim:
        return decision
    blind = plan(blind=True)
    if isinstance(blind, NoFit):
        return decision
    claimed = for_yarn_to_place(blind)
    claimed = replace(claimed, lead=lead_of(claimed, mine, seen))
    return replace(_ask(me, Admitted(claim, is_accumulating=True), claimed), is_claim=True)


def _within_what_is_free(
    me: Ticket,
    mine: Ticket,
    seen: QueueSnapshot,
    plan: Planner,
    *,
    may_fit: bool,
    explain: bool,
    may_keep_clear: MayKeepClear,
) -> Decision:
    """``mine``: the job's ticket with the nodes that it has learnt to avoid."""
    if may_fit:
        # Where the smallest containers have to wait, all others have to.
        admission = admit(mine, seen, fits_now=True)
        if isinstance(admission, MustWait) and admission.ahead:
            return admission
        outcome = plan()
        if isinstance(outcome, PlacementPlan):
            asking = replace(mine, demands=_demands_of(outcome))
            if asking != mine:
                admission = admit(asking, seen, fits_now=True)
            return (
                admission
                if isinstance(admission, MustWait)
                else _around(me, admission, seen, outcome, plan, may_keep_clear)
            )
        if outcome.is_never:
            return outcome
    admission = admit(mine, seen, fits_now=False, explain=explain)
    if isinstance(admission, MustWait):
        return admission
    blind = plan(blind=True)
    return (
        MustWait(0, me, admission.reason)
        if isinstance(blind, NoFit)
        else _ask(me, admission, blind)
    )


def _around(
    me: Ticket,
    admission: Admitted,
    seen: QueueSnapshot,
    outcome: PlacementPlan,
    plan: Planner,
    may_keep_clear: MayKeepClear,
) -> Decision:
    """Where others go first the gang is planned again around them, by rungs that leave YARN no
    choice if there are any."""
    if not admission.avoid:
        return _ask(me, admission, outcome)
    if not admission.is_strict or may_keep_clear(admission.avoid):
        around = plan(admission.avoid)
        if isinstance(around, PlacementPlan):
            clear = clear_rungs(around, admission.avoid, seen.snapshot)
            if clear is not None or not admission.is_strict:
                return _ask(me, admission, clear or around)
    ahead = wait_queue(me, seen).ahead_of(me)
    head = ahead[0] if ahead else me
    reason = "only nodes reserved for other jobs have room"
    return MustWait(len(ahead), head, reason, is_reserved=True)


def _ask(me: Ticket, admission: Admitted, plan: PlacementPlan) -> Ask:
    asked = asked_demands(
        target for ask in plan.rungs[0].asks for target in repeat(ask.target, ask.count)
    )
    ticket = replace(me, demands=asked, is_acquiring=True, blocked_reason="")
    return Ask(plan, ticket, admission)


def _demands_of(plan: PlacementPlan) -> tuple[Demand, ...]:
    """The requests of the first rung, regardless of place."""
    return tuple(Demand(ask.target.resources, ask.count) for ask in plan.rungs[0].asks)


# ---- who is admitted -----------------------------------------------------------------------


def admit(
    me: Ticket, seen: QueueSnapshot, *, fits_now: bool, explain: bool = True
) -> AdmissionDecision:
    """Whether the holder of ``me`` may ask now. ``fits_now`` is the planner's word on this job's
    whole gang on the same snapshot, its queue's maximum included. ``explain`` as for ``decide``."""
    queue = wait_queue(me, seen)
    ahead = queue.ahead_of(me)
    full = _full(me, seen.snapshot)
    if full:
        return MustWait(len(ahead), ahead[0] if ahead else me, full)
    if not ahead:
        return _admit_first(me, seen, fits_now=fits_now, explain=explain)
    if not fits_now:
        return MustWait(len(ahead), ahead[0], f"its {_gpus(me)} are not free")
    return _admit_behind(me, ahead, queue, seen)


def _admit_first(
    me: Ticket, seen: QueueSnapshot, *, fits_now: bool, explain: bool
) -> AdmissionDecision:
    """No job is ahead of it. But grants that are dealt out to two gangs in turn would complete
    neither, and other jobs may already hold what they have requested."""
    if fits_now:
        ledger = open_ledger(me, seen)
        beside = ledger.contested_nodes(me)
        if not beside or ledger.reserve(me, closed=beside) is not None:
            return Admitted("first in the queue, and its gang fits", avoid=tuple(sorted(beside)))
        if ledger.reserve(me) is not None:
            return Admitted("first in the queue, and its gang fits")
        return MustWait(0, me, "free GPUs are already requested by other jobs")
    has_strangers, expected = unknown_gpus(seen) > 0, ""
    if has_strangers or explain:
        soonest = open_ledger(me, seen).soonest_for(me, seen.running, seen.now_s, seen.gangs_on)
        is_soon = soonest.is_declared and soonest.ready_at_s <= seen.now_s + ACCUMULATE_WITHIN_S
        if is_soon and has_strangers:
            reason = f"first in the queue; the rest of its {_gpus(me)} will be free soon"
            return Admitted(reason, is_accumulating=True)
        expected = _expected(soonest, seen.now_s)
    return MustWait(0, me, f"first in the queue; its {_gpus(me)} are not free{expected}")


def _admit_behind(
    me: Ticket, ahead: Sequence[Ticket], queue: WaitQueue, seen: QueueSnapshot
) -> AdmissionDecision:
    """Its gang fits now: does it still, beside all that comes first?"""
    now_s = seen.now_s
    places = _places_ahead(me, ahead, queue, seen)
    taken = MustWait(len(ahead), ahead[0], "the free GPUs are needed by the jobs ahead of it")
    if not places.requested.could_reserve(me):
        return taken
    kept = places.kept
    closed = kept.closed_to(me, now_s) if kept else frozenset[NodeId]()
    if kept is not None and closed and not places.requested.could_reserve(me, closed=closed):
        return _must_wait_for(kept, ahead, now_s)
    ledger, first = places.left_by(ahead, now_s)
    avoid = ledger.contested_nodes(me) | closed
    if ledger.holds(me, closed=avoid):
        is_strict = bool(closed) and kept is not None and kept.is_strict
        reason = _why(kept, me, ahead, now_s)
        return Admitted(reason, is_backfill=True, avoid=tuple(sorted(avoid)), is_strict=is_strict)
    if kept is None or not closed:
        # Those ahead that are to take these GPUs may be kept from them by the reservation.
        return replace(taken, head=first or ahead[0], is_reserved=kept is not None)
    return _must_wait_for(kept, ahead, now_s)


def _must_wait_for(kept: HeadReservation, ahead: Sequence[Ticket], now_s: float) -> MustWait:
    """Its gang fits on the reserved nodes only."""
    expected = _expected(kept.reservation, now_s)
    reason = f"nodes are reserved for {_who(kept.head)}{expected}; too little is left beside them"
    return MustWait(len(ahead), kept.head, reason, is_reserved=True)


def reserve_for_head(
    head: Ticket, ledger: ReservationLedger, queue: WaitQueue, seen: QueueSnapshot
) -> HeadReservation:
    """The nodes for a head that does not fit on what is left."""
    soonest = ledger.soonest_for(head, seen.running, seen.now_s, seen.gangs_on)
    return HeadReservation(head, soonest, queue.is_firm, queue.is_strict)


def _places_ahead(
    me: Ticket, ahead: Sequence[Ticket], queue: WaitQueue, seen: QueueSnapshot
) -> PlacesAhead:
    """Where all look at one moment, and see the same order, those that others have worked out."""
    shared = seen.places if queue.position is not None and not me.is_acquiring else None
    if shared and shared[0].is_before(ahead):
        return shared[0]
    made = PlacesAhead(
        open_ledger(me, seen), queue.head, partial(reserve_for_head, queue=queue, seen=seen)
    )
    if shared is not None:
        shared[:] = [made]
    return made


def open_ledger(me: Ticket, seen: QueueSnapshot) -> ReservationLedger:
    """The capacity that is free beside the requests of all other jobs."""
    if seen.requested is not None and not me.is_acquiring:
        return seen.requested.copy()
    others = [
        ticket
        for ticket in seen.tickets
        if ticket.job != me.job and not is_silent(ticket, seen.now_s)
    ]
    return requested(ReservationLedger(seen.snapshot), others)


def requested(ledger: ReservationLedger, tickets: Iterable[Ticket]) -> ReservationLedger:
    """The ledger, with what all these have requested reserved in it. Grants that the snapshot shows
    already are counted twice, for the moment that an acquisition takes: too careful, never too
    bold."""
    for ticket in sorted((one for one in tickets if one.is_acquiring), key=arrival):
        ledger.reserve_what_fits(ticket)
    return ledger


def unknown_gpus(seen: QueueSnapshot) -> int:
    """GPUs in use by jobs that take no tickets, and so may take those that come free."""
    used = sum(node.used.gpus for node in seen.snapshot.nodes if node.is_usable)
    known = sum(gang.gpus for gang in seen.running)
    known += sum(ticket.gpus for ticket in seen.tickets if ticket.is_acquiring)
    return max(0, used - known)


def clear_rungs(
    plan: PlacementPlan, avoid: Collection[NodeId], snapshot: ClusterSnapshot
) -> PlacementPlan | None:
    """The plan with only those rungs whose targets cannot land on any of these nodes, however YARN
    places them; None when there is no such rung. A rack is named to YARN as a whole, so a rack with
    one of them is out."""
    if not avoid:
        return plan
    nodes = frozenset(avoid)
    racks = {node.rack for node in snapshot.nodes if node.node_id in nodes}

    def keeps_clear(rung: Rung) -> bool:
        return all(ask.target.keeps_clear_of(nodes, racks) for ask in rung.asks)

    rungs = tuple(rung for rung in plan.rungs if keeps_clear(rung))
    return replace(plan, rungs=rungs) if rungs else None


def _full(me: Ticket, snapshot: ClusterSnapshot) -> str:
    queue = snapshot.queue
    if queue.name != me.queue:
        queue = queues_of(snapshot).get(me.queue, queue)
    if queue.name != me.queue or not exceeds_maximum(me, queue):
        return ""
    need = sum_of_demands(me)
    if exceeds_user_limit(me, queue, need):
        used = queue.used_by_user(me.user)
        return (
            f"{me.user} uses {used} of queue {queue.name}, of which one user may have "
            f"{queue.user_limit}"
        )
    left = queue.headroom
    if left is not None and queue.maximum is not None:
        left = None if queue.maximum.minus(queue.used).fits_in(left) else left
    if left is not None:
        return f"the queues above {queue.name} have {left} left within their maximum"
    return f"queue {queue.name} uses {queue.used} of its maximum of {queue.maximum}"


def _why(kept: HeadReservation | None, me: Ticket, ahead: Sequence[Ticket], now_s: float) -> str:
    if kept is None:
        others = f" and {len(ahead) - 1} more" if len(ahead) > 1 else ""
        return f"fits beside {_who(ahead[0])}{others}"
    return _why_bypassed(kept, me, now_s)


def _why_bypassed(kept: HeadReservation, me: Ticket, now_s: float) -> str:
    """Why the job may ask, if it bypasses the head."""
    if not kept.may_be_bypassed_by(me, now_s):
        return f"beside the nodes reserved for {_who(kept.head)}"
    if me.duration_s is not None:
        return f"it ends before {_who(kept.head)} can start"
    left_s = kept.reservation.ready_at_s - now_s
    return f"{_who(kept.head)} is not expected to start within {left_s:.0f} s"


def _expected(soonest: Reservation, now_s: float) -> str:
    if soonest.ready_at_s == inf:
        return ""
    return f" (expected in {duration(soonest.ready_at_s - now_s)})"


def _gpus(ticket: Ticket) -> str:
    return f"{ticket.gpus} GPUs" if ticket.gpus else f"{ticket.tasks} tasks"


def _who(ticket: Ticket) -> str:
    return f"{ticket.job} ({_gpus(ticket)})"
