"""Two-dimensional attained service in discretized queues (Gu et al., "Tiresias", NSDI 2019). Needs
no run times: a job starts in the first queue and falls to the next when its attained service (GPUs
times seconds executed) reaches the limit between them; queues are served in turn, each first come
first served. A job that has waited ``promote`` times as long as it had been executed goes back to
the first queue.

The public simulator computes the next demotion as (limit - executed) / GPUs, where limit is in
GPU-seconds and executed in seconds. Here both are GPU-seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

from yarnam.core.fits.service_distribution import QueueIndex
from yarnam.core.model.tickets import PolicyTicket
from yarnam.core.policies.policy_settings import LEAST_PAUSE, LEAST_RUN, Setting, Settings
from yarnam.core.policies.policy_ticket import Arrival, arrival
from yarnam.core.policies.schedule import Schedule
from yarnam.core.policies.scheduling_policy import Policy
from yarnam.core.policies.scheduling_view import SchedulingView
from yarnam.core.policies.serving import gpus_of, pinned, preemptive

LIMITS = Setting(
    "limits", (3250.0, 7200.0), 1.0, 1e12,
    "Attained service at which a job falls to the next queue.", "GPU-s",
    is_list=True, is_ascending=True,
)  # fmt: skip
PROMOTE = Setting(
    "promote", (8.0,), 0.0, 1e6,
    "Promote a job to the first queue after it has waited this multiple of its run time "
    "(0 disables).",
)  # fmt: skip

SLACK_S = 1e-6
"""Services that differ by less, as gang time, are equal: sums of floating point numbers are not
exact."""

EQUAL_S = 1e-3
"""Times that differ by less are equal, so that arrival decides; where jobs poll, times within one
poll are equal (``SchedulingView.late_s``)."""


class _Rank(NamedTuple):
    """Where a job stands: orders all jobs, the least first."""

    queue: int
    less_index: float
    """The index with a minus: the largest comes first."""
    position: tuple[float, float]
    arrival: Arrival


_AHEAD, _NEXT, _BEHIND = 0.0, 1.0, 2.0
"""Ranks within a queue: running jobs, jobs suspended from it, and jobs demoted into it."""


def decide(view: SchedulingView, settings: Settings) -> Schedule:
    return discretized(view, settings, ())


def discretized(
    view: SchedulingView, settings: Settings, indices: Sequence[QueueIndex]
) -> Schedule:
    """The rule of ``tiresias`` and ``gittins``. ``indices`` orders the jobs of each queue before
    their places in it, the largest first; empty for none."""
    limits, now_s, knob = settings["limits"], view.now_s, settings["promote"][0]
    least_run_s = settings["least_run"][0]
    promoted = promotions(view, knob)
    ranks: dict[str, _Rank] = {}
    next_change_s = inf
    for ticket in view.tickets:
        counted = 0.0 if ticket.job in promoted else ticket.counted(now_s)
        attained = counted + SLACK_S * ticket.gpus
        queue = bisect_right(limits, attained)
        lower = limits[queue - 1] if queue else 0.0
        position = _position(ticket, lower, view, least_run_s)
        index = 0.0
        if indices:
            # Who falls is where the queue begins, however late that is seen.
            falls = queue and position[0] == _BEHIND
            index = indices[queue].value(lower if falls else attained)
        ranks[ticket.job] = _Rank(queue, -index, position, arrival(ticket))
        if knob and queue and not ticket.is_running:
            next_change_s = min(next_change_s, _promoted_at_s(ticket, knob))
    order = sorted(view.tickets, key=lambda one: ranks[one.job])

    def explain(ticket: PolicyTicket) -> str:
        service = 0.0 if ticket.job in promoted else ticket.counted(now_s)
        anew = ", anew after its long wait" if ticket.job in promoted else ""
        queue = ranks[ticket.job].queue
        return (
            f"queue {queue + 1} of {len(limits) + 1}{anew}: {gpus_of(ticket)}, "
            f"attained service {service:.0f} GPU-s"
        )

    found = preemptive(
        order,
        view,
        pinned(view, least_run_s),
        explain,
        next_change_s=next_change_s,
        least_pause_s=settings["least_pause"][0],
        promoted=promoted,
    )
    change_s = _falls_at_s(view, found, ranks, limits, indices, least_run_s)
    return replace(found, next_change_s=min(found.next_change_s, change_s))


def _falls_at_s(
    view: SchedulingView,
    found: Schedule,
    ranks: Mapping[str, _Rank],
    limits: Sequence[float],
    indices: Sequence[QueueIndex],
    least_run_s: float,
) -> float:
    """When the first of those that run falls, to the next queue or by its index behind one that
    waits in the same."""
    waiting: dict[int, list[float]] = {}
    if indices:
        for job, one in ranks.items():
            if job not in found.gpus:
                waiting.setdefault(one.queue, []).append(-one.less_index)
    first_s = inf
    for ticket in found.order:
        if ticket.job not in found.gpus:
            continue
        queue, less_index, _, _ = ranks[ticket.job]
        counted = 0.0 if ticket.job in found.promoted else ticket.counted(view.now_s)
        if queue < len(limits):
            first_s = min(first_s, view.now_s + (limits[queue] - counted) / ticket.gpus)
        bound = max((one for one in waiting.get(queue, ()) if one <= -less_index), default=0.0)
        if bound and ticket.can_suspend:
            at = indices[queue].below(counted + SLACK_S * ticket.gpus, bound)
            began_s = ticket.since_s if ticket.is_running else view.now_s
            falls_s = view.now_s + (at - counted) / ticket.gpus
            first_s = min(first_s, max(falls_s, began_s + least_run_s))
    return first_s


def promotions(view: SchedulingView, knob: float) -> frozenset[str]:
    """Jobs that have waited ``knob`` times as long as they had been executed."""
    if not knob:
        return frozenset()
    return frozenset(
        one.job
        for one in view.tickets
        if not one.is_running and one.counted_gpu_s and view.now_s >= _promoted_at_s(one, knob)
    )


def _promoted_at_s(ticket: PolicyTicket, knob: float) -> float:
    return ticket.since_s + knob * ticket.counted_gpu_s / ticket.gpus


def _position(
    ticket: PolicyTicket, limit: float, view: SchedulingView, least_run_s: float
) -> tuple[float, float]:
    """The place in its queue, which begins at ``limit``. Running jobs come before waiting ones,
    ordered by when they started or were demoted into the queue. Among the waiting jobs the one
    suspended last comes first: it was served before the others. A demoted job goes behind all
    others, from its demotion until the decision can have taken effect (``SchedulingView.late_s``,
    and the time that its own stop takes)."""
    gpus, began_s = ticket.gpus, ticket.since_s
    step_s = view.late_s or EQUAL_S
    if limit and ticket.started_gpu_s + SLACK_S * gpus < limit:
        fell_s = began_s + (limit - ticket.counted_gpu_s) / gpus
        late_s = SLACK_S + (view.late_s + ticket.pause_cost_s if view.late_s else 0.0)
        ran_s = (ticket.counted(view.now_s) - ticket.started_gpu_s) / gpus
        falls_after_s = max(least_run_s, (limit - ticket.started_gpu_s) / gpus)
        if ran_s <= falls_after_s + late_s:
            return _BEHIND, round(fell_s / step_s)
        if ticket.is_running:
            began_s = max(began_s, fell_s)
    if ticket.is_running:
        return _AHEAD, round(began_s / step_s)
    if ticket.service_gpu_s:
        return _NEXT, -round(ticket.since_s / step_s)
    return _BEHIND, ticket.submitted_at_s


POLICY = Policy(
    "tiresias",
    "The least attained service first, in a few queues; needs no run times.",
    (LIMITS, PROMOTE, LEAST_RUN, LEAST_PAUSE),
    decide,
    suspends=True,
)
