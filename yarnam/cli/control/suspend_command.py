"""``yarnam suspend``: stop a job at a checkpoint and give back its GPUs."""

from __future__ import annotations

import click

from yarnam.cli.options import job_argument, json_option, open_client, seconds_of
from yarnam.cli.rendering.console import print_json, print_line
from yarnam.cli.rendering.status_text import as_plain
from yarnam.core.model.events import SUSPENSION_S
from yarnam.core.model.printable import duration


@click.command("suspend")
@job_argument
@click.option("--reason", default="", help="Show this reason in the job's status.")
@click.option(
    "--for",
    "limit",
    default=None,
    metavar="DURATION",
    help=f"Resume by itself after this time; default: {SUSPENSION_S / 86400:.0f}d.",
)
@click.option("--force", is_flag=True, help="Suspend a job without a checkpoint directory too.")
@json_option
@click.pass_context
def command(
    ctx: click.Context, job: str, reason: str, limit: str | None, force: bool, as_json: bool
) -> None:
    """Stop a job at a checkpoint and give back its GPUs.

    The processes finish the step that they are in and save; all containers go back to YARN. The
    ApplicationMaster stays. `yarnam resume` acquires the gang again, and the processes continue
    from their checkpoint. The command returns when the job holds nothing any more."""
    limit_s = SUSPENSION_S if limit is None else seconds_of(limit, "--for")
    with open_client(ctx) as client:
        handle = client.job(job)
        status = handle.suspend(reason, limit_s=limit_s, force=force)
    if as_json:
        print_json(as_plain(status))
    else:
        # One that was suspended already keeps the limit that it had.
        left_s = limit_s if status.deadline_s is None else status.deadline_s - status.at_s
        print_line(f"{handle.id} is suspended for up to {duration(left_s)}")
        print_line(f"To go on: yarnam resume {handle.id}")
