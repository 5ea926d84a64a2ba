"""``yarnam submit``: check a spec, stage its files, start the job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from yarnam.cli.options import json_option, open_client
from yarnam.cli.output import is_terminal, print_json, print_json_line, say, table

if TYPE_CHECKING:
    from yarnam.client import CheckedJob, Client
    from yarnam.client.preview import Upload


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
    with open_client(ctx, **settings) as client:
        if dry_run:
            return _dry_run(client, spec, queue, name, as_json=as_json)
        job = client.submit(spec, queue=queue, name=name)
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


def _dry_run(
    client: Client, spec: str, queue: str | None, name: str | None, *, as_json: bool
) -> int:
    from yarnam.client.preview import planned_uploads

    checked = client.plan(spec, queue=queue, name=name)
    uploads = planned_uploads(client.site, checked.job)
    if as_json:
        print_json(_as_plain(checked, uploads))
    else:
        for line in _as_text(checked, uploads):
            click.echo(line)
    return 0


def _as_plain(checked: CheckedJob, uploads: list[Upload]) -> dict[str, Any]:
    from dataclasses import asdict

    from yarnam.client.staging import without_secrets
    from yarnam.wire.codec import to_plain

    public, _ = without_secrets(checked.job)
    return {
        "job": to_plain(public),
        "plan": to_plain(checked.plan),
        "uploads": [asdict(upload) for upload in uploads],
    }


def _as_text(checked: CheckedJob, uploads: list[Upload]) -> Iterator[str]:
    job = checked.job
    yield f"{job.name}: {job.gpus} GPUs, queue {job.queue}, {job.framework.value}"
    for role in job.roles:
        each = role.resources
        yield (
            f"  {role.name}: {role.tasks} x ({each.gpus} GPUs, {each.vcores} vcores, "
            f"{each.memory_mib} MiB), {role.processes_per_task} processes each"
        )
    if job.flexible_shape:
        yield "  the planner may cut it otherwise, with the same GPUs and shares"
    am = job.am.resources
    yield f"  ApplicationMaster: {am.vcores} vcores, {am.memory_mib} MiB"
    yield ""
    yield "Placements, the first that fits is taken:"
    rows = []
    for rung in checked.plan.rungs:
        asks = " + ".join(f"{ask.count} x {ask.target.resources.gpus} GPUs" for ask in rung.asks)
        rows.append((str(rung.number), rung.level.name, asks, f"{rung.score:.2f}", rung.reason))
    yield table(("RUNG", "LEVEL", "CONTAINERS", "SCORE", "WHY"), rows)
    yield ""
    yield "Containers get:"
    for upload in uploads:
        size = "" if upload.size_bytes is None else f" ({upload.size_bytes / 1e6:.1f} MB)"
        there = ", on HDFS already" if upload.is_there else ", to be uploaded"
        yield f"  {upload.name}{size}: {upload.source}{there}"
