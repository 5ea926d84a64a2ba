"""A live view of a cluster that is starting, for a terminal."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from rich import progress
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from yarnam.core.model.printable import printable, printable_lines

if TYPE_CHECKING:
    from typing_extensions import Self


class TerminalReporter:
    """One line per daemon, redrawn in place; a bar while jars are fetched. A context manager: the
    last state stays on the terminal."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, markup=False, emoji=False, highlight=False)
        self._lock = threading.Lock()
        self._rows: dict[str, tuple[str, str, float]] = {}
        self._bar = progress.Progress(
            progress.TextColumn("fetching"),
            progress.BarColumn(),
            progress.DownloadColumn(),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
            console=self._console,
        )
        self._task: progress.TaskID | None = None
        self._live = Live(
            get_renderable=self._draw, console=self._console, refresh_per_second=8, transient=False
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def message(self, text: str) -> None:
        self._console.print(Text(printable_lines(text)))

    def waiting(self, daemon: str, what: str) -> None:
        with self._lock:
            since = self._rows[daemon][2] if daemon in self._rows else time.monotonic()
            self._rows[daemon] = ("waiting", what, since)

    def ready(self, daemon: str, seconds: float) -> None:
        with self._lock:
            self._rows[daemon] = ("ready", f"ready after {seconds:.1f} s", 0.0)

    def failed(self, daemon: str) -> None:
        with self._lock:
            self._rows[daemon] = ("failed", "failed", 0.0)

    def begin(self, files: int, total_bytes: int) -> None:
        self._task = self._bar.add_task("fetching", total=total_bytes)

    def advance(self, count: int) -> None:
        if self._task is not None:
            self._bar.advance(self._task, count)

    def finish(self) -> None:
        self._task = None

    def _draw(self) -> RenderableType:
        table = Table.grid(padding=(0, 1))
        with self._lock:
            rows = list(self._rows.items())
        for daemon, (state, text, since) in rows:
            if state == "waiting":
                seconds = f"{time.monotonic() - since:.0f} s"
                shown = Text.assemble(printable(text), (f" ({seconds})", "dim"))
                table.add_row(Spinner("dots"), daemon, shown)
            else:
                mark = Text("✓", "green") if state == "ready" else Text("✗", "red")
                table.add_row(mark, daemon, Text(printable(text)))
        return Group(self._bar, table) if self._bar.tasks else table
