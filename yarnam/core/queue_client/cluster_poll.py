"""One poll of the cluster for one job: the snapshot, and the planner on it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Union

from yarnam.core.admission import Planner
from yarnam.core.admission.decision import MayKeepClear, clear_rungs
from yarnam.core.model.ids import NodeId
from yarnam.core.model.plans import NoFit, PlacementPlan
from yarnam.core.model.snapshot import ClusterSnapshot

PlanOutcome = Union[PlacementPlan, NoFit]


def _always(avoid: Collection[NodeId]) -> bool:
    del avoid
    return True


@dataclass(frozen=True, slots=True)
class ClusterPoll:
    """Times in seconds; ``asked_at_s`` is by the clock of the job's ApplicationMaster."""

    snapshot: ClusterSnapshot
    plan: Planner
    """The planner on this snapshot. It keeps its answer to the plain question."""
    fits: bool
    """``False``: the whole gang does not fit now, for the reason in ``refusal``. ``True`` may still
    turn out to be wrong once the planner has been asked."""
    refusal: NoFit | None = None
    excluded: frozenset[NodeId] = frozenset()
    """Nodes that the job may not use at all."""
    may_keep_clear: MayKeepClear = _always
    asked_at_s: float = 0.0
    took_s: float = 0.0

    @property
    def outcome(self) -> PlanOutcome:
        """The planner's answer."""
        return self.refusal if self.refusal is not None else self.plan()

    def without(self, closed: frozenset[NodeId]) -> ClusterPoll:
        """The same poll for a gang that does not use these nodes, by rungs that leave YARN no
        choice if there are any. They may be open to it later."""

        def plan(avoid: tuple[NodeId, ...] = (), *, blind: bool = False) -> PlanOutcome:
            plan = self.plan((*avoid, *sorted(closed)), blind=blind)
            if isinstance(plan, NoFit):
                return replace(plan, is_never=False)
            return clear_rungs(plan, closed, self.snapshot) or plan

        return replace(self, plan=plan, excluded=self.excluded | closed)
