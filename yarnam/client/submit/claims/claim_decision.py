"""Whether the claim of another job still holds. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from yarnam.adapters.yarn.rest_parse import YarnApplication

UNDER_WAY_LIMIT_S = 3600.0
"""How long a submit may take from its claim until YARN has its application: it may pack an
environment and upload gigabytes. A submit that takes longer renews its claim first."""

GONE_LIMIT_S = 10.0
"""How long YARN may take to list an application whose submitter was killed while it asked: as long
as any call of the ResourceManager."""


class ClaimState(Enum):
    """The state of a claim, from its job."""

    HELD = "held"
    """YARN has the job's application, which has not ended."""
    UNDER_WAY = "under way"
    """YARN does not have the application yet."""
    UNSETTLED = "unsettled"
    """The submit was killed; YARN may still list its application."""
    ELSEWHERE = "elsewhere"
    """Only the ResourceManager of another cluster knows whether the job has ended."""
    HIDDEN = "hidden"
    """YARN does not show this user the jobs of others."""
    ENDED = "ended"
    """Another job may have the directory."""


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """Facts about the claim of another job."""

    application: YarnApplication | None
    """``None`` if the ResourceManager has no record of it: not yet, or no longer."""
    is_of_this_cluster: bool
    is_hidden: bool = False
    """Whether the job is another user's, and the ResourceManager shows each user only their own."""
    has_started: bool = False
    """Whether the job's ApplicationMaster is known to have run."""
    is_submitter_gone: bool = False
    waited_s: float = 0.0
    """How long the application has been looked for since the submitter was found dead."""
    age_s: float = 0.0
    """The age of the claim, by the NameNode's clock."""


def state_of(facts: ClaimFacts) -> ClaimState:
    """The state of a claim."""
    if facts.application is not None:
        return ClaimState.ENDED if facts.application.is_over else ClaimState.HELD
    if not facts.is_of_this_cluster:
        return ClaimState.ELSEWHERE
    if facts.is_hidden:
        return ClaimState.HIDDEN
    if facts.has_started:
        return ClaimState.ENDED  # YARN keeps what it runs, and forgets only what has ended.
    if facts.is_submitter_gone:
        is_settled = facts.waited_s >= GONE_LIMIT_S
        return ClaimState.ENDED if is_settled else ClaimState.UNSETTLED
    return ClaimState.ENDED if facts.age_s >= UNDER_WAY_LIMIT_S else ClaimState.UNDER_WAY
