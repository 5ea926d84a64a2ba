"""Whether the GPUs of a running gang idle, and what they probably wait for.

NVML says for each GPU in which part of the time a kernel ran. That it is small is certain; the
cause is inferred from what the processes do beside it. A collective of NCCL is a kernel that spins,
so ranks that wait for each other by it look busy here; ranks that wait by gloo or in the program do
not.

Only time in which steps are to be expected counts. Where the program reports its steps
(``yarnam.train``), that is from its second step on and outside of its pauses: evaluations,
compilations, checkpoints. Where it does not, nobody knows, so the window is long enough to hold any
usual start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from yarnam.core.model.outcomes import IdleCause, IdleGpus

IDLE_PERCENT = 20.0
"""Of the time, on average over the gang's GPUs. Jobs on Microsoft's cluster came to 52 % on average
(Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters", ATC 2019), so less than 20 % is
no usual job. Ours."""

BUSY_PERCENT = 30.0
"""GPUs that idled do no longer from here on: around one limit it would change all the time."""

WINDOW_S = 300.0
"""Over which the mean is taken: an epoch's short ends and single slow reads do not count. Ours."""

UNREPORTED_WINDOW_S = 1800.0
"""The same where the program does not report its steps: what compiles, loads a model or evaluates
for less than that is not called idle."""

LEAST_GAP_S = 5.0
"""Longer times between two looks count as so long: what was between them is not known."""

OWN_SHARE = 0.5
"""Of a step that the ranks compute by themselves: with less, the others and the network have the
larger part."""

BUSY_CORES = 0.7
"""Of one core for each process: a process that prepares its input on the CPU uses at least one, now
and then."""

READ_BYTES_PER_S = 8 * 2.0**20
"""For each process: less is no input that keeps a GPU waiting, unless it is small. Ours."""


@dataclass(frozen=True, slots=True)
class RankUse:
    """What one process uses now, and how it steps."""

    gpu_percent: float
    cpu_cores: float = 0.0
    read_bytes_per_s: float = 0.0
    is_paused: bool = False
    has_steps: bool = False
    """It has measured a step."""
    own_share: float | None = None
    """Which part of a step it computes on its own, 0 to 1; ``None`` means it does not say."""


@dataclass(frozen=True, slots=True)
class IdleGpuWatch:
    """What is remembered between two looks, of one attempt. The sums are over time."""

    looked_at_s: float | None = None
    span_s: float = 0.0
    gpu_percent: float = 0.0
    cpu_cores: float = 0.0
    read_bytes_per_s: float = 0.0
    own_share: float = 0.0
    own_share_s: float = 0.0
    reported: IdleGpus | None = None
    """What was found last; ``None`` means the GPUs are busy, or nobody knows yet."""


def watch_idle_gpus(watch: IdleGpuWatch, ranks: Sequence[RankUse], now_s: float) -> IdleGpuWatch:
    """One look: what to remember. ``reported`` is judged anew at the end of each window.

    Args:
        ranks: those whose GPUs are measured; empty means none is, or not all processes run.
    """
    before_s, watch = watch.looked_at_s, replace(watch, looked_at_s=now_s)
    if before_s is None or not ranks or any(one.is_paused for one in ranks):
        return watch
    steps = [one.has_steps for one in ranks]
    if any(steps) and not all(steps):
        return watch  # Some have not begun.
    watch = _with(watch, ranks, min(LEAST_GAP_S, max(0.0, now_s - before_s)))
    if watch.span_s < (WINDOW_S if all(steps) else UNREPORTED_WINDOW_S):
        return watch
    idle = _judged(watch, len(ranks))
    return IdleGpuWatch(looked_at_s=now_s, reported=idle)


def _with(watch: IdleGpuWatch, ranks: Sequence[RankUse], for_s: float) -> IdleGpuWatch:
    each_s = for_s / len(ranks)
    shares = [one.own_share for one in ranks if one.own_share is not None]
    has_shares = len(shares) == len(ranks)
    return replace(
        watch,
        span_s=watch.span_s + for_s,
        gpu_percent=watch.gpu_percent + each_s * sum(one.gpu_percent for one in ranks),
        cpu_cores=watch.cpu_cores + each_s * sum(one.cpu_cores for one in ranks),
        read_bytes_per_s=watch.read_bytes_per_s
        + each_s * sum(one.read_bytes_per_s for one in ranks),
        own_share=watch.own_share + (each_s * sum(shares) if has_shares else 0.0),
        own_share_s=watch.own_share_s + (for_s if has_shares else 0.0),
    )


def _judged(watch: IdleGpuWatch, ranks: int) -> IdleGpus | None:
    """At the end of a window. One that was reported keeps its figures while nothing else is the
    likely cause: the journal is not to be filled with them."""
    percent = watch.gpu_percent / watch.span_s
    known = watch.reported
    if percent >= (IDLE_PERCENT if known is None else BUSY_PERCENT):
        return None
    cores, read = watch.cpu_cores / watch.span_s, watch.read_bytes_per_s / watch.span_s
    share = watch.own_share / watch.own_share_s if watch.own_share_s else None
    if ranks > 1 and share is not None and share < OWN_SHARE:
        cause = IdleCause.COMMUNICATION
    elif cores >= BUSY_CORES or read >= READ_BYTES_PER_S:
        cause = IdleCause.INPUT
    else:
        cause = IdleCause.WAITING
    if known is not None and known.cause is cause:
        return known
    return IdleGpus(percent, watch.span_s, cause, cores, read, share)
