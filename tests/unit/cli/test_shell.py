"""Whatever happens in a command becomes an exit code and a message, as text or as JSON."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from yarnam.cli.catalog import ENTRIES
from yarnam.cli.shell import PIPE_CLOSED, Shell, run
from yarnam.cli.signals import INTERRUPTED
from yarnam.errors import ExitCode, error_classes


def failing(error: BaseException) -> Shell:
    def open_client(**_: Any) -> Any:
        raise error

    return Shell(open_client)


@pytest.mark.parametrize("kind", error_classes(), ids=lambda kind: kind.__name__)
def test_every_error_ends_with_its_code(
    kind: type[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ps"], failing(kind("it failed", hint="do this\nor that"))) == kind.exit_code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "error: it failed\n  do this\n  or that\n"


def test_errors_are_json_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    from yarnam.errors import GangTimeout

    assert run(["ps", "--json"], failing(GangTimeout("too late", hint="wait"))) == 92
    assert json.loads(capsys.readouterr().out) == {
        "error": {
            "name": "GANG_TIMEOUT",
            "exit_code": 92,
            "blame": "infra",
            "retryable": True,
            "message": "too late",
            "hint": "wait",
        }
    }


def test_a_typing_error_in_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sumbit", "x.yaml"]) == ExitCode.USAGE
    assert "Did you mean 'submit'?" in capsys.readouterr().err


def test_a_usage_error_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--json"]) == ExitCode.USAGE
    assert json.loads(capsys.readouterr().out)["error"]["name"] == "USAGE"


def test_json_after_the_dashes_is_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--", "--json", "x"]) == ExitCode.USAGE
    assert capsys.readouterr().out == ""


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == ExitCode.USAGE
    assert "submit" in capsys.readouterr().err


def test_ctrl_c(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ps"], failing(KeyboardInterrupt())) == INTERRUPTED == 130
    assert capsys.readouterr().out == ""


def test_sigterm_takes_back_what_is_half_done_and_shows_as_sigterm() -> None:
    code = (
        "import sys, time\n"
        "from yarnam.cli import shell, signals\n"
        "def open_client(**_):\n"
        "    try:\n"
        "        print('begun', flush=True)\n"
        "        time.sleep(60)\n"
        "    finally:\n"
        "        print('taken back', flush=True)\n"
        "signals.end_cleanly_on_signals()\n"
        "sys.exit(shell.run(['ps'], shell.Shell(open_client)))\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        assert one.stdout.readline() == "begun\n"
        one.terminate()
        assert one.stdout.read() == "taken back\n"
        assert one.wait(30) == -signal.SIGTERM


def test_problems_of_a_spec_are_json_for_editors(capsys: pytest.CaptureFixture[str]) -> None:
    from yarnam.errors import BadSpec, SpecProblem

    problem = SpecProblem("a.yaml", 3, 1, "gpuz", "unknown key")
    assert run(["ps", "--json"], failing(BadSpec("bad", problems=(problem,)))) == 65
    (shown,) = json.loads(capsys.readouterr().out)["error"]["problems"]
    assert shown == {
        "source": "a.yaml", "line": 3, "column": 1, "path": "gpuz", "message": "unknown key",
    }  # fmt: skip


def test_a_fault_of_ours_becomes_a_report(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    arguments = ["ps", "--user=s3cret"]
    assert run(arguments, failing(ZeroDivisionError("oh"))) == ExitCode.INTERNAL
    said = capsys.readouterr().err
    (report,) = (tmp_path / "yarnam" / "reports").iterdir()
    assert str(report) in said
    text = report.read_text()
    assert "ZeroDivisionError: oh" in text
    assert "Traceback" in text
    assert "s3cret" not in text
    assert report.stat().st_mode & 0o077 == 0


def test_a_report_that_cannot_be_written_hides_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert run(["ps"], failing(ZeroDivisionError("oh"))) == ExitCode.INTERNAL
    assert "ZeroDivisionError: oh" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error() -> None:
    code = "import sys\nfrom yarnam.cli.shell import run\nsys.exit(run(['spec', 'schema']))\n"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait(60) == PIPE_CLOSED
    assert said == b""


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def pretend() -> None:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    return pretend


def test_colour_is_for_terminals_and_can_be_turned_off(
    capsys: pytest.CaptureFixture[str],
    on_terminal: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from yarnam.errors import Unavailable

    monkeypatch.delenv("NO_COLOR", raising=False)
    run(["ps"], failing(Unavailable("x")))
    assert "\x1b[" not in capsys.readouterr().err
    on_terminal()
    run(["ps"], failing(Unavailable("x")))
    assert "\x1b[" in capsys.readouterr().err
    monkeypatch.setenv("NO_COLOR", "1")
    on_terminal()
    run(["ps"], failing(Unavailable("x")))
    assert "\x1b[" not in capsys.readouterr().err


# `shell` shows the bytes of a terminal.
@pytest.mark.parametrize("name", [n for n in ENTRIES if n not in {"spec", "cluster", "shell"}])
def test_every_command_speaks_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = importlib.import_module(ENTRIES[name].module).command
    # `export` prints JSON lines and `generate` XML, and nothing else.
    prints = {"export", "generate"}
    below = [[name, sub] for sub in getattr(found, "commands", ()) if sub not in prints]
    for words in below or [[name]]:
        assert run([*words, "--help"]) == 0
        assert "--json" in capsys.readouterr().out, words


# ---- cost --------------------------------------------------------------------------------------

HEAVY = {"yarnam.client", "yarnam.cluster", "yarnam.spec", "grpc", "rich", "yaml", "skein",
         "pydantic", "hdfs_native", "cattrs", "asyncio", "urllib.request"}  # fmt: skip


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom yarnam.cli.shell import run\nrun(['--help'])\n"
        "loaded = [name for name, module in sys.modules.items() if type(module) is type(sys)]\n"
        "print(' '.join(loaded), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert not HEAVY & set(done.stderr.split())


def test_the_entries_of_am_and_agent_do_not_load_click() -> None:
    code = "import sys, yarnam.cli\nsys.exit('click' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)


def test_help_costs_at_most_a_quarter_of_a_second_of_cpu() -> None:
    """Interpreter included; the best of five, as other work shares the machine."""
    code = (
        "import os, subprocess, sys, time\n"
        "times = []\n"
        "for _ in range(5):\n"
        "    before = os.times()\n"
        f"    subprocess.run([{sys.executable!r}, '-m', 'yarnam', '--help'], check=True,"
        " stdout=subprocess.DEVNULL)\n"
        "    after = os.times()\n"
        "    times.append(after.children_user + after.children_system"
        " - before.children_user - before.children_system)\n"
        "print(min(times))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
    )
    assert float(done.stdout) <= 0.25


def test_ctrl_c_while_a_module_is_imported_comes_when_it_is_there(tmp_path: Path) -> None:
    """Raised in the middle of Python's import machinery it can leave a lock taken for ever."""
    (tmp_path / "slow.py").write_text(
        "import os, signal, time\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "time.sleep(0.2)\n"
        "print('imported', flush=True)\n"
    )
    code = (
        "import sys, time\n"
        "from yarnam.cli import signals\n"
        "signals.end_cleanly_on_signals()\n"
        "try:\n"
        "    import slow\n"
        "    time.sleep(5)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', 'slow' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.stdout.split("\n")[:2] == ["imported", "interrupted True"], done.stderr
