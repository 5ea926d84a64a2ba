"""The planner: from a snapshot and a job to a ladder of placements, or to the reason why not."""

from yarnam.core.placement.planner import declared_targets, ladder_for_submit, plan

__all__ = ["declared_targets", "ladder_for_submit", "plan"]
