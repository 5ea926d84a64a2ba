"""Whether this process is a pre-run, and its end after some steps."""

from __future__ import annotations

import sys
import threading

from yarnam.train._job.job_context import setting
from yarnam.train._job.stop import ask_to_stop

_MORE_STEPS = 2
"""After this many steps more, a program that does not ask whether it should stop is ended."""

_reported = [0]


def is_pre_run() -> bool:
    """Whether this process only tries the program, before the job's gang is acquired.

    It is rank 0 of one, with a share of the inputs and with checkpoints that are thrown away. After
    ``pre_run.steps`` of the spec ``should_stop`` is true; a program that does not ask ends at its
    second report after that.
    """
    return setting("pre_run_steps") is not None


def note_step() -> None:
    """A step was reported. Raises SystemExit in a pre-run that has done its steps."""
    steps = setting("pre_run_steps")
    if steps is None:
        return
    _reported[0] += 1
    if _reported[0] == steps:
        ask_to_stop(f"the pre-run has done its {steps} steps")
    is_main = threading.current_thread() is threading.main_thread()
    if _reported[0] >= steps + _MORE_STEPS and is_main:
        text = f"yarnam: the pre-run ends: {_reported[0]} steps were reported"
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - the log of the process
        raise SystemExit(0)
