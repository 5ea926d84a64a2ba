"""Time slices (Xiao et al., "Gandiva", OSDI 2018): where jobs outnumber GPUs, they take turns, by
suspend and resume. A slice is as long as it must be to keep the measured cost of a pause under
``cost_share`` of the time. While no job waits, elastic gangs grow into idle GPUs, and a gang that
is spread over more nodes than it needs moves, if it still has ``move_after`` times the cost to
run."""

from __future__ import annotations

from math import inf

from yarnam.core.model.tickets import PolicyTicket
from yarnam.core.policies.policy_settings import Setting, Settings
from yarnam.core.policies.policy_ticket import arrival, by_priority
from yarnam.core.policies.schedule import Schedule
from yarnam.core.policies.scheduling_policy import Policy
from yarnam.core.policies.scheduling_view import Capacity, SchedulingView
from yarnam.core.policies.serving import gpus_of, settled_first

SETTINGS = (
    Setting("slice", (60.0,), 1.0, 86400.0, "The shortest slice.", "s"),
    Setting(
        "cost_share", (0.05,), 0.001, 0.5,
        "Of the GPU time at most this share goes into suspending and resuming.",
    ),
    Setting(
        "move_after", (20.0,), 1.0, 1e6,
        "Move a gang to fewer nodes if it still runs, or has run, this multiple of its cost.",
    ),
)  # fmt: skip


def decide(view: SchedulingView, settings: Settings) -> Schedule:
    now_s = view.now_s
    ends = {one.job: one.since_s + slice_s(one, settings) for one in view.tickets if one.is_running}
    running = [one for one in view.tickets if one.is_running]
    inside = [one for one in running if not one.can_suspend or ends[one.job] > now_s]
    over = [one for one in running if one.can_suspend and ends[one.job] <= now_s]
    waiting = [one for one in view.tickets if not one.is_running]
    inside.sort(key=lambda one: (one.since_s, *arrival(one)))
    over.sort(key=lambda one: (one.since_s, *arrival(one)))
    # The job that has waited longest is next; the one suspended last goes to the end.
    waiting.sort(key=lambda one: (one.since_s, *arrival(one)))
    capacity = view.capacity.emptied()
    taken = {one.job: one.smallest for one in inside if capacity.take(one, one.smallest)}
    blocked: PolicyTicket | None = None
    in_turn = by_priority([*waiting, *over], now_s)
    for ticket in in_turn:
        # Nobody behind one that does not fit starts: with a slice of his own he would keep its
        # GPUs for that long.
        if blocked is not None and not ticket.is_running:
            continue
        if capacity.take(ticket, ticket.smallest):
            taken[ticket.job] = ticket.smallest
        elif not ticket.is_running:
            blocked = ticket
    is_contended = any(one.job not in taken for one in view.tickets)
    if not is_contended:
        _grow(running, taken, capacity)
    running.sort(key=arrival)
    order = [*inside, *in_turn]
    # A running job stays where it is, unless a job whose turn it is fits only there.
    taken, left = settled_first(view, ((*running, *waiting), taken), (order, taken))
    moved = frozenset[str]() if is_contended else _moved(view, settings, running, taken)
    next_change_s = inf
    if is_contended:
        coming = [ends[one.job] for one in inside if one.can_suspend]
        starting = [one for one in waiting if one.job in taken and one.can_suspend]
        coming += [now_s + slice_s(one, settings) for one in starting]
        next_change_s = min(coming, default=inf)

    def explain(ticket: PolicyTicket) -> str:
        if ticket.job in moved:
            return f"its gang moves from {ticket.nodes} nodes to fewer"
        if ticket.job not in taken:
            if blocked is not None and ticket.job == blocked.job:
                return f"next in turn; its {gpus_of(ticket)} are not free yet"
            return "others are in their slice" if not ticket.is_running else "its slice is over"
        if ticket.is_running and ticket in inside:
            return f"in its slice of {slice_s(ticket, settings):.0f} s"
        return (
            "its turn" if not ticket.is_running else "its slice is over, but nobody needs its GPUs"
        )

    return Schedule(order, taken, left, explain, next_change_s, moved=moved)


def slice_s(ticket: PolicyTicket, settings: Settings) -> float:
    """A slice is long enough for its pause to cost no more than its share."""
    return max(settings["slice"][0], ticket.pause_cost_s / settings["cost_share"][0])


def _grow(running: list[PolicyTicket], taken: dict[str, int], capacity: Capacity) -> None:
    """Idle GPUs for the elastic gangs that run: each gets back what it had, then the smallest
    grow."""
    elastic = sorted((one for one in running if one.is_elastic), key=arrival)
    for target in ("had", "most"):
        for ticket in elastic:
            most = ticket.gpus if target == "had" else ticket.most_gpus
            more = min(most - taken[ticket.job], capacity.free_gpus)
            if more > 0 and capacity.take(ticket, more):
                taken[ticket.job] += more


def _moved(
    view: SchedulingView,
    settings: Settings,
    running: list[PolicyTicket],
    taken: dict[str, int],
) -> frozenset[str]:
    """At most one gang at a time moves: the one that gives up the most nodes."""
    best: tuple[int, str] | None = None
    for ticket in sorted(running, key=arrival):
        if not ticket.can_suspend or ticket.nodes < 2 or taken[ticket.job] != ticket.gpus:
            continue
        left_s = ticket.left_s(view.now_s)
        worth_s = view.now_s - ticket.since_s if left_s is None else left_s
        if worth_s < settings["move_after"][0] * ticket.pause_cost_s:
            continue
        fewest = view.capacity.least_nodes(ticket)
        if fewest and fewest < ticket.nodes and (best is None or ticket.nodes - fewest > best[0]):
            best = ticket.nodes - fewest, ticket.job
    return frozenset() if best is None else frozenset({best[1]})


POLICY = Policy(
    "gandiva",
    "Time slices for more jobs than GPUs; gangs move together, and grow into idle GPUs.",
    SETTINGS,
    decide,
    suspends=True,
    resizes=True,
)
