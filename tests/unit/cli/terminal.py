"""Standard streams that say they are a terminal, and keep what they get."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import pytest


class Terminal(io.TextIOWrapper):
    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding, newline="")

    def isatty(self) -> bool:
        return True

    @property
    def content(self) -> str:
        self.flush()
        held = self.buffer
        assert isinstance(held, io.BytesIO)
        return held.getvalue().decode(self.encoding)


@contextmanager
def on_terminal(encoding: str = "utf-8") -> Iterator[Terminal]:
    """Both standard streams are a terminal with colours in this block."""
    made = Terminal(encoding)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(made), redirect_stderr(made):
        patch.setenv("TERM", "xterm")
        patch.setenv("COLUMNS", "1000")
        patch.delenv("NO_COLOR", raising=False)
        yield made
