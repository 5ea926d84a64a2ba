"""Decide whether the GPUs of a running gang idle, and what they probably wait for.

NVML reports for each GPU the share of time in which a kernel ran. A small share is a fact; its
cause is inferred from what the processes do meanwhile. A collective of NCCL is a kernel that spins,
so ranks that wait for each other in NCCL look busy here; ranks that wait in gloo or in the program
do not.

Only time in which steps are expected counts. Where the program reports its steps
(``yarnam.train``), that is from its second step on, outside its pauses: evaluations, compilations,
checkpoints. Where it does not, the window is long enough to cover any usual start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from yarnam.core.model.outcomes import IdleCause, IdleGpus

IDLE_PERCENT = 20.0
"""The GPUs idle below this share of time, averaged over the gang. Jobs on Microsoft's cluster
averaged 52 % (Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters", ATC 2019), so less
than 20 % is unusual. The limit is our own choice."""

BUSY_PERCENT = 30.0
"""Idle GPUs count as busy again from this share on: with a single limit the verdict would flap."""

WINDOW_S = 300.0
"""The window of the average: the short end of an epoch and single slow reads do not count. The
length is our own choice."""

UNREPORTED_WINDOW_S = 1800.0
"""The window where the program does not report its steps: compiling, loading a model or evaluating
for less than that does not count as idle."""

LEAST_GAP_S = 5.0
"""A longer time between two observations counts as this much: what happened in between is
unknown."""

OWN_SHARE = 0.5
"""If the ranks compute on their own for less of a step than this share, the other ranks and the
network take the larger part."""

BUSY_CORES = 0.7
"""Cores in use per process: a process that prepares its input on the CPU uses at least one, now and
then."""

READ_BYTES_PER_S = 8 * 2.0**20
"""The read rate per process: a lower rate does not keep a GPU waiting for input, unless the input
is small. The limit is our own choice."""


@dataclass(frozen=True, slots=True)
class RankUse:
    """The resources that one process uses now, and its progress in steps."""

    gpu_percent: float
    cpu_cores: float = 0.0
    read_bytes_per_s: float = 0.0
    is_paused: bool = False
    has_steps: bool = False
    """The process has measured a step."""
    own_share: float | None = None
    """The share of a step that the rank computes on its own, 0 to 1; ``None`` if not reported."""


@dataclass(frozen=True, slots=True)
class IdleGpuWatch:
    """The state of one attempt between two observations. The sums are integrals over time."""

    looked_at_s: float | None = None
    span_s: float = 0.0
    gpu_percent: float = 0.0
    cpu_cores: float = 0.0
    read_bytes_per_s: float = 0.0
    own_share: float = 0.0
    own_share_s: float = 0.0
    reported: IdleGpus | None = None
    """The last verdict; ``None`` if the GPUs are busy, or before the first window ends."""


def watch_idle_gpus(watch: IdleGpuWatch, ranks: Sequence[RankUse], now_s: float) -> IdleGpuWatch:
    """Add one observation. ``reported`` is decided anew at the end of each window.

    Args:
        ranks: the ranks with measured GPUs; empty if there are none, or not all processes run.
    """
    before_s, watch = watch.looked_at_s, replace(watch, looked_at_s=now_s)
    if before_s is None or not ranks or any(rank.is_paused for rank in ranks):
        return watch
    steps = [rank.has_steps for rank in ranks]
    if any(steps) and not all(steps):
        return watch  # Some ranks have not begun.
    watch = _with(watch, ranks, min(LEAST_GAP_S, max(0.0, now_s - before_s)))
    if watch.span_s < (WINDOW_S if all(steps) else UNREPORTED_WINDOW_S):
        return watch
    idle = _judged(watch, len(ranks))
    return IdleGpuWatch(looked_at_s=now_s, reported=idle)


def _with(watch: IdleGpuWatch, ranks: Sequence[RankUse], for_s: float) -> IdleGpuWatch:
    each_s = for_s / len(ranks)
    shares = [rank.own_share for rank in ranks if rank.own_share is not None]
    has_shares = len(shares) == len(ranks)
    return replace(
        watch,
        span_s=watch.span_s + for_s,
        gpu_percent=watch.gpu_percent + each_s * sum(rank.gpu_percent for rank in ranks),
        cpu_cores=watch.cpu_cores + each_s * sum(rank.cpu_cores for rank in ranks),
        read_bytes_per_s=watch.read_bytes_per_s
        + each_s * sum(rank.read_bytes_per_s for rank in ranks),
        own_share=watch.own_share + (each_s * sum(shares) if has_shares else 0.0),
        own_share_s=watch.own_share_s + (for_s if has_shares else 0.0),
    )


def _judged(watch: IdleGpuWatch, ranks: int) -> IdleGpus | None:
    """Decide at the end of a window. A report keeps its figures while its likely cause stays the
    same, so that the journal does not fill up with them."""
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
