"""What commands print: JSON that every parser takes, styles of ours alone, one line where one line
is meant. What all commands do with hostile text is in test_hostile_text.py."""

from __future__ import annotations

import json
import logging
import math
import subprocess
import sys

import pytest

from tests.unit.cli.terminal import on_terminal
from yarnam.cli.log_format import PrintableFormatter
from yarnam.cli.rendering import console
from yarnam.cli.rendering.console import (
    Styled,
    coloured,
    print_document,
    print_error,
    print_json,
    print_json_line,
    print_line,
    print_note,
    print_output,
    print_progress,
    print_table,
)


@pytest.mark.parametrize("show", [print_json, print_json_line])
def test_a_diverged_loss_is_null(show: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(show)
    show({"loss": math.nan, "values": [("a", -math.inf), ("b", 1.5)]})
    text = capsys.readouterr().out
    assert json.loads(text) == {"loss": None, "values": [["a", None], ["b", 1.5]]}
    assert "NaN" not in text
    assert "Infinity" not in text


def test_our_styles_are_shown_and_those_of_others_are_not() -> None:
    with on_terminal() as terminal:
        print_line(coloured("FAILED"), ": \x1b[32mSUCCEEDED\x1b[0m")
        print_line(Styled("a\x1b[0mb", is_bold=True))
    assert terminal.content == (
        "\x1b[31mFAILED\x1b[0m: \\x1b[32mSUCCEEDED\\x1b[0m\n\x1b[1ma\\x1b[0mb\x1b[0m\n"
    )


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_styles_can_be_turned_off(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    with on_terminal() as terminal:
        monkeypatch.setenv(name, value)
        print_line(coloured("FAILED"))
        print_error("it failed")
    assert terminal.content == "FAILED\nerror: it failed\n"


def test_columns_are_as_wide_as_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("A", "STATE", "B"), [("\x1b\n", "ok", "1"), ("xy", "RUNNING", "")], 1)
    assert capsys.readouterr().out == "A       STATE    B\n\\x1b\\n  ok       1\nxy      RUNNING\n"


def test_a_colour_covers_its_cell_only() -> None:
    with on_terminal() as terminal:
        print_table(("A", "STATE", "B"), [("x", "ok", "y")], 1)
    assert terminal.content.splitlines()[1] == "x  \x1b[32mok   \x1b[0m  y"


def test_messages_have_lines_but_none_that_looks_like_another_message(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_error("bad\nerror: forged\x1b[2J", "do this\nor that\x1b[2J")
    print_note("warning\nerror: forged")
    assert capsys.readouterr().err == (
        "error: bad\n  error: forged\\x1b[2J\n  do this\n  or that\\x1b[2J\n"
        "warning\n  error: forged\n"
    )


def test_a_document_is_exact_in_a_pipe_and_harmless_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    print_document("export A='\u200d'\nexport B=1")
    assert capsys.readouterr().out == "export A='\u200d'\nexport B=1\n"
    monkeypatch.setattr(console, "is_terminal", lambda stream=None: True)
    print_document("export A='\u200d'\nexport B=1\n")
    assert capsys.readouterr().out == "export A='\\u200d'\nexport B=1\n"


def test_progress_rewrites_its_line_on_a_terminal_only(capsys: pytest.CaptureFixture[str]) -> None:
    with on_terminal() as terminal:
        print_progress("1 file\x1b]0;x\x07")
        print_progress("")
    assert terminal.content == "\r1 file\\x1b]0;x\\x07\x1b[K\r\x1b[K"
    print_progress("1 file")
    assert capsys.readouterr().err == ""


def test_colours_of_a_process_end_with_its_line() -> None:
    with on_terminal() as terminal:
        print_output("w\x1b[2J", [b"\x1b[31mred\tA\x1b[8", b"plain \xe2\x80\xae", b"10%\r20%"])
    assert terminal.content == (
        "w\\x1b[2J: \x1b[31mred\tA\\x1b[8\x1b[0m\nw\\x1b[2J: plain \\u202e\nw\\x1b[2J: 20%\n"
    )


def test_a_stream_that_knows_few_characters_gets_escapes() -> None:
    with on_terminal("ascii") as terminal:
        print_line("Größe")
        print_json_line({"a": "Größe 日"})
    shown, document = terminal.content.splitlines()
    assert shown == r"Gr\xf6\xdfe"
    assert json.loads(document) == {"a": "Größe 日"}


# ---- logs --------------------------------------------------------------------------------------


def test_records_quote_others_without_harm() -> None:
    try:
        raise ValueError("bad\x1b[2J\n2026-01-01 00:00:00 INFO forged")
    except ValueError:
        record = logging.LogRecord(
            "x", logging.ERROR, "f", 1, "node %s", ("n1\x9b\n2026 INFO forged",), sys.exc_info()
        )
    lines = PrintableFormatter("%(levelname)s %(message)s").format(record).split("\n")
    assert lines[0] == "ERROR node n1\\x9b"
    assert all(line.startswith("  ") for line in lines[1:])
    assert "  ValueError: bad\\x1b[2J" in lines


@pytest.mark.parametrize(
    "code",
    [
        "import logging; logging.getLogger('x').warning('%s', HOSTILE)",
        "import warnings; warnings.warn(HOSTILE)",
    ],
)
def test_warnings_that_python_itself_prints_do_no_harm(code: str) -> None:
    program = (
        "import sys\nfrom yarnam import cli\nfrom yarnam.cli import shell\n"
        "HOSTILE = 'a\\x1b[2J\\nforged'\n"
        f"def run(arguments):\n    {code}\n    return 0\n"
        "shell.run = run\nsys.exit(cli.main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert "a\\x1b[2J\n  forged\n" in done.stderr
    assert "\x1b" not in done.stderr
