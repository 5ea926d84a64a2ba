"""What daemons say while a cluster starts does nothing to the terminal."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from yarnam.cluster.reporters import PlainReporter
from yarnam.cluster.terminal_display import TerminalReporter

HOSTILE = "\x1b]52;c;Zm9v\x07\u202e[link=evil]y[bold][/z] :smile:\nforged"
SHOWN = r"\x1b]52;c;Zm9v\x07\u202e[link=evil]y[bold][/z] :smile:"
STYLES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def test_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    PlainReporter().message(HOSTILE)
    assert capsys.readouterr().err == f"{SHOWN}\n  forged\n"


def test_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(
        "yarnam.cluster.terminal_display.Console",
        lambda **how: Console(**{**how, "file": stream}, force_terminal=True, width=200),
    )
    with TerminalReporter() as reporter:
        reporter.message(HOSTILE)
        reporter.waiting("rm", HOSTILE)
    text = STYLES.sub("", stream.getvalue())
    assert text.count(SHOWN) >= 2
    assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert not [line for line in text.split("\n") if line.startswith("forged")]
