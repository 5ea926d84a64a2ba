"""A row of the gang machine's table."""

from __future__ import annotations

from dataclasses import dataclass

from yarnam.model.events import (
    AgentSilent,
    AgentUnable,
    ContainerEnded,
)
from yarnam.model.status import Phase


@dataclass(frozen=True, slots=True)
class Transition:
    """In ``phase``, one of ``events`` under ``condition`` does ``operation`` and leads to one of
    ``to`` (``phase`` itself: stays, with changed members)."""

    phase: Phase
    events: tuple[type, ...]
    condition: str
    operation: str
    to: tuple[Phase, ...]


TROUBLE = (ContainerEnded, AgentUnable, AgentSilent)
ENDS_IF_LAST = "with nobody left to stop, concludes at once"
CONCLUDED = {
    Phase.LAUNCHING: (Phase.BACKING_OFF, Phase.FAILED, Phase.ACQUIRING),
    Phase.RUNNING: (Phase.BACKING_OFF, Phase.FAILED, Phase.ACQUIRING, Phase.LAUNCHING),
}
"""Where a gang may go that has nobody left to stop."""
