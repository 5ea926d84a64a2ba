"""The training progress of one job: the remaining work, in seconds on the job's own GPUs, and its
speed on the GPUs that it has."""

from __future__ import annotations

from yarnam.sim.sim_settings import SimJob

EPSILON = 1e-6
"""A step that is done but for rounding is done."""


class JobTraining:
    """``start_cost_s`` is the time from the start of all processes until they train;
    ``checkpoint_s`` is the interval between checkpoints."""

    __slots__ = ("_checkpoint_s", "_job", "_left_s", "_since_s", "_speed", "_start_cost_s")

    def __init__(self, job: SimJob, start_cost_s: float, checkpoint_s: float) -> None:
        self._job = job
        self._start_cost_s = start_cost_s
        self._checkpoint_s = checkpoint_s
        self._left_s = job.duration_s
        self._since_s: float | None = None
        self._speed = 1.0

    def launched(self, gpus: int) -> float:
        """The gang is complete, with this many GPUs; how long its processes run if nothing stops
        them."""
        self._speed = self._job.speed(gpus)
        return self._start_cost_s + max(0.0, self._left_s) / self._speed

    def begin(self, now_s: float) -> None:
        """All processes run."""
        self._since_s = now_s + self._start_cost_s

    def stop(self, now_s: float, *, is_saved: bool) -> None:
        """Stop the training. Work up to the last checkpoint need not be repeated; with
        ``is_saved``, a checkpoint is written at the stop."""
        if self._since_s is None:
            return
        trained_s = max(0.0, now_s - self._since_s)
        if not is_saved:
            trained_s = trained_s // self._checkpoint_s * self._checkpoint_s
        self._left_s -= trained_s * self._speed
        self._since_s = None

    def trains(self, now_s: float) -> bool:
        return self._since_s is not None and now_s >= self._since_s

    def left_s(self, now_s: float) -> float:
        since_s = now_s if self._since_s is None else min(now_s, self._since_s)
        return max(0.0, self._left_s - (now_s - since_s) * self._speed)

    def step(self, now_s: float) -> int:
        """One for each second of the work."""
        return int(self._job.duration_s - self.left_s(now_s) + EPSILON)
