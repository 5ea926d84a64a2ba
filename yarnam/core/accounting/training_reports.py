"""When the journal gets a report of the training's progress."""

from __future__ import annotations

from collections.abc import Sequence

from yarnam.core.model.events import TrainingReported
from yarnam.core.model.metrics import AgentMetrics, MirrorReport

SAVED_PERIOD_S = 10.0
"""The least time between reports of new checkpoints: the loss with an ApplicationMaster is known to
this precision."""

STEP_PERIOD_S = 60.0
"""The least time between reports of new steps alone: a week of training is 10,000 events."""


def lead_mirror(metrics: Sequence[AgentMetrics], attempt: int) -> MirrorReport | None:
    """The report of the lowest rank of this attempt that keeps sets of files."""
    mine = [metric for metric in metrics if metric.attempt == attempt and metric.mirror]
    return min(mine, key=lambda metric: metric.rank).mirror if mine else None


def is_due(last: TrainingReported | None, new: TrainingReported, *, at_once: bool) -> bool:
    """Whether ``new`` is worth an event after ``last``. ``at_once``: something else is written at
    the same time, so any news is."""
    if last is None or last.attempt != new.attempt or last.resumed_step != new.resumed_step:
        return True
    if (last.step, last.saved_step) == (new.step, new.saved_step):
        return False
    since_s = new.at_s - last.at_s
    if last.saved_step != new.saved_step and since_s >= SAVED_PERIOD_S:
        return True
    return at_once or since_s >= STEP_PERIOD_S
