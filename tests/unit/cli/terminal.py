"""Standard streams that keep what they get: a terminal's, or a pipe's."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import pytest


class Stream(io.TextIOWrapper):
    def __init__(self, encoding: str = "utf-8", *, is_terminal: bool = False) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, newline="")
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    @property
    def content(self) -> str:
        self.flush()
        held = self.buffer
        assert isinstance(held, io.BytesIO)
        return held.getvalue().decode(self.encoding)


@contextmanager
def on_terminal(encoding: str = "utf-8") -> Iterator[Stream]:
    """Both standard streams are one terminal, with colours, in this block."""
    made = Stream(encoding, is_terminal=True)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(made), redirect_stderr(made):
        patch.setenv("TERM", "xterm")
        # Wide and high: nothing is cut.
        patch.setenv("COLUMNS", "2000")
        patch.setenv("LINES", "100")
        patch.delenv("NO_COLOR", raising=False)
        yield made


@contextmanager
def in_pipes() -> Iterator[tuple[Stream, Stream]]:
    """Standard output and standard error are pipes in this block."""
    out, err = Stream(), Stream()
    with redirect_stdout(out), redirect_stderr(err):
        yield out, err
