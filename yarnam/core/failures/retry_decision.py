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
    """The budget that pays for a retry."""

    NONE = "none"
    """The job is not retried."""
    FREE = "free"
    RESTARTS = "restarts"
    LARGER = "larger"
    """A free retry, as long as the containers can be enlarged."""
    USER = "user"


@dataclass(frozen=True, slots=True)
class RetryState:
    """The remaining budgets and the job's progress. Times in seconds."""

    restarts_left: int
    user_retries_left: int
    free_left_s: float
    """How much longer free retries are allowed."""
    stuck: int
    """Failures in a row, including this one, that got no further than the one before; 0 if
    unknown."""
    step: int | None
    """The furthest step that the job has reached."""
    leaves_out_inputs: bool
    """The job's policy leaves out corrupt inputs."""
    has_more_memory: bool
    """The next containers can be larger."""


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """``why`` explains the decision to the reader of the verdict; empty if the class is enough."""

    budget: RetryBudget
    why: str = ""


def decide_retry(action: RetryAction, state: RetryState) -> RetryDecision:
    """Decide on a retry after a failure whose rule asks for ``action``."""
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
