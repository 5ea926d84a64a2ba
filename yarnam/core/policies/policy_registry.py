"""The policies that there are, and the one function that decides by them."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

from yarnam.core.model.tickets import POLICY_RULES, PolicyTicket
from yarnam.core.policies import shipped
from yarnam.core.policies.policy_settings import Settings, read_settings
from yarnam.core.policies.schedule import Schedule
from yarnam.core.policies.scheduling_policy import Policy
from yarnam.core.policies.scheduling_view import SchedulingView
from yarnam.core.policies.serving import running_first, serve, waiting_of
from yarnam.errors import UsageError

MODULES = {
    "smallest-first": "smallest_first",
    "fifo": "fifo",
    "fifo-backfill": "fifo_backfill",
    "srtf": "shortest_time",
    "srsf": "shortest_service",
    "tiresias": "tiresias",
    "gittins": "gittins",
    "gandiva": "gandiva",
    "optimus": "optimus",
    "themis": "themis",
}
"""The module of ``shipped`` for each name."""

NAMES = tuple(MODULES)
DEFAULT = "smallest-first"


def policy_named(name: str) -> Policy:
    """Raises UsageError: there is none of that name."""
    module = MODULES.get(name)
    if module is None:
        close = get_close_matches(name, NAMES, n=1)
        hint = f"Did you mean {close[0]}? " if close else ""
        raise UsageError(
            f"unknown policy {name[:60]!a}", hint=f"{hint}Policies: {', '.join(NAMES)}"
        )
    found: Policy = import_module(f"{shipped.__name__}.{module}").POLICY
    return found


def decide(
    policy: Policy,
    view: SchedulingView,
    settings: Settings | None = None,
    *,
    settings_version: int = 0,
) -> Schedule:
    """The schedule that every job computes. If jobs are of several versions of yarnam, or know
    several versions of the queue's settings (``settings`` are complete, by ``read_settings``), all
    of them start by arrival and none is suspended: every version knows that rule, and each decision
    names it."""
    mixed = _why_mixed(view.tickets, settings_version)
    if mixed:
        return by_arrival(view, mixed)
    return policy.decide(view, settings or read_settings(policy.name, policy.settings, {}))


def by_arrival(view: SchedulingView, why: str) -> Schedule:
    """First come, first served, passing over what does not fit."""
    waiting = waiting_of(view)
    order, taken, left = running_first(view, waiting)
    taken.update(serve(waiting, left))
    return Schedule(order, taken, left, lambda ticket: f"by arrival: {why}")


def _why_mixed(tickets: Sequence[PolicyTicket], settings_version: int) -> str:
    if any(one.rules != POLICY_RULES for one in tickets):
        return "jobs of several versions of yarnam are in the queue"
    if any(one.settings_version != settings_version for one in tickets):
        return "not all jobs know the queue's new policy yet"
    return ""
