"""How the processes of a gang stop after the same step.

A process that calls ``train.should_stop(step)`` writes where it is, and then looks for the stop
file. So once that file is there, no process gets further than its next call, and where it has been
last gives the least step after which it can stop. The largest of these of the whole gang is the
step that all stop after; the ApplicationMaster knows it as soon as all agents have answered, and
the stop file says it then. The processes that have come to a call meanwhile wait there.

The preemption sync point of TensorFlow's coordination service, which JAX uses, works alike.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

GIVE_UP_S = 3.0
"""From the order to agree until the processes are stopped without: less than ``yarnam.train`` waits
for, and much less than YARN gives between its notice and the kill (15 s)."""

POLL_S = 0.02
"""How often it is seen whether the processes have come to the step."""

_POSITION = struct.Struct("<qB")
_GOES_ON, _WAITS, _STOPS = range(3)


class StopStep(NamedTuple):
    """The least step after which the processes of a task can stop; ``None`` if it is unknown."""

    least: int | None


@dataclass
class StopFile:
    """What asks the processes of one launch to end: ``yarnam.train`` looks for it."""

    path: Path
    _facts: dict[str, object] = field(default_factory=dict)

    def write(
        self, reason: str, grace_s: float, *, agree: bool = False, at_step: int | None = None
    ) -> None:
        """Complete when it appears. The first reason and the first time stay, and so does the end
        of an agreement. Raises OSError.

        ``agree``: the processes wait for the step to stop after; ``at_step``: that step.
        """
        if self._facts and not self._facts["agree"]:
            return
        now = {"reason": reason, "grace_s": grace_s, "asked_at_s": time.time()}
        facts = {**now, **self._facts, "agree": agree or at_step is not None}
        if at_step is not None:
            facts["at_step"] = at_step
        draft = self.path.with_name(f"{self.path.name}.draft")
        draft.write_text(json.dumps(facts), encoding="utf-8")
        draft.replace(self.path)
        self._facts = facts


def position_file(stop_file: Path, local_rank: int) -> Path:
    """Where a process says how far it is."""
    return stop_file.with_name(f"{stop_file.name}.{local_rank}")


def least_step(stop_file: Path, local_ranks: Iterable[int]) -> int | None:
    """The least step that all these processes can stop after, once the stop file is there; ``None``
    if one of them does not report where it is."""
    least: int | None = None
    for local_rank in local_ranks:
        position = _position(stop_file, local_rank)
        if position is None:
            return None
        step, state = position
        # One that continues has passed that step, or is about to see the file and to wait there.
        needed = step if state == _WAITS else step + 1
        least = needed if least is None else max(least, needed)
    return least


def have_come(stop_file: Path, local_ranks: Iterable[int]) -> bool:
    """Whether all these processes have come to the step, and know that they are to stop."""
    positions = [_position(stop_file, local_rank) for local_rank in local_ranks]
    return all(position is not None and position[1] == _STOPS for position in positions)


def _position(stop_file: Path, local_rank: int) -> tuple[int, int] | None:
    try:
        step, state = _POSITION.unpack(position_file(stop_file, local_rank).read_bytes())
    except (OSError, struct.error):
        return None
    # The step reaches the other nodes as an int64.
    return (step, state) if -(2**62) < step < 2**62 else None
