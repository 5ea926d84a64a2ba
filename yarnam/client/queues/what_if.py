"""The past of a cluster under another allocation file: its jobs through the simulator, once with
each file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.model.job_status import Use
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Node
from yarnam.core.queues.allocations import Allocations
from yarnam.errors import UsageError
from yarnam.sim.sim_settings import Mode, PreemptionSettings, RmSettings, SimSettings
from yarnam.sim.what_if.past_worlds import PastWorld, figures_of_both
from yarnam.sim.what_if.queue_figures import QueueFigures
from yarnam.sim.what_if.replay import PastJob, PastRole, replay

_FAIR = "yarn.scheduler.fair"

RAN = (Use.STARTING, Use.KEPT, Use.CHECKPOINTING, Use.IDLE)
"""What of a job's time it would need again; what it lost, and what it waited, it would not."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The figures of each queue with the one file and with the other."""

    jobs: int
    gpus: int
    """All GPUs of the cluster."""
    span_s: float
    """From the first submission to the last."""
    before: tuple[QueueFigures, ...]
    after: tuple[QueueFigures, ...]


def what_if(
    past: Iterable[PastJob],
    nodes: Iterable[Node],
    before: Allocations,
    after: Allocations,
    settings: Mapping[str, str],
    *,
    seed: int = 7,
    on_end: Callable[[], None] | None = None,
) -> WhatIf:
    """``settings``: those of the ResourceManager's site. ``on_end`` is called for each job that has
    ended in either simulation. Raises UsageError: there is nothing to simulate."""
    machines = tuple(
        replace(node, used=Resources()) for node in nodes if node.is_usable and node.total.gpus
    )
    if not machines:
        raise UsageError("the cluster has no node with GPUs that runs")
    jobs = tuple(past)
    both = tuple(_rm(machines, file, settings) for file in (before, after))
    given = tuple(replay(jobs, rm) for rm in both)
    if not any(one.workload.jobs for one in given):
        raise UsageError(
            "there is no job to simulate"
            + (f": none of {len(jobs)} is of a queue that takes jobs" if jobs else "")
        )
    now, other = (
        PastWorld(one, SimSettings(Mode.TICKETS, seed, rm))
        for one, rm in zip(given, both, strict=True)
    )
    rows = figures_of_both(now, other, on_end)
    times = [job.submitted_at_s for job in jobs]
    return WhatIf(len(jobs), both[0].gpus, max(times) - min(times), *rows)


def _rm(
    machines: tuple[Node, ...], allocations: Allocations, settings: Mapping[str, str]
) -> RmSettings:
    found = RmSettings(
        queues=(),
        root=allocations.root,
        machines=machines,
        assign_multiple=_is_on(settings, "assignmultiple"),
        reservable_nodes=_number(settings, "reservable-nodes", 0.05),
    )
    if not _is_on(settings, "preemption"):
        return found
    usual = PreemptionSettings()
    threshold = _number(settings, "preemption.cluster-utilization-threshold", usual.threshold)
    wait_s = _number(settings, "waitTimeBeforeKill", usual.wait_before_kill_s * 1000.0) / 1000.0
    check_s = (
        _number(settings, "waitTimeBeforeNextStarvationCheck", usual.wait_before_check_s * 1000.0)
        / 1000.0
    )
    taking = PreemptionSettings(threshold, wait_s, check_s)
    return replace(found, preemption=taking)


def _is_on(settings: Mapping[str, str], key: str) -> bool:
    return settings.get(f"{_FAIR}.{key}", "").strip().lower() == "true"


def _number(settings: Mapping[str, str], key: str, usual: float) -> float:
    text = settings.get(f"{_FAIR}.{key}", "")
    try:
        return float(text) if text else usual
    except ValueError as error:
        raise UsageError(f"{_FAIR}.{key} is {text!r}, which is not a number") from error


def half_of_a_gpus_part(nodes: Iterable[Node]) -> Resources:
    """Half of the memory and cores that the nodes have for each GPU: what a task is taken to ask
    for where nobody has told it, so that GPUs are what runs short."""
    whole = Resources()
    for node in nodes:
        if node.total.gpus:
            whole = whole.plus(node.total)
    gpus = max(1, whole.gpus)
    return Resources(whole.memory_mib // gpus // 2, whole.vcores // gpus // 2, 1)


def past_job(record: HistoryRecord) -> PastJob | None:
    """The needs of a job by its record; ``None`` if it never ran."""
    if record.started_at_s is None:
        return None
    run_s = record.ended_at_s - record.started_at_s
    if record.ledger is not None:
        run_s = sum(record.ledger.of(use).wall_s for use in RAN)
    return PastJob(
        queue=record.queue,
        submitted_at_s=record.submitted_at_s,
        run_s=run_s,
        roles=tuple(PastRole(role.name, role.tasks, role.resources) for role in record.roles),
        declared_s=record.declared_s,
    )
