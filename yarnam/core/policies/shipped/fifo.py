"""First come, first served."""

from __future__ import annotations

from yarnam.core.model.tickets import PolicyTicket
from yarnam.core.policies.policy_settings import Setting, Settings
from yarnam.core.policies.schedule import Schedule
from yarnam.core.policies.scheduling_policy import Policy
from yarnam.core.policies.scheduling_view import SchedulingView
from yarnam.core.policies.serving import gpus_of, running_first, serve, waiting_of


def decide(view: SchedulingView, settings: Settings) -> Schedule:
    """Start jobs by arrival; ``skip`` lets later jobs start while the first does not fit."""
    skips = bool(settings["skip"][0])
    waiting = waiting_of(view)
    order, taken, left = running_first(view, waiting)
    taken.update(serve(waiting, left, stops_at_first=not skips))
    first = next((one for one in waiting if one.job not in taken), None)

    def explain(ticket: PolicyTicket) -> str:
        if ticket.job in taken:
            return "it runs" if ticket.is_running else "first come, first served: its gang fits"
        if skips or first is None or ticket.job == first.job:
            return f"its {gpus_of(ticket)} are not free"
        return f"{first.job} ({gpus_of(first)}) came first and does not fit yet"

    return Schedule(order, taken, left, explain)


POLICY = Policy(
    "fifo",
    "First come, first served.",
    (Setting("skip", (0.0,), 0, 1, "1: later jobs may start while the first does not fit."),),
    decide,
)
