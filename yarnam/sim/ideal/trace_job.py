"""One job of a trace: its demands, and the facts that it reports."""

from __future__ import annotations

from typing import NamedTuple


class TraceJob(NamedTuple):
    """A named tuple: a trace has hundreds of thousands. Times in seconds."""

    job: str
    submit_s: float
    run_s: float
    """The run time on its own ``gpus``, without interruption."""
    gpus: int
    declared_s: float | None = None
    """The run time that its user declared; ``None`` if not declared."""
    queue: str = ""
    user: str = ""
    model: str = ""
    tasks: int = 1
    """Containers of one size; the GPUs are divided among them."""
    vcores: int = 0
    """The cores of all tasks; 0 if only GPUs count."""
    least_gpus: int = 0
    most_gpus: int = 0
    """The largest size of an elastic job; 0 if its gang has one size."""
