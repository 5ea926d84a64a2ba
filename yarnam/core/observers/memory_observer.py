"""Warns when a container comes close to its memory limit: at the limit YARN kills it, and the
gang loses the steps since its last checkpoint."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from yarnam.core.model.ids import AskId
from yarnam.core.model.metrics import MEMORY_BYTES
from yarnam.core.observers.observer import NOTHING, Observation, View, condition, condition_observer

NAME = "memory"

WARN_SHARE, CLEAR_SHARE = 0.9, 0.8
"""Shares of the limit. YARN looks every 3 s (``yarn.nodemanager.container-monitor.interval-ms``)
and kills at the whole, so the last tenth is what an allocation between two looks may take. Ours."""

AGENT_BYTES = 64 * 2**20
"""The agent's own process counts against the container too; 60 MB is the most it takes."""


@dataclass(frozen=True, slots=True)
class MemoryWatch:
    attempt: int = 0
    task: str = ""
    """The task that was reported; empty while none is close to its limit."""


@dataclass(frozen=True, slots=True)
class _Use:
    share: float
    task: str
    text: str


def observe(state: MemoryWatch, view: View) -> tuple[MemoryWatch, Observation]:
    gang = view.gang
    if not view.is_training:
        return state, NOTHING
    if state.attempt != gang.attempt:
        state = MemoryWatch(gang.attempt)
    uses = sorted(_uses(view), key=lambda use: -use.share)
    worst = uses[0] if uses else None
    if worst is None or worst.share < (CLEAR_SHARE if state.task else WARN_SHARE):
        if worst is None or not state.task:
            return state, NOTHING
        return MemoryWatch(gang.attempt), condition(NAME, view, "")
    if any(use.task == state.task and use.share >= CLEAR_SHARE for use in uses):
        return state, NOTHING  # Its figures change at every look; one report is enough.
    others = sum(use.share >= WARN_SHARE for use in uses) - 1
    more = f"; {others} more {'task is' if others == 1 else 'tasks are'} as close" if others else ""
    return MemoryWatch(gang.attempt, worst.task), condition(NAME, view, worst.text + more)


def _uses(view: View) -> list[_Use]:
    """The memory of each task whose processes all report theirs."""
    used: dict[AskId, float] = defaultdict(float)
    reports: dict[AskId, int] = defaultdict(int)
    for metrics in view.metrics:
        bytes_used = dict(metrics.values).get(MEMORY_BYTES)
        if bytes_used is not None and 0 <= bytes_used < float("inf"):
            used[metrics.ask] += bytes_used
            reports[metrics.ask] += 1
    uses: list[_Use] = []
    for member in view.started:
        if reports[member.ask] < member.target.processes_per_task:
            continue
        limit = member.target.resources.memory_mib * 2**20
        total = used[member.ask] + AGENT_BYTES
        node = f" on {member.grant.node}" if member.grant is not None else ""
        role = member.target.role
        text = (
            f"{member.name}{node} uses {total / 2**30:.3g} of {limit / 2**30:.3g} GiB of memory "
            f"({total / limit:.0%}); YARN kills the container at its limit. Raise "
            f"roles.{role}.memory (memory_per_gpu in a spec with gpus)"
        )
        uses.append(_Use(total / limit, member.name, text))
    return uses


MEMORY = condition_observer(NAME, "", MemoryWatch(), observe)
