"""The ranks' reports over time, in bounded memory, for charts and for readers by HTTP. A bounded
record in the job's directory keeps them over the ApplicationMaster's attempts."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

from yarnam.core.model.metrics import SAVED_STEP, SDK_METRICS, STEP_S, AgentMetrics
from yarnam.errors import WireMismatch, YarnamError
from yarnam.ports import StateStore, Superseded
from yarnam.wire.codec import decode, encode
from yarnam.wire.records import KeptSeries, SeriesRecord

log = logging.getLogger("yarnam.web")

MAX_SERIES = 18
"""The most series, all of rank 0 or of the lowest rank that reports."""
MAX_POINTS = 400
"""The most points of one series; a full one loses every other point, and grows at half the rate."""
PACE_S = 10.0
"""A rank's step time is the mean over at least this long, unless the SDK reports it."""

SERIES_FILE = "series.json"
PERIOD_S = 300.0
"""The most of the series that is lost with an ApplicationMaster. A record has at most some 400
KB."""
MAX_BYTES = 4 << 20

STEP_TIME = "step time"


@dataclass(frozen=True, slots=True)
class Series:
    """One metric: pairs of the time (seconds since the epoch) and the value, which is finite."""

    name: str
    points: tuple[tuple[float, float], ...]
    unit: str = ""


class TrainingSeries:
    """Thread-safe. ``sample`` is cheap, and may be called every second for a thousand ranks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._series: dict[str, _BoundedSeries] = {}
        self._paces: dict[int, _Pace] = {}
        self._saved_step: int | None = None

    def sample(self, metrics: Sequence[AgentMetrics]) -> None:
        """Take in the newest report of each rank."""
        stepping = [one for one in metrics if one.step is not None]
        lead = min(stepping or metrics, key=lambda one: one.rank, default=None)
        if lead is None:
            return
        with self._lock:
            # An elastic gang that has shrunk has fewer ranks than before.
            self._paces = {one.rank: self._paces.get(one.rank) or _Pace() for one in stepping}
            for one in stepping:
                self._paces[one.rank].take(one)
            self._take_lead(lead)

    def _take_lead(self, lead: AgentMetrics) -> None:
        saved = dict(lead.values).get(SAVED_STEP)
        if saved is not None and isfinite(saved):
            self._saved_step = int(saved)
        if lead.step is not None:
            step_s = self._paces[lead.rank].step_s
            if step_s is not None:
                self._add(STEP_TIME, lead.at_s, step_s)
            self._add("step", lead.at_s, float(lead.step))
        for name, value in lead.values:
            if name not in SDK_METRICS and isfinite(value):
                self._add(name, lead.at_s, value)

    def _add(self, name: str, at_s: float, value: float) -> None:
        series = self._series.get(name)
        if series is None:
            if len(self._series) >= MAX_SERIES:
                return
            series = self._series[name] = _BoundedSeries()
        series.add(at_s, value)

    def series(self) -> tuple[Series, ...]:
        """All of them so far."""
        with self._lock:
            return tuple(
                Series(name, tuple(one.points), "s" if name == STEP_TIME else "")
                for name, one in self._series.items()
            )

    def restore(self, earlier: Iterable[Series]) -> None:
        """Put the points of earlier AM attempts before those of this one. Points that go back in
        time, are not finite, or are too many are left out."""
        with self._lock:
            for series in earlier:
                if series.name not in self._series and len(self._series) >= MAX_SERIES:
                    continue
                now = self._series.get(series.name)
                joined = self._series[series.name] = _BoundedSeries()
                for at_s, value in (*series.points[:MAX_POINTS], *(now.points if now else ())):
                    if isfinite(at_s) and isfinite(value):
                        joined.add(at_s, value)

    def step_times(self) -> dict[int, float]:
        """Rank to seconds a step, of the ranks that reported last and have made some."""
        with self._lock:
            found = {rank: pace.step_s for rank, pace in self._paces.items()}
        return {rank: step_s for rank, step_s in found.items() if step_s is not None}

    @property
    def saved_step(self) -> int | None:
        """The step of the newest checkpoint; ``None`` if the program has reported none."""
        return self._saved_step


class _BoundedSeries:
    def __init__(self) -> None:
        self.points: list[tuple[float, float]] = []
        self._period_s = 0.0

    def add(self, at_s: float, value: float) -> None:
        if self.points and at_s < self.points[-1][0] + max(self._period_s, 1e-3):
            return
        self.points.append((at_s, value))
        if len(self.points) > MAX_POINTS:
            del self.points[1::2]
            span_s = self.points[-1][0] - self.points[0][0]
            self._period_s = span_s / len(self.points)


class _Pace:
    """Seconds a step of one rank."""

    def __init__(self) -> None:
        self.step_s: float | None = None
        self._since: tuple[int, float] | None = None

    def take(self, report: AgentMetrics) -> None:
        step, at_s = report.step or 0, report.at_s
        measured_s = dict(report.values).get(STEP_S)
        since_step, since_s = self._since or (step, at_s)
        if measured_s is not None and isfinite(measured_s):
            self.step_s = measured_s
        elif self._since is None or step < since_step:
            self._since = (step, at_s)  # the first report, or the program has started again
        elif step > since_step and at_s - since_s >= PACE_S:
            self.step_s = (at_s - since_s) / (step - since_step)
            self._since = (step, at_s)


class SeriesKeeper:
    """Has a thread of its own: HDFS may take long, and the page does not wait for it."""

    def __init__(
        self, series: TrainingSeries, store: StateStore, period_s: float = PERIOD_S
    ) -> None:
        self._series = series
        self._store = store
        self._period_s = period_s
        self._written: tuple[Series, ...] = ()
        self._is_restored = False
        self._closed = threading.Event()

    def start(self) -> None:
        """Keep them until ``close`` or the end of the process."""
        threading.Thread(target=self._run, name="series", daemon=True).start()

    def close(self) -> None:
        """Nothing is written any more, but what is being written."""
        self._closed.set()

    def keep(self) -> bool:
        """Take up what the attempts before have kept, once, and keep what there is now. ``False``
        means another attempt of the ApplicationMaster has taken over."""
        try:
            if not self._is_restored:
                self._restore()
            found = self._series.series()
            if found != self._written:
                kept = tuple(KeptSeries(one.name, one.points, one.unit) for one in found)
                self._store.put(SERIES_FILE, encode(SeriesRecord(kept)))
                self._written = found
        except Superseded:
            return False
        except YarnamError as error:
            # Not written before it was read: the points of the attempts before would be gone.
            log.warning("the series of the job's page are not kept: %s", error.message)
        return True

    def _restore(self) -> None:
        data = self._store.get(SERIES_FILE)
        self._is_restored = True
        if data is None:
            return
        try:
            record = decode(data, SeriesRecord, max_bytes=MAX_BYTES)
        except WireMismatch as error:
            log.warning("the series of earlier attempts cannot be read: %s", error.message)
            return
        self._series.restore(Series(one.name, one.points, one.unit) for one in record.series)

    def _run(self) -> None:
        while self.keep() and not self._closed.wait(self._period_s):
            pass
