"""The schedule of one YARN queue, computed from data that all its ApplicationMasters share, and its
consequence for one job. Pure: the ApplicationMaster and the simulator's model of YARN
(``sim.gangs.policy_planner``) both decide by it.

A policy orders the jobs of its queue and no others. It distributes the GPUs that they hold and the
free ones, within the queue's maximum. Between queues the admission decision stays: a job that the
policy has run still asks only when ``admission.decide`` lets it.

No job yields while a gang of the queue is being acquired: its containers count twice for a moment,
as granted in the snapshot and as asked for by its ticket.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from yarnam.core.admission import Ask, Decision, Planner, QueueSnapshot
from yarnam.core.admission import decide as decide_admission
from yarnam.core.admission.wait_queue import is_silent, queues_of
from yarnam.core.fits.step_time import fit_speed, untried_speed
from yarnam.core.model.events import (
    SUSPENSION_S,
    Event,
    ResumeRequested,
    ScaleRequested,
    SuspendRequested,
)
from yarnam.core.model.ids import NodeId
from yarnam.core.model.snapshot import ClusterSnapshot, Node
from yarnam.core.model.tickets import HoldState, MustWait, PolicyTicket, RunningGang, Ticket
from yarnam.core.policies.chosen_policy import ActivePolicy
from yarnam.core.policies.gpu_nodes import NodeCapacity, Shape
from yarnam.core.policies.policy_registry import by_arrival, decide
from yarnam.core.policies.policy_ticket import believed
from yarnam.core.policies.schedule import Act, JobDecision, Schedule
from yarnam.core.policies.scheduling_view import SchedulingView

NO_RULES = 0
"""The rules version of a job that reports nothing for policies: its version of yarnam knows none,
or it has not read its queue's policy yet."""

UNTRIED_SHARE = 0.9
"""The share of a step's time that more GPUs divide among them, assumed for a job that has run at
fewer than three sizes: good scaling, so that it is tried. The figure is our own choice."""

RECORD_SLACK_S = 60.0
"""The slack between a job's report and the record, as a part of its gang's time: the
ResourceManager counts a gang's GPUs from each container's grant on, the job from the last
container's. A job that lies gains no more than this. The figure is our own choice."""


RELEASE_S = 10.0
"""How long YARN may show a gang's GPUs in use after it has given them back: its next heartbeat, the
node's, and the age of the jobs' snapshots. The figure is our own choice."""

LATE_S = 30.0
"""A change is decided by the second poll after it, some ten seconds later, and no job yields while
another gang is acquired. The figure is our own choice."""


@dataclass(frozen=True, slots=True)
class QueueSchedule:
    """The rows of all jobs of the queue."""

    schedule: Schedule
    acquiring: str
    """The first of the jobs that are acquiring their gangs, if any."""
    moved: frozenset[str] = frozenset()
    """Jobs that keep running, but for which the schedule counts on other nodes."""

    @property
    def gives_back(self) -> bool:
        """Whether some gang is to yield, shrink or move: no job then claims from other queues the
        GPUs that its own queue gives back, and no job would yield while another claims."""
        gpus = self.schedule.gpus
        running = [one for one in self.schedule.order if one.is_running]
        return any(gpus.get(one.job, 0) < one.gpus or one.job in self.moved for one in running)

    @property
    def interrupted(self) -> frozenset[str]:
        """Jobs that run, and whose row has them stop now: to yield, to move, or for another
        size."""
        if self.acquiring:
            return frozenset()
        gpus, moved = self.schedule.gpus, self.moved | self.schedule.moved
        return frozenset(
            one.job
            for one in self.schedule.order
            if one.is_running and (gpus.get(one.job) != one.gpus or one.job in moved)
        )

    def row(self, job: str) -> JobDecision:
        """The decision for this job. Raises KeyError if it has no ticket."""
        row = self.schedule.of(job)
        if job in self.moved and row.act is Act.RUN:
            row = replace(row, act=Act.MOVE, why="another gang fits only where it runs: it moves")
        if self.acquiring and row.act in {Act.YIELD, Act.MOVE, Act.RESIZE}:
            held = next(ticket.gpus for ticket in self.schedule.order if ticket.job == job)
            why = f"{row.why}; but first {self.acquiring} gets the GPUs that it has asked for"
            return replace(row, act=Act.RUN, gpus=held, why=why)
        return row


def queue_schedule(
    queue: str, seen: QueueSnapshot, active: ActivePolicy, recorded_gpu_s: Mapping[str, float]
) -> QueueSchedule:
    """``seen``: with the job's own ticket or running gang, as the others see it."""
    waiting = [one for one in seen.tickets if one.queue == queue and _counts(one, seen.now_s)]
    gone = {one.job for one in waiting}
    running = [
        gang for gang in seen.running if gang.queue == queue and gang.gpus and gang.job not in gone
    ]
    told = [
        *(_of_ticket(one, seen.now_s) for one in waiting),
        *(_of_gang(gang) for gang in running),
    ]
    now_s = seen.now_s
    least_gpu_s = {
        one.job: recorded_gpu_s[one.job] - RECORD_SLACK_S * one.gpus
        for one in told
        if one.job in recorded_gpu_s
    }
    jobs = [believed(_not_ahead(one, now_s), least_gpu_s, now_s) for one in told]
    capacity = _capacity(queue, seen, waiting, running)
    view = SchedulingView(jobs, capacity, now_s, seen.snapshot, LATE_S)
    if active.policy is None:
        schedule = by_arrival(view, active.trouble)
    else:
        version = active.version
        schedule = decide(active.policy, view, active.settings, settings_version=version)
    acquiring = min((one.job for one in waiting if one.is_acquiring), default="")
    return QueueSchedule(schedule, acquiring, _moved(jobs, capacity, schedule))


def _moved(
    jobs: Sequence[PolicyTicket], before: NodeCapacity, schedule: Schedule
) -> frozenset[str]:
    after = schedule.left
    if not isinstance(after, NodeCapacity):
        return frozenset()
    return frozenset(
        one.job
        for one in jobs
        if one.is_running
        and one.can_suspend
        and schedule.gpus.get(one.job) == one.gpus
        and before.pieces.get(one.job)
        and sorted(after.pieces.get(one.job, ())) != sorted(before.pieces[one.job])
    )


def decide_by_schedule(
    found: QueueSchedule,
    me: Ticket,
    seen: QueueSnapshot,
    plan: Planner,
    *,
    may_fit: bool = True,
    excluded: Collection[NodeId] = (),
    may_claim: bool = True,
    explain: bool = True,
) -> tuple[Decision, JobDecision]:
    """The admission decision of a job whose queue has a policy, and the job's row. ``seen`` has its
    own ticket. Of its own queue the job sees those that the policy runs, in the policy's order; of
    others all."""
    row = found.row(me.job)
    if not row.gpus:
        return _must_wait(me, seen, found.schedule, row), row
    ranks = {one.job: rank for rank, one in enumerate(found.schedule.order, 1)}
    named = found.schedule.gpus
    tickets = [
        _ranked(one, ranks) if one.queue == me.queue else one
        for one in seen.tickets
        if one.queue != me.queue or one.is_acquiring or one.job in named
    ]
    decision = decide_admission(
        _ranked(_waiting(me), ranks),
        replace(seen, tickets=tickets),
        plan,
        may_fit=may_fit,
        excluded=excluded,
        may_claim=may_claim and not found.gives_back,
        explain=explain,
    )
    if isinstance(decision, Ask):
        decision = replace(decision, ticket=replace(decision.ticket, priority=me.priority))
    return decision, row


# ---- carrying out --------------------------------------------------------------------------------


def acts(row: JobDecision, *, is_suspended: bool) -> bool:
    """Whether the job does something by its row: one whose gang runs, or one that its policy has
    suspended."""
    return bool(row.gpus) if is_suspended else row.act in {Act.YIELD, Act.MOVE, Act.RESIZE}


def event_of(
    row: JobDecision,
    by: str,
    now_s: float,
    *,
    is_suspended: bool,
    before: JobDecision | None = None,
    tasks_for: Callable[[int], int] | None = None,
    has_made_way: bool = False,
) -> Event | None:
    """The event for the job's gang machine; ``None`` if the job continues as it is. ``before`` is
    its decision at the last poll: containers that have just been released belong to no job for a
    second or two, so a size counts once two polls agree on it. ``tasks_for`` returns the number of
    tasks that an elastic gang has with this many GPUs. ``has_made_way``: a policy without resizing
    had the gang shrink for a higher priority, so it grows by its own rules afterwards."""
    if not acts(row, is_suspended=is_suspended):
        return ScaleRequested(now_s, by, is_policy=True) if has_made_way else None
    if is_suspended:
        return ResumeRequested(now_s, by, is_policy=True, is_promoted=row.is_promoted)
    if row.act is not Act.RESIZE:
        return SuspendRequested(now_s, by, SUSPENSION_S, row.why, is_policy=True)
    if tasks_for is None or before is None or (before.act, before.gpus) != (row.act, row.gpus):
        return None
    return ScaleRequested(now_s, by, tasks_for(row.gpus), is_policy=True)


def _waiting(me: Ticket) -> Ticket:
    """The ticket once the job asks."""
    return replace(me, blocked_reason="", is_acquiring=False)


def _ranked(ticket: Ticket, ranks: Mapping[str, int]) -> Ticket:
    """Give the ticket its rank in the policy: the admission decision orders by priority."""
    rank = ranks.get(ticket.job, len(ranks) + 1)
    return replace(ticket, priority=-rank, blocked_reason="")


def _must_wait(me: Ticket, seen: QueueSnapshot, schedule: Schedule, row: JobDecision) -> MustWait:
    by_job = {ticket.job: ticket for ticket in seen.tickets}
    before = [one for one in schedule.order[: row.rank - 1] if not one.is_running]
    head = by_job.get(before[0].job, me) if before else me
    return MustWait(len(before), head, row.why, is_by_policy=True)


# ---- what the policy sees ------------------------------------------------------------------------


def _counts(ticket: Ticket, now_s: float) -> bool:
    """Whether the job waits for its turn. One that is blocked for another reason reports nothing
    for policies, and they do not concern a job without GPUs."""
    if is_silent(ticket, now_s) or not ticket.gpus:
        return False
    return not ticket.blocked_reason or ticket.policy is not None


def _of_ticket(ticket: Ticket, now_s: float) -> PolicyTicket:
    told = ticket.policy or PolicyTicket(ticket.job, 0, ticket.taken_at_s, 0, rules=NO_RULES)
    state = HoldState.WAITING if told.state is HoldState.RUNNING else told.state
    if ticket.is_acquiring:
        # It holds what it gets; of its containers only those that are still to come.
        return replace(
            told, gpus=ticket.gpus, state=HoldState.RUNNING, since_s=now_s, can_suspend=False,
            least_gpus=0, most_gpus=0,
        )  # fmt: skip
    gpus = told.least_gpus if told.is_elastic else ticket.gpus
    if gpus == told.gpus and state is told.state:
        return told
    return replace(told, gpus=gpus, state=state)


def _of_gang(gang: RunningGang) -> PolicyTicket:
    since_s = gang.since_s or 0.0
    told = gang.policy or PolicyTicket(gang.job, 0, since_s, 0, rules=NO_RULES)
    return _with_curve(as_running(told, gang))


def as_running(ticket: PolicyTicket, gang: RunningGang) -> PolicyTicket:
    """Add the GPUs that the job's gang holds. The job that shows the gang does it once, so that
    those that decide need not."""
    if ticket.is_running and (ticket.gpus, ticket.nodes) == (gang.gpus, len(gang.nodes)):
        return ticket
    return replace(ticket, gpus=gang.gpus, state=HoldState.RUNNING, nodes=len(gang.nodes))


def _with_curve(ticket: PolicyTicket) -> PolicyTicket:
    """Add the speed at every size that it may have."""
    if not ticket.is_elastic or not ticket.rates:
        return ticket
    return replace(ticket, rates=_at_all_sizes(ticket.rates, ticket.least_gpus, ticket.most_gpus))


@lru_cache(maxsize=1024)
def _at_all_sizes(
    rates: tuple[tuple[int, float], ...], least_gpus: int, most_gpus: int
) -> tuple[tuple[int, float], ...]:
    """Measured, by the fitted curve, or, of a job that has run at too few sizes for one, by
    ``UNTRIED_SHARE``. They seldom change from one decision to the next."""
    curve = fit_speed(rates)
    if curve is None:
        gpus, rate = rates[-1]
        if rate <= 0 or gpus <= 0:
            return rates
        curve = untried_speed(gpus, rate, UNTRIED_SHARE)
    return tuple(sorted({**dict(curve.rates(least_gpus, most_gpus)), **dict(rates)}.items()))


def _not_ahead(ticket: PolicyTicket, now_s: float) -> PolicyTicket:
    """The clocks of some nodes are ahead of ours."""
    if max(ticket.since_s, ticket.submitted_at_s) <= now_s:
        return ticket
    since_s, submitted_at_s = min(ticket.since_s, now_s), min(ticket.submitted_at_s, now_s)
    return replace(ticket, since_s=since_s, submitted_at_s=submitted_at_s)


def _capacity(
    queue: str, seen: QueueSnapshot, waiting: Sequence[Ticket], running: Sequence[RunningGang]
) -> NodeCapacity:
    """The GPUs that the queue's gangs hold and those that are free, node by node. A running gang
    fits where it runs, whatever the node's state; a gang of unknown place counts as on a node of
    its own. The least used nodes come first, so that no gang moves for one that fits elsewhere."""
    on_node = Counter[NodeId]()
    for gang in running:
        for node, gpus in gang.nodes:
            on_node[node] += gpus
    usable = (node for node in seen.snapshot.nodes if node.is_usable and node.total.gpus)
    nodes = sorted(usable, key=lambda node: (on_node[node.node_id], node.node_id))
    index = {node.node_id: number for number, node in enumerate(nodes)}
    free = [max(0, node.total.gpus - node.used.gpus) for node in nodes]
    given_back = _given_back(seen, waiting, nodes)
    free = [left + given_back[node.node_id] for left, node in zip(free, nodes, strict=True)]
    held = [0] * len(nodes)
    pieces: dict[str, tuple[tuple[int, int, int], ...]] = {}
    for gang in running:
        mine: list[tuple[int, int, int]] = []
        for node, gpus in gang.nodes or ((NodeId(f"@{gang.job}"), gang.gpus),):
            number = index.setdefault(node, len(index))
            if number == len(free):
                free.append(0)
                held.append(0)
            held[number] += gpus
            mine.append((number, gpus, 0))
        pieces[gang.job] = tuple(mine)
    capacity = NodeCapacity(
        [(left + mine, 0) for left, mine in zip(free, held, strict=True)],
        {one.job: _shape(one) for one in waiting},
        barred=_barred(seen.snapshot, waiting, index, frozenset(range(len(nodes), len(index)))),
    )
    capacity.free = [(left, 0) for left in free]
    capacity.pieces = pieces
    asked_by_others = sum(
        one.gpus for one in seen.tickets if one.queue != queue and one.is_acquiring
    )
    room = max(0, sum(free) - asked_by_others)
    headroom = _headroom(seen.snapshot, queue)
    if headroom is not None:
        room = min(room, headroom + given_back.total())
    capacity.free_gpus = room
    capacity.total_gpus = sum(held) + capacity.free_gpus
    for one in sorted((one for one in waiting if one.is_acquiring), key=lambda one: one.job):
        # They are taken, although they look free until all containers have come.
        if not capacity.take(_of_ticket(one, seen.now_s), one.gpus):
            capacity.free_gpus -= min(one.gpus, capacity.free_gpus)
    return capacity


def _given_back(
    seen: QueueSnapshot, waiting: Sequence[Ticket], nodes: Sequence[Node]
) -> Counter[NodeId]:
    """GPUs of gangs that have just been suspended, which YARN still shows in use. They count as
    free for the first in order; otherwise a smaller gang would start on a part of them."""
    gpus = sum(
        one.gpus
        for one in waiting
        if one.policy is not None
        and one.policy.state is HoldState.SUSPENDED
        and seen.now_s - one.policy.since_s <= RELEASE_S
    )
    found = Counter[NodeId]()
    if not gpus:
        return found
    known = Counter[NodeId]()
    for gang in seen.running:
        for node, held in gang.nodes:
            known[node] += held
    unknown = {node.node_id: max(0, node.used.gpus - known[node.node_id]) for node in nodes}
    asked = sum(one.gpus for one in seen.tickets if one.is_acquiring)
    gpus = min(gpus, max(0, sum(unknown.values()) - asked))
    for node, many in unknown.items():
        found[node] = min(many, gpus)
        gpus -= found[node]
    return found


def _headroom(snapshot: ClusterSnapshot, queue: str) -> int | None:
    """How many more GPUs YARN lets the queue have; ``None`` without a limit."""
    view = queues_of(snapshot).get(queue)
    if view is None:
        return None
    limits = [view.headroom.gpus] if view.headroom is not None else []
    if view.maximum is not None:
        limits.append(max(0, view.maximum.gpus - view.used.gpus))
    return min(limits, default=None)


def _shape(ticket: Ticket) -> Shape:
    demands = ticket.demands
    shape = [
        (one.resources.gpus, 0) for one in demands if one.resources.gpus for _ in range(one.count)
    ]
    return sorted(shape, reverse=True) if len(demands) > 1 else shape


def _barred(
    snapshot: ClusterSnapshot,
    waiting: Sequence[Ticket],
    index: Mapping[NodeId, int],
    away: frozenset[int],
) -> dict[str, frozenset[int]]:
    """Nodes that a job may not use, by number; ``away`` are those on which no job can start."""
    barred: dict[str, frozenset[int]] = {}
    for ticket in waiting:
        barred[ticket.job] = away
        if ticket.is_choosy:
            mine = ticket.nodes_of(node for node in snapshot.nodes if node.node_id in index)
            barred[ticket.job] |= {at for node, at in index.items() if node not in mine}
        if ticket.is_acquiring and all(one.nodes or one.racks for one in ticket.demands):
            asked = {node for one in ticket.demands for node in one.nodes}
            racks = {rack for one in ticket.demands for rack in one.racks}
            asked |= {node.node_id for node in snapshot.nodes if node.rack in racks}
            barred[ticket.job] |= {at for node, at in index.items() if node not in asked}
    return barred
