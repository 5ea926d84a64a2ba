"""What is seen of the processes of a running gang, from outside and by their own word."""

from __future__ import annotations

from dataclasses import dataclass

from yarnam.core.model.ids import AskId
from yarnam.core.model.outcomes import Finding


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective operation of a process, as its framework has recorded it."""

    group: str
    """The process group's name."""
    operation: str
    state: str
    """``scheduled``, ``started`` or ``completed`` (torch)."""
    number: int
    """Of the collectives of this group, the same in all of its processes."""

    @property
    def words(self) -> str:
        """``nccl:all_reduce 127 of group 0 (started)``."""
        return f"{self.operation} {self.number} of group {self.group} ({self.state})"


@dataclass(frozen=True, slots=True)
class RankActivity:
    """One process. Times in seconds."""

    ask: AskId
    rank: int
    step: int | None = None
    """The last training step that it reported; ``None`` means it has reported none."""
    step_age_s: float = 0.0
    """Since it reported that step."""
    step_s: float | None = None
    """What its steps usually take (median); ``None`` means too few without a pause are known."""
    has_stepped: bool = False
    """It has reported some steps, if with pauses in all of them: more are to come."""
    has_ended: bool = False
    """Other processes of its task run."""
    pause: str = ""
    """Why it says that no step is to be expected now; empty means one is."""
    is_stopped: bool = False
    """It is stopped by a signal (SIGSTOP)."""
    idle_s: float = 0.0
    """For so long it, and what it has started, has used no CPU, read, written and printed
    nothing."""
    stack: tuple[str, ...] | None = None
    """Where it was at the last dump, innermost function first; empty means nobody could see that.
    ``None`` means there was no dump."""
    collective: Collective | None = None
    """The last one that it had begun by then; ``None`` means nothing has recorded any."""
    raised: Finding | None = None
    """What its output said of a failure of its own by then; ``None`` means nothing."""
    raised_age_s: float = 0.0
    """Since it wrote that."""
