"""``yarnam submit``: check a spec, stage its files, start the job."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click

from yarnam.cli.options import json_option, open_client
from yarnam.cli.output import is_terminal, print_json, print_json_line, say

if TYPE_CHECKING:
    from yarnam.client import Client
    from yarnam.ports.submission import Launcher


@click.command("submit")
@click.argument("spec", type=click.Path(exists=True, dir_okay=False, readable=True))
@click.option(
    "--watch/--detach",
    default=None,
    help="Follow the job to its end, or leave it alone. Default: follow on a terminal.",
)
@click.option("--dry-run", is_flag=True, help="Show the plan; ask nothing of YARN, write nothing.")
@click.option("-q", "--queue", help="In place of the spec's queue.")
@click.option("-n", "--name", help="In place of the spec's name.")
@click.option(
    "--local", is_flag=True, help="On the embedded cluster of this machine, started if it is down."
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
    local: bool,
    as_json: bool,
) -> int:
    """Check a spec against the cluster, stage its files, start the job.

    An impossible ask is refused with its reason before anything is asked of YARN. With --watch the
    exit code is the job's own; with --detach the application id is printed and the code is 0.
    """
    settings: dict[str, Any] = {"local": True} if local else {}
    if not as_json:
        settings["on_progress"] = lambda text: say(f"{text} …")
    with ExitStack() as stack:
        # Before the client's own imports: its JVM would be what a submit waits for longest.
        ahead = None if dry_run or local else stack.enter_context(_driver_ahead())
        client = stack.enter_context(open_client(ctx, **settings))
        if dry_run:
            return _dry_run(client, spec, queue, name, as_json=as_json)
        given = {} if ahead is None else {"launcher": ahead}
        job = client.submit(spec, queue=queue, name=name, **given)
        if watch is None:
            watch = is_terminal() and not as_json
        if watch:
            from yarnam.cli.following import follow

            if as_json:
                print_json_line({"application": job.id, "directory": job.directory})
            else:
                say(f"Submitted {job.id}")
            return follow(job, as_json=as_json)
        if as_json:
            print_json({"application": job.id, "directory": job.directory})
        else:
            click.echo(job.id)
            say(f"Follow it: yarnam watch {job.id}")
    return 0


@contextmanager
def _driver_ahead() -> Iterator[Launcher | None]:
    """Skein's driver for the cluster of HADOOP_CONF_DIR, starting; None: not wanted there, or where
    that is has still to be found out (or said to be missing) by others."""
    conf_dir = os.environ.get("HADOOP_CONF_DIR", "")
    if not os.path.isfile(os.path.join(conf_dir, "yarn-site.xml")):  # noqa: PTH113, PTH118
        yield None
        return
    from yarnam.adapters.hadoop_site import read_settings
    from yarnam.adapters.skein_launcher import (
        SkeinLauncher,
        driver_environment,
        is_driver_wanted,
    )

    if not is_driver_wanted(read_settings(conf_dir, "core-site.xml"), os.environ):
        yield None
        return
    launcher = SkeinLauncher(driver_environment(conf_dir))
    launcher.start()
    try:
        yield launcher
    finally:
        launcher.close()


def _dry_run(
    client: Client, spec: str, queue: str | None, name: str | None, *, as_json: bool
) -> int:
    from dataclasses import asdict

    from yarnam.cli.plan_text import as_plain, as_text
    from yarnam.client.preview import planned_uploads

    found = client.outlook(spec, queue=queue, name=name)
    uploads = planned_uploads(client.site, found.job)
    if as_json:
        print_json({**as_plain(found), "uploads": [asdict(upload) for upload in uploads]})
        return 0
    for line in as_text(found):
        click.echo(line)
    for warning in (w for outcome in found.checked.inputs for w in outcome.warnings):
        say(warning)
    click.echo("\nContainers get:")
    for upload in uploads:
        size = "" if upload.size_bytes is None else f" ({upload.size_bytes / 1e6:.1f} MB)"
        there = ", on HDFS already" if upload.is_there else ", to be uploaded"
        click.echo(f"  {upload.name}{size}: {upload.source}{there}")
    return 0
