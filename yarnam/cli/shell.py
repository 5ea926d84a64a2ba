"""Runs one command and turns its outcome into an exit code and a readable message.

Besides the loops of the AM and of the agent, only this module catches all exceptions.
"""

from __future__ import annotations

import difflib
import importlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from yarnam._light_imports import on_first_use
from yarnam._version import __version__
from yarnam.cli.catalog import ENTRIES, SECTIONS
from yarnam.cli.crash_report import internal_error
from yarnam.cli.log_format import PrintableFormatter, log_to_stderr
from yarnam.cli.rendering.console import print_error, print_json, print_note
from yarnam.cli.signals import INTERRUPTED, Terminated
from yarnam.errors import BadSpec, ExitCode, UsageError, YarnamError
from yarnam.errors.full_disks import disk_full

if TYPE_CHECKING:
    from yarnam.client import Client

with on_first_use():
    from yarnam import client

COMPLETION_VARIABLE = "_YARNAM_COMPLETE"
"""Set by the shell completion that click generates."""
PIPE_CLOSED = 128 + signal.SIGPIPE
"""Exit code when the reader of our output went away, as shells have it."""


@dataclass(frozen=True)
class Shell:
    """What commands get as ``click.Context.obj``; tests inject a client with fakes here."""

    open_client: Callable[..., Client]


def _open_client(**settings: Any) -> client.Client:
    return client.Client(**settings)


class Catalog(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(ENTRIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = ENTRIES.get(cmd_name)
        if entry is None:
            return None
        found: click.Command = importlib.import_module(entry.module).command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in ENTRIES:
            close = difflib.get_close_matches(args[0], ENTRIES, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise click.UsageError(f"unknown command '{args[0]}'.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, entries in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(entry.name, entry.summary) for entry in entries])


@click.group(cls=Catalog, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="yarnam")
@click.option("-v", "--verbose", count=True, help="Log to stderr; -vv logs more.")
def root(verbose: int) -> None:
    """Run distributed deep-learning jobs on the GPUs of a Hadoop YARN cluster.

    A job gets all of its containers or none, placed as close together as possible. The exit code
    tells who has to act: see `yarnam docs exit-codes`.
    """
    if verbose:
        log_to_stderr(
            PrintableFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"),
            logging.DEBUG if verbose > 1 else logging.INFO,
        )


def run(arguments: Sequence[str], shell: Shell | None = None) -> int:
    """Run ``yarnam <arguments>``; returns the exit code and raises nothing."""
    as_json = _wants_json(arguments)
    if not arguments:
        for line in root.get_help(click.Context(root, info_name="yarnam")).split("\n"):
            print_note(line)
        return int(ExitCode.USAGE)
    try:
        code = _invoke(arguments, shell or Shell(_open_client))
        sys.stdout.flush()
    except click.exceptions.Exit as done:  # --help, --version
        return done.exit_code
    except click.ClickException as error:
        return _report(_usage_error(error), as_json)
    except YarnamError as error:
        return _report(error, as_json)
    except Terminated as end:
        # Whoever waits for this process is to see which signal ended it.
        signal.signal(end.number, signal.SIG_DFL)
        os.kill(os.getpid(), end.number)
        return 128 + end.number
    except (KeyboardInterrupt, click.exceptions.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        _forget(sys.stdout.fileno)
        return PIPE_CLOSED
    except Exception as error:  # noqa: BLE001 - the outermost frame: nothing may escape it
        return _report(_disk_full(error) or internal_error(error, arguments), as_json)
    return int(code or 0)


def _invoke(arguments: Sequence[str], shell: Shell) -> Any:
    if COMPLETION_VARIABLE in os.environ:
        return root.main(args=list(arguments), prog_name="yarnam")
    # Not through root.main: it swallows a closed pipe.
    with root.make_context("yarnam", list(arguments), obj=shell) as context:
        return root.invoke(context)


def _wants_json(arguments: Sequence[str]) -> bool:
    """Evaluated before parsing, so that usage errors are printed as JSON too."""
    before_dashes = arguments[: list(arguments).index("--")] if "--" in arguments else arguments
    return "--json" in before_dashes


def _usage_error(error: click.ClickException) -> YarnamError:
    context = getattr(error, "ctx", None)
    hint = f"For help: {context.command_path} --help" if context is not None else ""
    return UsageError(error.format_message(), hint=hint)


def _report(error: YarnamError, as_json: bool) -> int:
    error = _disk_full(error) or error
    as_plain = {"error": error_as_plain(error)}
    _attempt(lambda: print_json(as_plain) if as_json else sys.stdout.flush(), sys.stdout.fileno)
    _attempt(lambda: print_error(error.message, error.hint), sys.stderr.fileno)
    return int(error.exit_code)


def _attempt(report: Callable[[], object], fileno: Callable[[], int]) -> None:
    """Print to a stream whose disk may be full: the exit code says it all the same."""
    try:
        report()
    except OSError:
        _forget(fileno)


def _disk_full(error: BaseException) -> YarnamError | None:
    return disk_full(error, os.environ.get("TMPDIR") or "/tmp", os.curdir)  # noqa: S108 - a name


def error_as_plain(error: YarnamError) -> dict[str, Any]:
    """What ``--json`` shows of an error."""
    plain: dict[str, Any] = {
        "name": error.exit_code.name,
        "exit_code": int(error.exit_code),
        "blame": error.blame.value,
        "retryable": error.retryable,
        "message": error.message,
        "hint": error.hint,
    }
    if isinstance(error, BadSpec) and error.problems:
        plain["problems"] = [asdict(problem) for problem in error.problems]
    return plain


def _forget(fileno: Callable[[], int]) -> None:
    """Keep the interpreter's flush at exit from failing too, which would replace the exit code."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), fileno())
    except (OSError, ValueError):
        pass
