"""Follows the losses that the program reports: its predicted end, and whether the loss is
flat. An ApplicationMaster that is killed begins anew with what is reported from then on."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from yarnam.core.gang import Gang
from yarnam.core.model.events import LossFlat
from yarnam.core.model.job_spec import StopEarlySpec
from yarnam.core.model.job_status import FlatLoss, Phase, PredictedEnd
from yarnam.core.model.metrics import LOSS_NAMES, AgentMetrics
from yarnam.core.policies.fits.predicted_end import FALL, LossSeries, predicted_end
from yarnam.ports import Clock, Inbox

log = logging.getLogger("yarnam.am")

FIT_EVERY_S = 30.0
"""A prediction takes 30 ms of the ApplicationMaster's only thread. Ours."""


class LossWatcher:
    """``poll`` is to be called at each look at the gang, every second or two. ``stop_early`` None:
    a flat loss is told, no more."""

    def __init__(self, stop_early: StopEarlySpec | None, clock: Clock, inbox: Inbox) -> None:
        self._stop_early = stop_early
        self._clock = clock
        self._inbox = inbox
        self._series = LossSeries()
        self._next_fit_s = 0.0
        self._stopped = 0
        """The attempt that was stopped for its loss."""
        self.predicted_end: PredictedEnd | None = None

    def poll(self, gang: Gang, metrics: Sequence[AgentMetrics]) -> None:
        if gang.phase is not Phase.RUNNING or gang.is_pre_run:
            return
        mine = [one for one in metrics if one.attempt == gang.attempt]
        lead = min((one for one in mine if one.step is not None), key=_rank, default=None)
        if lead is None or lead.step is None:
            return
        values = dict(lead.values)
        loss = next((values[name] for name in LOSS_NAMES if name in values), None)
        if loss is not None:
            self._series = self._series.add(lead.step, float(loss), lead.at_s)
        now_s = self._clock.now_s()
        if now_s < self._next_fit_s:
            return
        self._next_fit_s = now_s + FIT_EVERY_S
        within = FALL if self._stop_early is None else self._stop_early.within
        had = self.predicted_end.flat if self.predicted_end is not None else None
        self.predicted_end = predicted_end(
            self._series, lead.total_steps or None, now_s, within=within
        )
        flat = self.predicted_end.flat if self.predicted_end is not None else None
        if flat is not None and had is None:
            log.warning("%s", flat.words)
        self._stop(gang, flat, now_s)

    def _stop(self, gang: Gang, flat: FlatLoss | None, now_s: float) -> None:
        rule = self._stop_early
        if rule is None or flat is None or flat.lasted_s < rule.flat_for_s:
            return
        if self._stopped != gang.attempt:
            self._stopped = gang.attempt
            self._inbox(LossFlat(now_s, gang.attempt, flat.words))


def _rank(metrics: AgentMetrics) -> int:
    return metrics.rank
