"""The task as sessions see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class SessionTask(NamedTuple):
    """``environments``: those of its processes, by local rank; empty while none runs."""

    is_interactive: bool
    environments: Sequence[Mapping[str, str]]
    directory: Path
    log_directory: Path
    processes: Sequence[tuple[int, Path]] = ()
    """The id, 0 once it has ended, and the log of each, by local rank."""
