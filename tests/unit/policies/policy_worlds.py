"""Tickets and views for tests of policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from yarnam.core.model.tickets import HoldState, PolicyTicket
from yarnam.core.policies.policy_registry import decide, policy_named
from yarnam.core.policies.policy_settings import read_settings
from yarnam.core.policies.schedule import Schedule
from yarnam.core.policies.scheduling_view import GpuCount, SchedulingView


def waiting(job: str, gpus: int, at_s: float = 0.0, **more: Any) -> PolicyTicket:
    number = more.pop("number", int(job.strip("abcdefghijklmnopqrstuvwxyz") or 0))
    ticket = PolicyTicket(job, number, at_s, gpus, since_s=at_s, can_suspend=True)
    return replace(ticket, **more)


def running(job: str, gpus: int, at_s: float = 0.0, **more: Any) -> PolicyTicket:
    return replace(waiting(job, gpus, at_s), state=HoldState.RUNNING, **more)


def suspended(job: str, gpus: int, service_s: float, since_s: float, **more: Any) -> PolicyTicket:
    """Executed for so long, then suspended."""
    served = gpus * service_s
    ticket = waiting(job, gpus, service_gpu_s=served, counted_gpu_s=served)
    return replace(ticket, state=HoldState.SUSPENDED, since_s=since_s, **more)


def view(tickets: Sequence[PolicyTicket], total: int, now_s: float = 0.0) -> SchedulingView:
    held = sum(one.gpus for one in tickets if one.is_running)
    return SchedulingView(tickets, GpuCount(total, total - held), now_s)


def schedule(
    name: str, tickets: Sequence[PolicyTicket], total: int, now_s: float = 0.0, **settings: str
) -> Schedule:
    policy = policy_named(name)
    usual = {one.name: "0" for one in policy.settings if one.name in ("least_run", "least_pause")}
    chosen = read_settings(name, policy.settings, usual | settings)
    return decide(policy, view(tickets, total, now_s), chosen)


def run_by(found: Schedule) -> set[str]:
    return set(found.gpus)
