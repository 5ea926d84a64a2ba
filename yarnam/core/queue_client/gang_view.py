"""The part of a gang's state that the wait queue is about."""

from __future__ import annotations

from dataclasses import dataclass, replace

from yarnam.core.admission.job_ticket import asked_demands
from yarnam.core.gang import Gang
from yarnam.core.gang.policy import SizePolicy
from yarnam.core.gang.state import MemberState
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_status import Phase
from yarnam.core.model.tickets import Demand

HOLDING_PHASES = frozenset(
    {Phase.CHECKING, Phase.STAGING, Phase.LAUNCHING, Phase.RUNNING, Phase.STOPPING}
)
"""The whole gang has been granted, and holds its containers."""


@dataclass(frozen=True, slots=True)
class GangView:
    phase: Phase
    attempt: int
    is_pre_run: bool = False
    is_yielding: bool = False
    """Suspended by the policy of its queue."""
    is_sized_by_policy: bool = False
    missing: tuple[Demand, ...] = ()
    """The containers that have been asked for and not granted."""
    gpus: int = 0
    nodes: tuple[tuple[NodeId, int], ...] = ()
    """GPUs that it holds, by node."""
    since_s: float = 0.0
    gpus_per_task: int = 0
    """GPUs of a task of the elastic role, in its present containers; 0 before it has any."""
    ends_at_s: float | None = None
    """The end by the program's own count of steps; ``None`` if unknown."""

    @property
    def is_suspended(self) -> bool:
        """Suspended by the policy, which alone has it continue."""
        return self.phase is Phase.SUSPENDED and self.is_yielding


END_SLACK, LEAST_SLACK_S = 0.1, 5.0
"""A new prediction that differs from the shown one by less than this part of the time left is not
shown: each change is a write to ZooKeeper, which all who wait read."""


def settled_end_s(shown_s: float | None, predicted_s: float | None, now_s: float) -> float | None:
    """The end to show, given the one that is shown."""
    if shown_s is None or predicted_s is None:
        return predicted_s
    slack_s = max(LEAST_SLACK_S, END_SLACK * max(0.0, predicted_s - now_s))
    return shown_s if abs(predicted_s - shown_s) < slack_s else predicted_s


def gang_view(
    gang: Gang, size: SizePolicy | None = None, ends_at_s: float | None = None
) -> GangView:
    """``ends_at_s``: by the program's own count of steps, if its gang runs."""
    phase = gang.phase
    view = GangView(
        phase, gang.attempt, gang.is_pre_run, gang.is_yielding, gang.size_request.is_by_policy
    )
    if phase in {Phase.ACQUIRING, Phase.REPLACING}:
        missing = (m.target for m in gang.members if m.state is MemberState.ASKED)
        return replace(view, missing=asked_demands(missing))
    if phase not in HOLDING_PHASES:
        return view
    held = [member for member in gang.everyone if member.is_holding]
    role = size.role if size is not None else ""
    sizes = (m.target.resources.gpus for m in gang.members if m.target.role == role)
    return replace(
        view,
        gpus=sum(member.target.resources.gpus for member in held),
        nodes=gang.gpus_by_node,
        since_s=gang.since_s,
        gpus_per_task=next(sizes, 0),
        ends_at_s=ends_at_s if phase is Phase.RUNNING and not gang.is_pre_run else None,
    )
