"""The same past in two worlds, with one allocation file and with another, simulated at the same
time: the second in a process of its own."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Union

from yarnam.sim.sim_settings import SimSettings
from yarnam.sim.simulation import simulate
from yarnam.sim.what_if.queue_figures import QueueFigures, queue_figures
from yarnam.sim.what_if.replay import Replay

log = logging.getLogger("yarnam.sim")

AT_ONCE_FROM = 500
"""Jobs. Fewer are through in about the second that another process takes to start."""

Figures = tuple[QueueFigures, ...]
OnEnd = Callable[[], None]
_Word = Union[None, Figures, Exception]
"""A message of the other process: a job has ended, the figures, or the reason why there are
none."""


@dataclass(frozen=True, slots=True)
class PastWorld:
    """The jobs of the past, and the queues and nodes that they use."""

    given: Replay
    settings: SimSettings


def figures_of(world: PastWorld, on_end: OnEnd | None = None) -> Figures:
    """The figures of each queue. ``on_end`` is called for each job that has ended."""
    return queue_figures(simulate(world.given.workload, world.settings, on_end=on_end), world.given)


def figures_of_both(
    one: PastWorld, other: PastWorld, on_end: OnEnd | None = None
) -> tuple[Figures, Figures]:
    """The figures of both, in this order; ``on_end`` is called for the jobs of both."""
    jobs = min(len(world.given.workload.jobs) for world in (one, other))
    if jobs < AT_ONCE_FROM or len(os.sched_getaffinity(0)) < 2:
        return figures_of(one, on_end), figures_of(other, on_end)
    elsewhere = _Elsewhere(other, on_end or (lambda: None))
    try:
        here, there = figures_of(one, elsewhere.job_ended_here), elsewhere.result()
    finally:
        elsewhere.close()
    # Most likely it was killed because memory ran short: now there is only one at a time.
    return here, figures_of(other) if there is None else there


class _Elsewhere:
    """A world that is simulated in another process."""

    def __init__(self, world: PastWorld, on_end: OnEnd) -> None:
        self._on_end = on_end
        self._found: Figures | Exception | None = None
        self._is_over = False
        # Not forked: a progress bar has a thread, whose locks a fork would copy as they are.
        context = get_context("spawn")
        self._words, tell = context.Pipe(duplex=False)
        self._process = context.Process(target=_simulate, args=(world, tell), daemon=True)
        self._process.start()
        tell.close()

    def job_ended_here(self) -> None:
        """A job of this process's own world has ended: also ask how the other one goes."""
        self._on_end()
        while not self._is_over and self._words.poll():
            self._hear()

    def result(self) -> Figures | None:
        """The message once it is there; ``None`` if the process has ended without one."""
        while not self._is_over:
            self._hear()
        if isinstance(self._found, Exception):
            raise self._found
        return self._found

    def close(self) -> None:
        """End the process if it has not ended."""
        self._process.terminate()
        self._process.join()
        self._process.close()
        self._words.close()

    def _hear(self) -> None:
        try:
            self._found = self._words.recv()
        except (EOFError, ConnectionError):
            self._is_over = True
            self._process.join()
            log.warning("a simulation's process ended with %s", self._process.exitcode)
            return
        self._is_over = self._found is not None
        if not self._is_over:
            self._on_end()


def _simulate(world: PastWorld, tell: Connection[_Word, _Word]) -> None:
    # Ctrl-C is for the process that started this one, and that one ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        tell.send(figures_of(world, lambda: tell.send(None)))
    except BrokenPipeError:
        return  # The result is no longer awaited.
    except Exception as error:  # noqa: BLE001 - it is raised where the result is awaited
        tell.send(error)
