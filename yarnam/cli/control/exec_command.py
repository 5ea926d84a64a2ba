"""``yarnam exec``: run a command in a task."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import job_argument, json_option, open_client
from yarnam.cli.rendering.console import print_json_line, print_line, print_note
from yarnam.core.model.session_parts import EndKind, SessionData, SessionEnd, SessionOpened
from yarnam.errors import UsageError

if TYPE_CHECKING:
    from yarnam.client import Job
    from yarnam.client.monitor.sessions.task_choice import ChosenTask

with on_first_use():
    from yarnam.cli.control import exec_everywhere, session_streams
    from yarnam.client.monitor.sessions import task_choice

STDIN = 0
"""Read past Python's buffer."""

DOCS = "See: yarnam docs hands-on"


@click.command("exec")
@job_argument
@click.argument("words", metavar="-- COMMAND...", nargs=-1, type=click.UNPROCESSED)
@click.option("--task", help="The task, such as worker-1. Default: that of rank 0.")
@click.option("-r", "--rank", type=click.IntRange(0), help="The process with this global rank.")
@click.option("-i", "--stdin", "takes_input", is_flag=True, help="Pass standard input on.")
@click.option("-t", "--tty", "has_terminal", is_flag=True, help="Give the command a terminal.")
@click.option(
    "--detach", "is_detached", is_flag=True,
    help="Leave the command running, until the task's processes end.",
)  # fmt: skip
@click.option("--all", "is_everywhere", is_flag=True, help="Run it in every task.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    job: str,
    words: tuple[str, ...],
    task: str | None,
    rank: int | None,
    takes_input: bool,
    has_terminal: bool,
    is_detached: bool,
    is_everywhere: bool,
    as_json: bool,
) -> int:
    """Run a command in a task of a running job.

    It runs in the task's container, with the environment, the working directory and the GPUs of
    one of the task's processes. The exit code is the command's own, or 128 and the signal's
    number. Everything that the command has started ends with it. With --all the exit code is the
    largest one.
    """
    if not words:
        raise UsageError("no command is named", hint="For a shell: yarnam shell JOB")
    if has_terminal and (as_json or is_detached):
        raise UsageError("--tty goes with neither --json nor --detach")
    if is_everywhere and (task or rank is not None or takes_input or has_terminal):
        raise UsageError("--all goes with none of --task, --rank, --stdin and --tty")
    command = tuple(os.fsencode(word) for word in words)
    with open_client(ctx) as client:
        handle = client.job(job)
        if is_everywhere:
            tasks = task_choice.all_tasks(handle.status())
            everywhere = exec_everywhere.EveryTask(
                handle, command, is_detached=is_detached, as_json=as_json
            )
            return everywhere.run(tasks)
        chosen = task_choice.choose_task(handle.status(), task, rank)
        if has_terminal:
            return run_on_terminal(handle, chosen, command)
        return _run(handle, chosen, command, takes_input, is_detached, as_json)


def run_on_terminal(job: Job, chosen: ChosenTask, command: tuple[bytes, ...]) -> int:
    """Without a command it is a shell. Raises UsageError: standard input is not a terminal."""
    if not os.isatty(STDIN):
        raise UsageError(
            "standard input is not a terminal", hint="Leave out --tty to use pipes instead."
        )
    session = job.open_session(
        chosen,
        command=command,
        window=session_streams.window_size(STDIN),
        terminal_type=os.environ.get("TERM", ""),
    )
    streams = session_streams.SessionStreams(session, session_streams.print_data, STDIN)
    with session_streams.raw_terminal(STDIN, session):
        end = streams.wait()
    return _finish(end, chosen)


def _run(
    job: Job,
    chosen: ChosenTask,
    command: tuple[bytes, ...],
    takes_input: bool,
    is_detached: bool,
    as_json: bool,
) -> int:
    def print_part(part: SessionData) -> None:
        stream = "stderr" if part.is_error else "stdout"
        text = part.data.decode("utf-8", "replace")
        print_json_line({"task": chosen.name, "stream": stream, "text": text})

    def print_opened(opened: SessionOpened) -> None:
        if not is_detached:
            return
        facts = {"task": chosen.name, "pid": opened.pid, "log": opened.log}
        if as_json:
            print_json_line(facts)
        else:
            print_line(f"process {opened.pid} in {chosen.name}, output in {opened.log}")

    session = job.open_session(chosen, command=command, is_detached=is_detached)
    stdin = STDIN if takes_input and not is_detached else None
    on_data = print_part if as_json else session_streams.print_data
    end = session_streams.SessionStreams(session, on_data, stdin, print_opened).wait()
    code = _finish(end, chosen)
    if as_json:
        plain = {"task": chosen.name, "exit_code": code, "reason": end.reason}
        print_json_line(plain)
    return code


def _finish(end: SessionEnd, chosen: ChosenTask) -> int:
    code = session_streams.exit_code(end, chosen.name, DOCS)
    if end.reason and end.kind is EndKind.EXITED:
        print_note(f"{chosen.name}: {end.reason}")
    return code
