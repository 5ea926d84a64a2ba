"""Metrics that agents report of the processes of a gang, and their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from yarnam.core.model.ids import AskId

Measured = NewType("Measured", float)
"""A value from the training code: its loss may be NaN or infinite. All other numbers are finite."""

RESTORED_STEP = "restored_step"
"""The metric by which the SDK reports the step that it has restored (``yarnam.train``)."""

RESUMED_STEP = "resumed_step"
"""The same, in every later report as well."""
SAVED_STEP = "saved_step"
"""The metric by which the SDK reports the step of the newest checkpoint that it has saved."""
SAVING_S = "saving_s"
"""The metric by which it reports how long the training has stood still for saving."""
COMPUTE_S, STEP_S, MEASURED_STEPS = "median_compute_s", "median_step_s", "measured_steps"
"""The metrics by which it reports how long a step takes, how much of that the process computes on
its own (medians of its last steps), and how many steps it has measured."""
REQUESTED_GPUS = "requested_gpus"
"""The metric by which it reports how many GPUs the program wants its gang to have; 0 for no
change."""
NOTEBOOK_IDLE_S = "notebook_idle_s"
"""The metric by which the program beside a notebook's server reports for how long nobody has used
it; 0 while a kernel is busy or a client is connected."""
EPOCH = "epoch"
"""The metric by which the program, or the SDK's inputs, say in which epoch the training is."""
LOSS_NAMES = ("loss", "train_loss")
"""Names of metrics that are shown as the loss; the first one that a job reports counts."""
SDK_METRICS = frozenset(
    {
        RESTORED_STEP,
        RESUMED_STEP,
        SAVED_STEP,
        SAVING_S,
        COMPUTE_S,
        STEP_S,
        MEASURED_STEPS,
        REQUESTED_GPUS,
        NOTEBOOK_IDLE_S,
    }
)
"""Metrics for the ledger, the size and the search for stragglers, not for people."""

CPU_CORES, MEMORY_BYTES = "cpu_cores", "memory_bytes"
READ_RATE, WRITE_RATE = "read_bytes_per_s", "written_bytes_per_s"
GPU_PERCENT, GPU_MEMORY_BYTES = "gpu_percent", "gpu_memory_bytes"
GPU_WATTS = "gpu_watts"
LOG_BYTES = "log_bytes"
USAGE_METRICS = (
    *(CPU_CORES, MEMORY_BYTES, READ_RATE, WRITE_RATE, LOG_BYTES, GPU_PERCENT, GPU_MEMORY_BYTES),
    GPU_WATTS,
)
"""The metrics that the agent itself measures of a process and its children; of their GPUs if NVML
is available. They travel with the metrics that the process reports, and replace those of the same
names."""

MAX_LOG_BYTES = 256 << 20
"""The largest log that is read from what YARN has aggregated: it is held in memory."""


@dataclass(frozen=True, slots=True)
class MirrorReport:
    """The newest set of files that a task has kept of ``checkpoint.mirror``; ``number`` is 0 before
    the first one. ``size`` in bytes, ``saved_at_s`` since the epoch."""

    number: int = 0
    files: int = 0
    size: int = 0
    saved_at_s: float = 0.0
    trouble: str = ""
    """Why newer files are not kept."""


@dataclass(frozen=True, slots=True)
class AgentMetrics:
    """The last report of one process. ``rank`` is global; ``at_s`` is in seconds since the
    epoch."""

    ask: AskId
    rank: int
    at_s: float
    step: int | None
    total_steps: int | None
    values: tuple[tuple[str, Measured], ...]
    attempt: int = 0
    """The gang attempt that the process belongs to; 0 from an older agent."""
    mirror: MirrorReport | None = None
    """Set for the first process of a task that keeps sets of files."""
