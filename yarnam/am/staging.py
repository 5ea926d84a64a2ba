"""How far the job's inputs are on their way to the nodes, from what each agent says."""

from __future__ import annotations

from collections.abc import Sequence

from yarnam.gang import Gang
from yarnam.model.status import Phase, StagingStatus, byte_words
from yarnam.ports import AgentStaging

_ON_THE_WAY = frozenset({Phase.ACQUIRING, Phase.LAUNCHING})


def staging_status(gang: Gang, told: Sequence[AgentStaging]) -> StagingStatus | None:
    """Of the gang's present members; None: none of them brings anything."""
    asks = {member.ask for member in gang.everyone}
    mine = [one for one in told if one.ask in asks]
    if not mine:
        return None
    slowest = max(mine, key=_left)
    is_known = all(one.left_s is not None or one.files_done >= one.files for one in mine)
    return StagingStatus(
        files=sum(one.files for one in mine),
        files_done=sum(one.files_done for one in mine),
        size=sum(one.size for one in mine),
        done=sum(one.done for one in mine),
        cached=sum(one.cached for one in mine),
        left_s=slowest.left_s if is_known else None,
        slowest=str(slowest.ask),
        trouble=next((one.trouble for one in mine if one.trouble), ""),
    )


def staging_words(gang: Gang, staging: StagingStatus | None) -> str:
    """For the status line, while it matters; empty: it does not."""
    if staging is None or gang.phase not in _ON_THE_WAY or staging.is_done:
        return ""
    text = f"inputs: {byte_words(staging.done)} of {byte_words(staging.size)}"
    if staging.cached:
        text += f" ({byte_words(staging.cached)} were there)"
    if staging.left_s is not None and staging.left_s >= 1:
        text += f", about {staging.left_s:.0f} s left"
    return f"{text}; {staging.trouble}" if staging.trouble else text


def _left(one: AgentStaging) -> float:
    if one.files_done >= one.files:
        return 0.0
    return float("inf") if one.left_s is None else one.left_s
