"""``yarnam shell``: a shell in a task."""

from __future__ import annotations

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import job_argument, open_client

with on_first_use():
    from yarnam.cli.control import exec_command
    from yarnam.client.monitor.sessions import task_choice


@click.command("shell")
@job_argument
@click.option("--task", help="The task, such as worker-1. Default: that of rank 0.")
@click.option("-r", "--rank", type=click.IntRange(0), help="The process with this global rank.")
@click.pass_context
def command(ctx: click.Context, job: str, task: str | None, rank: int | None) -> int:
    """Open a shell in a task of a running job.

    The short form of `yarnam exec -it JOB -- bash`; `sh` where the container has no bash. The
    exit code is the shell's own.
    """
    with open_client(ctx) as client:
        handle = client.job(job)
        chosen = task_choice.choose_task(handle.status(), task, rank)
        return exec_command.run_on_terminal(handle, chosen, ())
