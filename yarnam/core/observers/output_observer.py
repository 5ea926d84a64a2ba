"""Warns when a process has written more than can be read after the job. Nothing limits its log,
which takes the disk of its node from all others."""

from __future__ import annotations

from dataclasses import dataclass

from yarnam.core.model.metrics import LOG_BYTES, MAX_LOG_BYTES
from yarnam.core.observers.observer import NOTHING, Observation, View, condition, condition_observer

NAME = "output"


@dataclass(frozen=True, slots=True)
class OutputWatch:
    attempt: int = 0
    is_reported: bool = False
    """A log does not shrink: one report is enough."""


def observe(state: OutputWatch, view: View) -> tuple[OutputWatch, Observation]:
    gang = view.gang
    if not view.is_training or (state.is_reported and state.attempt == gang.attempt):
        return state, NOTHING
    sizes = [(dict(metrics.values).get(LOG_BYTES, 0.0), metrics) for metrics in view.metrics]
    large = [(size, metrics) for size, metrics in sizes if MAX_LOG_BYTES < size < float("inf")]
    members = {member.ask: member for member in view.started}
    found = [(size, members[one.ask], one.rank) for size, one in large if one.ask in members]
    if not found:
        return OutputWatch(gang.attempt), NOTHING
    size, member, rank = max(found, key=lambda one: one[0])
    node = f" on {member.grant.node}" if member.grant is not None else ""
    text = (
        f"{member.name} (rank {rank}){node} has written {size / 2**30:.3g} GiB of output; logs of "
        f"more than {MAX_LOG_BYTES / 2**20:.0f} MiB fill the node's disk, and after the job only "
        "`yarn logs` can read them. Print less"
    )
    return OutputWatch(gang.attempt, is_reported=True), condition(NAME, view, text)


OUTPUT = condition_observer(NAME, "", OutputWatch(), observe)
