"""The activity of a running gang's processes, as observed from outside and as they report it."""

from __future__ import annotations

from dataclasses import dataclass

from yarnam.core.model.ids import AskId
from yarnam.core.model.outcomes import Finding


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective operation of a process, as its framework recorded it."""

    group: str
    """The process group's name."""
    operation: str
    state: str
    """``scheduled``, ``started`` or ``completed`` (torch)."""
    number: int
    """The sequence number within the group, the same in all of its processes."""

    @property
    def words(self) -> str:
        """``nccl:all_reduce 127 of group 0 (started)``."""
        return f"{self.operation} {self.number} of group {self.group} ({self.state})"


@dataclass(frozen=True, slots=True)
class RankActivity:
    """The activity of one process. Times in seconds."""

    ask: AskId
    rank: int
    step: int | None = None
    """The last training step that it reported, if any."""
    step_age_s: float = 0.0
    """The time since it reported that step."""
    step_s: float | None = None
    """The median duration of its steps; ``None`` while too few without a pause are known."""
    has_stepped: bool = False
    """It has reported some steps, even if all of them held pauses: more are expected."""
    has_ended: bool = False
    """The process has ended; others of its task still run."""
    pause: str = ""
    """The reason it gives for not stepping now; empty while steps are expected."""
    is_stopped: bool = False
    """The process is stopped by a signal (SIGSTOP)."""
    idle_s: float = 0.0
    """How long the process and its children have used no CPU and have read, written and printed
    nothing."""
    stack: tuple[str, ...] | None = None
    """The stack at the last dump, innermost function first; empty if it could not be read, ``None``
    without a dump."""
    collective: Collective | None = None
    """The last collective that it had begun by then; ``None`` if none was recorded."""
    raised: Finding | None = None
    """The failure of its own that its output had shown by then, if any."""
    raised_age_s: float = 0.0
    """The time since it printed that failure."""
