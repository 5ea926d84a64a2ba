"""``yarnam submit``: check a spec, upload its files, start the job."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import json_option, open_client, queue_option
from yarnam.cli.rendering.console import (
    is_confirmed,
    is_terminal,
    print_json,
    print_json_line,
    print_line,
    print_lines,
    print_note,
)
from yarnam.cli.rendering.live_status import follow
from yarnam.cli.rendering.plan_text import as_plain, as_text
from yarnam.cli.rendering.transfer_progress import transfer_progress
from yarnam.errors import PathTaken, UsageError

if TYPE_CHECKING:
    from yarnam.client import Client
    from yarnam.ports.job_access import Launcher

with on_first_use():
    from yarnam.adapters.skein import driver
    from yarnam.cli.jobs import submit_array
    from yarnam.client.submit import dry_run as submit_dry_run


@click.command("submit")
@click.argument("spec", type=click.Path(exists=True, dir_okay=False, readable=True))
@click.option(
    "--watch/--detach",
    default=None,
    help="Follow the job until it ends, or return at once. Default: watch on a terminal.",
)
@click.option(
    "--dry-run", is_flag=True, help="Show the plan without submitting or writing anything."
)
@queue_option
@click.option("-n", "--name", help="Use this name instead of the spec's.")
@click.option(
    "--idempotency-key",
    help="If a job was submitted with this key before, use that job instead of starting another.",
)
@click.option(
    "--takeover",
    is_flag=True,
    help="If a job of yours writes to the same checkpoints or outputs, end it at a checkpoint.",
)
@click.option("--yes", is_flag=True, help="With --takeover: do not ask.")
@click.option(
    "--array",
    metavar="INDICES",
    help="Submit a job for each index: 0-9, 1,5,7 or 0-20:5; 0-9%4 keeps at most 4 alive.",
)
@click.option(
    "--local",
    is_flag=True,
    help="Submit to the embedded cluster of this machine; start it if needed.",
)
@click.option(
    "--shared-machine",
    is_flag=True,
    help="With --local: start the cluster even if other people use this machine.",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    spec: str,
    watch: bool | None,
    dry_run: bool,
    queue: str | None,
    name: str | None,
    idempotency_key: str | None,
    takeover: bool,
    yes: bool,
    array: str | None,
    local: bool,
    shared_machine: bool,
    as_json: bool,
) -> int:
    """Submit a job: check its spec, upload its files and start it.

    A job that can never fit is refused with the reason before anything is submitted. With --watch,
    the exit code is the job's; with --detach, the command prints the application id and exits 0.

    A job that writes to the checkpoint directory or the outputs of a job that has not ended is
    refused; --takeover ends the other job first, if it is yours.

    With --array, ${YARNAM_ARRAY_INDEX} in any text of the spec is the index. The command stays
    until the last job is submitted; with --watch, until all have ended: the exit code is that of
    the first that failed.
    """
    if array and dry_run:
        raise UsageError("--dry-run shows one job", hint="Leave out --array.")
    if takeover and (array or dry_run):
        other = "--array" if array else "--dry-run"
        raise UsageError("--takeover is for the submit of one job", hint=f"Leave out {other}.")
    settings: dict[str, Any] = {"local": True, "shared_machine": shared_machine} if local else {}
    if not as_json:
        settings["on_progress"] = lambda text: print_note(f"{text} …")
        settings["open_progress"] = lambda label: transfer_progress(label, is_silent=False)
    with ExitStack() as stack:
        # Before the client's own imports: its JVM would be what a submit waits for longest.
        ahead = None if dry_run or local or array else stack.enter_context(_driver_ahead())
        client = stack.enter_context(open_client(ctx, **settings))
        if dry_run:
            return _dry_run(client, spec, queue, name, as_json=as_json)
        if array:
            members = client.submit_array(
                spec, array, queue=queue, name=name, idempotency_key=idempotency_key
            )
            return submit_array.follow_array(members, watch=bool(watch), as_json=as_json)
        submit = partial(
            client.submit, spec, queue=queue, name=name, idempotency_key=idempotency_key
        )
        try:
            job = submit(launcher=ahead, takeover=takeover and yes)
        except PathTaken as error:
            if not takeover or not error.application:
                raise
            _must_agree(error)
            job = submit(takeover=error.application)
        if watch is None:
            watch = is_terminal() and not as_json
        if watch:
            if as_json:
                print_json_line({"application": job.id, "directory": job.directory})
            else:
                print_note(f"Submitted {job.id}")
            return follow(job, as_json=as_json)
        if as_json:
            print_json({"application": job.id, "directory": job.directory})
        else:
            print_line(job.id)
            print_note(f"To follow it: yarnam watch {job.id}")
    return 0


def _must_agree(error: PathTaken) -> None:
    """Ask whether the other job may be ended. Raises the error if not."""
    print_note(error.message)
    if not sys.stdin.isatty():
        raise UsageError(
            "nobody confirmed that the other job may be ended", hint="To end it: --takeover --yes"
        )
    if not is_confirmed(f"End {error.application} at a checkpoint?"):
        raise error


@contextmanager
def _driver_ahead() -> Iterator[Launcher | None]:
    """Skein's driver for the cluster of HADOOP_CONF_DIR, already starting. ``None`` means not
    needed, or the configuration is still to be found (or reported missing) by the client."""
    conf_dir = os.environ.get("HADOOP_CONF_DIR", "")
    if not os.path.isfile(os.path.join(conf_dir, "yarn-site.xml")):  # noqa: PTH113, PTH118
        yield None
        return

    if not driver.is_driver_wanted(os.environ):
        yield None
        return
    launcher = driver.SkeinLauncher(driver.driver_environment(conf_dir))
    launcher.start()
    try:
        yield launcher
    finally:
        launcher.close()


def _dry_run(
    client: Client, spec: str, queue: str | None, name: str | None, *, as_json: bool
) -> int:
    found = client.outlook(spec, queue=queue, name=name)
    uploads = submit_dry_run.planned_uploads(client.site, found.job)
    if as_json:
        print_json({**as_plain(found), "uploads": [asdict(upload) for upload in uploads]})
        return 0
    print_lines(as_text(found))
    for warning in (w for outcome in found.checked.inputs for w in outcome.warnings):
        print_note(warning)
    print_lines(("", "Files in the containers:"))
    for upload in uploads:
        size = "" if upload.size_bytes is None else f" ({upload.size_bytes / 1e6:.1f} MB)"
        ignored_files = f", {upload.ignored_files} files left out" if upload.ignored_files else ""
        there = ", already on HDFS" if upload.is_there else ", will be uploaded"
        print_line(f"  {upload.name}{size}: {upload.source}{ignored_files}{there}")
    for notice in (notice for upload in uploads for notice in upload.notices):
        print_note(notice)
    return 0
