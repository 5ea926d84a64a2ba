"""Reports as a run of an experiment tracker: what ``report`` is given goes there too, from rank 0.

Each tracker has a thread of its own: the training waits for none of them, and none for another.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from yarnam.train._job.job_context import is_chief
from yarnam.train._job.pre_run_end import is_pre_run
from yarnam.train._job.stop import should_stop
from yarnam.train._reports import reporting
from yarnam.train._tracking.metric_point import Point

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

MLFLOW_VARIABLE = "MLFLOW_TRACKING_URI"
TENSORBOARD_VARIABLE = "TENSORBOARD_LOGGING_DIR"

SEND_S = 5.0
"""The time between two requests to the trackers."""
KEEP_S = 1.0
"""Only the newest value of a metric in each such interval is sent."""
MAX_KEPT = 50_000
"""Values that wait while a tracker is unavailable: an hour's values of 10 metrics. Beyond that the
oldest are dropped."""
CLOSE_LIMIT_S = 30.0
"""The time for the remaining values, at the end of the run."""

FINISHED, FAILED, STOPPED = "FINISHED", "FAILED", "KILLED"
"""How a run ends, in MLflow's words."""


class Tracker(Protocol):
    """Where points go. Each call may raise anything, and is tried again with the same points."""

    def write(self, points: Sequence[Point]) -> None: ...

    def close(self, end: str) -> None: ...


@contextmanager
def tracking(parameters: Mapping[str, Any] | None = None) -> Iterator[None]:
    """In the block, the values passed to ``report`` also go to MLflow if ``MLFLOW_TRACKING_URI`` is
    set, and into event files of TensorBoard if ``TENSORBOARD_LOGGING_DIR`` is set::

        with train.tracking({"lr": 0.1}):
            for step in range(start, total):
                train.report(step=step, loss=loss)

    Only rank 0 sends; in other processes, and without these variables, it does nothing. A job has
    one run of MLflow over all of its attempts, with ``parameters``: a step that has been sent is
    not sent again. Only the newest value of a metric in each second is sent. ``report`` does not
    wait; the end of the block does, at most 30 s. An unavailable tracker is not an error.

    Raises ImportError if the library for a variable that is set is missing.
    """
    feeds = [] if not is_chief() or is_pre_run() else _feeds(dict(parameters or {}))
    for feed in feeds:
        reporting.observers.append(feed.add)
    end = FAILED
    try:
        yield
        end = STOPPED if feeds and should_stop() else FINISHED
    finally:
        deadline = time.monotonic() + CLOSE_LIMIT_S
        for feed in feeds:
            reporting.observers.remove(feed.add)
            feed.end(end)
        for feed in feeds:
            feed.join(deadline)


def _feeds(parameters: dict[str, Any]) -> list[_Feed]:
    made = []
    if os.environ.get(MLFLOW_VARIABLE):
        _need("mlflow", MLFLOW_VARIABLE, "mlflow-skinny")
        from yarnam.train._tracking.mlflow_run import MlflowRun

        made.append(_Feed("MLflow", lambda: MlflowRun(parameters)))
    directory = os.environ.get(TENSORBOARD_VARIABLE)
    if directory:
        _need("tensorboard", TENSORBOARD_VARIABLE, "yarnam[tensorboard]")
        from yarnam.train._tracking.event_files import EventFiles

        made.append(_Feed("TensorBoard", lambda: EventFiles(directory, parameters)))
    return made


def _need(module: str, variable: str, package: str) -> None:
    if find_spec(module) is None:
        raise ImportError(f"{variable} is set, and there is no {module}: pip install '{package}'")


class _Feed:
    """Keeps points until its thread has sent them to one tracker."""

    def __init__(self, name: str, open_tracker: Callable[[], Tracker]) -> None:
        self._name = name
        self._open = open_tracker
        self._tracker: Tracker | None = None
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, int], Point] = {}
        self._last_step = 0
        self._end = ""
        self._is_ended = threading.Event()
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name=f"yarnam-{name}", daemon=True)
        self._thread.start()

    def add(self, step: int | None, values: Mapping[str, float]) -> None:
        """One report. Never waits for the tracker."""
        at_s = time.time()
        with self._lock:
            self._last_step = self._last_step if step is None else step
            for name, value in values.items():
                point = Point(name, value, self._last_step, at_s)
                self._kept[name, int(at_s / KEEP_S)] = point
            while len(self._kept) > MAX_KEPT:
                del self._kept[next(iter(self._kept))]

    def end(self, end: str) -> None:
        """Send what is left, and close the run."""
        self._end = end
        self._is_ended.set()

    def join(self, deadline: float) -> None:
        """Until that is done, or ``time.monotonic()`` is ``deadline``."""
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            self._note("it does not answer: the end of the run is not sent")

    def _run(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._is_ended.wait(SEND_S)
            try:
                self._send()
                if is_last and self._tracker is not None:
                    self._tracker.close(self._end)
                self._is_failing = False
            except Exception as error:  # noqa: BLE001 - a tracker is never worth a training run
                if is_last or not self._is_failing:
                    self._note(f"{type(error).__name__}: {error}")
                self._is_failing = True

    def _send(self) -> None:
        self._tracker = self._tracker or self._open()
        with self._lock:
            taken = dict(self._kept)
        if taken:
            self._tracker.write(list(taken.values()))
        with self._lock:
            # A value that has come meanwhile, of the same second, is sent the next time.
            self._kept = {
                key: point for key, point in self._kept.items() if taken.get(key) is not point
            }

    def _note(self, text: str) -> None:
        line = " ".join(text.split())[:500]
        print(f"yarnam: {self._name}: {line}", file=sys.stderr, flush=True)  # noqa: T201
