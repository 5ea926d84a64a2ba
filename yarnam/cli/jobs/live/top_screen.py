"""The live view of ``yarnam top``: redrawn in place, and the terminal is afterwards as before."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from yarnam._light_imports import on_first_use
from yarnam.cli.jobs.live.top_text import TopView, top_lines
from yarnam.cli.rendering.console import live_console, live_text, print_note
from yarnam.cli.signals import INTERRUPTED, Terminated
from yarnam.client.monitor.live.live_jobs import LiveJobs
from yarnam.client.monitor.live.usage_rows import UsageOrder
from yarnam.errors import Unavailable

if TYPE_CHECKING:
    from rich.console import RenderableType

with on_first_use():
    from rich import console as rich_console
    from rich import live as rich_live

EVERY_S = 2.0
"""Between two readings of all jobs: agents measure that often."""

REDRAWN_EVERY_S = 0.5
"""Answers come one by one, and ages grow."""

FIRST_LIMIT_S = 10.0
"""For the first list of jobs."""

QUIT, STOP = b"q", b"\x1a"
"""Ctrl-Z is a key here, so that the screen can be given back before."""

FOOTER = "q quits"


def view_of(live: LiveJobs, order: UsageOrder | None, *, has_tasks: bool) -> TopView:
    """Show the newest statuses of these jobs."""
    trouble = "" if live.error is None else live.error.message
    return TopView(live.jobs(), order, has_tasks, trouble, live.unread_jobs)


def show(live: LiveJobs, order: UsageOrder | None, *, has_tasks: bool) -> int:
    """Until the user quits, or the one job has ended. Raises what the first reading raises."""
    live.refresh()
    try:
        live.wait(REDRAWN_EVERY_S)
        began_s = time.monotonic()
        while not live.is_listed and time.monotonic() - began_s < FIRST_LIMIT_S:
            if live.error is not None:
                raise live.error
            live.wait(REDRAWN_EVERY_S)
        if not live.is_listed:
            raise Unavailable(f"the jobs could not be listed in {FIRST_LIMIT_S:g} s")
        while (key := _draw_until_key(live, order, has_tasks=has_tasks)) == STOP:
            signal.raise_signal(signal.SIGTSTP)
    except Terminated:
        raise
    except KeyboardInterrupt:
        return INTERRUPTED
    if not key:
        [job] = live.jobs()
        print_note(f"{job.status.application} has ended: it is {job.status.state.value}")
    return 0


def _draw_until_key(live: LiveJobs, order: UsageOrder | None, *, has_tasks: bool) -> bytes:
    """Return ``QUIT`` or ``STOP``, or nothing once the job has ended."""
    console = live_console()

    def drawn() -> RenderableType:
        width, height = console.size
        view = view_of(live, order, has_tasks=has_tasks)
        texts = []
        for line in [*top_lines(view, time.time(), width, max(1, height - 1)), FOOTER]:
            text = live_text(line)
            text.no_wrap, text.overflow = True, "ellipsis"
            texts.append(text)
        return rich_console.Group(*texts)

    read_s = time.monotonic()
    with ExitStack() as stack:
        wake = stack.enter_context(_size_changes())
        keys = stack.enter_context(_keys())
        view = stack.enter_context(
            rich_live.Live(drawn(), console=console, screen=True, auto_refresh=False)
        )
        while True:
            key = _await_key(keys, wake)
            if key in (QUIT, STOP):
                return key
            if time.monotonic() - read_s >= EVERY_S:
                read_s = time.monotonic()
                live.refresh()
            view.update(drawn(), refresh=True)
            if has_tasks and all(job.status.state.is_final for job in live.jobs()):
                return b""


def _await_key(keys: int | None, wake: int) -> bytes:
    """The next key; empty after ``REDRAWN_EVERY_S``, or when the window has another size."""
    ready, _, _ = select.select([wake, *([] if keys is None else [keys])], [], [], REDRAWN_EVERY_S)
    if wake in ready:
        os.read(wake, 64)
    if keys in ready and keys is not None:
        with suppress(OSError):
            return os.read(keys, 1) or QUIT  # its end: the terminal is gone
        return QUIT
    return b""


@contextmanager
def _size_changes() -> Iterator[int]:
    """A descriptor that is readable when the window has got another size."""
    receives, sends = os.pipe()
    os.set_blocking(sends, False)

    def note(*_: object) -> None:
        with suppress(BlockingIOError):
            os.write(sends, b"x")

    former = signal.signal(signal.SIGWINCH, note)
    try:
        yield receives
    finally:
        signal.signal(signal.SIGWINCH, former)
        os.close(receives)
        os.close(sends)


@contextmanager
def _keys() -> Iterator[int | None]:
    """Yield a descriptor that gives each key as it is pressed, or ``None`` if standard input is not
    a terminal."""
    if not sys.stdin.isatty():
        yield None
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSANOW)
        mode = termios.tcgetattr(descriptor)
        mode[6][termios.VSUSP] = b"\0"
        termios.tcsetattr(descriptor, termios.TCSANOW, mode)
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
