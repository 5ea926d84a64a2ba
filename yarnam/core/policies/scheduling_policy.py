"""A policy: a pure function from tickets, capacity and time to a schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from yarnam.core.policies.policy_settings import Setting, Settings
from yarnam.core.policies.schedule import Schedule
from yarnam.core.policies.scheduling_view import SchedulingView

Decide = Callable[[SchedulingView, Settings], Schedule]


@dataclass(frozen=True, slots=True)
class Policy:
    """A module of ``shipped`` has one, ``POLICY``. ``decide`` is pure: equal arguments, equal
    schedules, whatever the order of the tickets."""

    name: str
    summary: str
    """One sentence, for lists."""
    settings: tuple[Setting, ...]
    decide: Decide
    suspends: bool = False
    """It may suspend jobs that run."""
    resizes: bool = False
    """It may change the size of elastic gangs."""
    starves_nobody: bool = True
    """Every gang that fits the empty cluster runs in the end, however many others come."""
