"""Whether a gang is started again after a process of it has failed.

Budgets count attempts *without progress*: who calls sets them back when the gang got further than
ever before. Without steps (a program that reports none) every attempt counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from yarnam.core.model.outcomes import RetryAction

MAX_STUCK = 3
"""Failures in a row that do not get beyond the same step: the fourth try would end there too."""


class RetryBudget(Enum):
    """What a retry is paid from."""

    NONE = "none"
    """There is no retry."""
    FREE = "free"
    RESTARTS = "restarts"
    LARGER = "larger"
    """Free, as often as containers can be enlarged."""
    USER = "user"


@dataclass(frozen=True, slots=True)
class RetryState:
    """What is left, and how far the job is. Times in seconds."""

    restarts_left: int
    user_retries_left: int
    free_left_s: float
    """How long free retries may still continue."""
    stuck: int
    """Failures in a row, with this one, that got no further than the one before; 0 means not
    known."""
    step: int | None
    """The furthest that the job has come."""
    leaves_out_inputs: bool
    """Corrupt inputs are left out by the job's policy."""
    has_more_memory: bool
    """The next containers can be larger."""


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """``why``: in words, for who reads the verdict; empty where the class says it all."""

    budget: RetryBudget
    why: str = ""


def decide_retry(action: RetryAction, state: RetryState) -> RetryDecision:
    """What to do after a failure whose rule asks for ``action``."""
    if action is RetryAction.NEVER:
        return RetryDecision(RetryBudget.NONE)
    if action is RetryAction.FREE and state.free_left_s > 0:
        return RetryDecision(RetryBudget.FREE)
    if action is RetryAction.MORE_MEMORY and state.has_more_memory:
        return RetryDecision(RetryBudget.LARGER)
    if state.stuck >= MAX_STUCK:
        text = f"{state.stuck} failures in a row got no further than step {state.step}"
        return RetryDecision(RetryBudget.NONE, text)
    if action is RetryAction.WITHOUT_INPUT and not state.leaves_out_inputs:
        return RetryDecision(RetryBudget.NONE)
    if action in {RetryAction.ALLOWED, RetryAction.MORE_MEMORY}:
        budget = RetryBudget.USER if state.user_retries_left > 0 else RetryBudget.NONE
        return RetryDecision(budget)
    if state.restarts_left > 0:
        return RetryDecision(RetryBudget.RESTARTS)
    return RetryDecision(RetryBudget.NONE, "all restarts (retry.max_restarts) are used up")
