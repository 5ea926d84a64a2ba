"""Which checkpoints stay. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hdfs_utils.checkpoints.format.layout import CheckpointName


@dataclass(frozen=True, slots=True)
class Best:
    """Keep the checkpoints with the best values of a metric.

    Attributes:
        metric: its name in ``save(metrics=...)``.
        mode: ``min`` or ``max``.
        keep: how many.
    """

    metric: str
    mode: str = "min"
    keep: int = 1

    def __post_init__(self) -> None:
        if self.mode not in ("min", "max"):
            raise ValueError(f"the best is the min or the max, not the {self.mode!r}")
        if self.keep < 1:
            raise ValueError(f"keep at least 1 of the best, not {self.keep}")


@dataclass(frozen=True, slots=True)
class Retention:
    """The checkpoints that a save keeps. It deletes the others afterwards.

    Attributes:
        keep: how many of the newest whole checkpoints stay.
        every: the first checkpoint of each stretch of this many steps stays (0 disables).
        best: those that stay for their metric.
    """

    keep: int = 3
    every: int = 0
    best: Best | None = None

    def __post_init__(self) -> None:
        if self.keep < 1:
            message = f"keep must be at least 1, not {self.keep}: the last one is never deleted"
            raise ValueError(message)
        if self.every < 0:
            raise ValueError(f"every must be at least 0 steps, not {self.every}")


@dataclass(frozen=True, slots=True)
class RetentionCandidate:
    """A whole checkpoint, as far as retention is concerned."""

    name: CheckpointName
    metrics: Mapping[str, float] = field(default_factory=dict)


def kept(
    checkpoints: Sequence[RetentionCandidate], retention: Retention
) -> dict[CheckpointName, str]:
    """Which of the whole checkpoints stay, each with the reason. The newest is always among them.

    Asking again after the others were deleted gives the same answer.
    """
    newest_first = sorted(checkpoints, key=lambda checkpoint: checkpoint.name.order, reverse=True)
    reasons: dict[CheckpointName, list[str]] = {}
    for checkpoint in newest_first[: retention.keep]:
        reasons.setdefault(checkpoint.name, []).append(f"one of the last {retention.keep}")
    if retention.every:
        first: dict[int, RetentionCandidate] = {}
        # The lowest step of each stretch; of several saves of that step the newest.
        for checkpoint in sorted(newest_first, key=lambda checkpoint: checkpoint.name.step):
            first.setdefault(checkpoint.name.step // retention.every, checkpoint)
        for checkpoint in first.values():
            reasons.setdefault(checkpoint.name, []).append(f"one of each {retention.every} steps")
    if retention.best:
        for checkpoint in _best(newest_first, retention.best):
            why = f"best {retention.best.metric}"
            reasons.setdefault(checkpoint.name, []).append(why)
    return {name: ", ".join(why) for name, why in reasons.items()}


def _best(newest_first: Sequence[RetentionCandidate], best: Best) -> list[RetentionCandidate]:
    """Of equals the newest. A value that is not a number is never the best."""
    sign = 1 if best.mode == "min" else -1
    rated = [
        checkpoint
        for checkpoint in newest_first
        if best.metric in checkpoint.metrics and not math.isnan(checkpoint.metrics[best.metric])
    ]
    return sorted(rated, key=lambda checkpoint: sign * checkpoint.metrics[best.metric])[: best.keep]
