"""One job of a trace: what it needs, and what it tells."""

from __future__ import annotations

from typing import NamedTuple


class TraceJob(NamedTuple):
    """A named tuple: a trace has hundreds of thousands. Times in seconds."""

    job: str
    submit_s: float
    run_s: float
    """On its own ``gpus``, without interruption."""
    gpus: int
    declared_s: float | None = None
    """Its run time as its user declared it; ``None`` means not declared."""
    queue: str = ""
    user: str = ""
    model: str = ""
    tasks: int = 1
    """Containers of one size; the GPUs are divided among them."""
    vcores: int = 0
    """Of all tasks; 0: GPUs are what counts."""
    least_gpus: int = 0
    most_gpus: int = 0
    """Of an elastic job; 0 means its gang has one size."""
