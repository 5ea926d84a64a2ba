"""``yarnam queues generate``, ``diff``, ``apply``, ``undo`` and ``history``: change the queues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import json_option, new_file_option, open_client
from yarnam.cli.queues.queues_lint_command import print_findings
from yarnam.cli.rendering.console import (
    date_time,
    print_document,
    print_json,
    print_line,
    print_lines,
    print_note,
    print_table,
)
from yarnam.client.data.output_file import write_output
from yarnam.errors import BadConfig, UsageError

if TYPE_CHECKING:
    from yarnam.client.queues.allocation_versions import AllocationVersion
    from yarnam.client.site import Site
    from yarnam.core.model.resources import Resources
    from yarnam.core.queues.comparison import Change, Effect

with on_first_use():
    from yarnam.adapters.yarn import allocation_xml
    from yarnam.cli.rendering import queue_text
    from yarnam.client.planning import snapshot_file
    from yarnam.client.queues import (
        allocation_versions,
        apply_file,
        lint_file,
        queue_policy,
        queue_view,
    )
    from yarnam.core.model import snapshot as cluster_snapshot
    from yarnam.core.queues import comparison, generation
    from yarnam.core.queues.capacity import capacity_conversion

cluster_option = click.option(
    "--cluster",
    default="",
    metavar="SNAPSHOT",
    help="Take the nodes from SNAPSHOT, a file by `yarnam nodes --save`.",
)


def _size(snapshot: str) -> Resources:
    nodes = [one for one in snapshot_file.read_snapshot(snapshot).nodes if one.is_usable]
    if not nodes:
        raise UsageError(f"{snapshot} has no node that runs")
    whole = nodes[0].total
    for node in nodes[1:]:
        whole = whole.plus(node.total)
    return whole


@click.command("generate")
@click.argument("policy", metavar="POLICY")
@cluster_option
@new_file_option
def generate(policy: str, cluster: str, output: str | None) -> None:
    """Generate an allocation file from a policy in GPUs.

    POLICY is a YAML file with teams, their guaranteed GPUs, weights and limits; see
    `yarnam docs queues`. The file passes `yarnam queues lint`.
    """
    found = queue_policy.read_policy(policy, _size(cluster) if cluster else None)
    text = generation.allocation_file(found)
    if output is None:
        print_document(text)
        return
    write_output(output, text, is_new=True)
    print_note(f"Wrote {output}. To see what it changes: yarnam queues diff OLD {output}")


@click.command("diff")
@click.argument("before", metavar="OLD")
@click.argument("after", metavar="NEW")
@cluster_option
@json_option
@click.pass_context
def diff(ctx: click.Context, before: str, after: str, cluster: str, as_json: bool) -> None:
    """Compare two allocation files in GPUs: shares, minimums, maximums and other settings.

    The shares are those with all queues in use, on the cluster as it is now, or on SNAPSHOT.
    """
    old, new = (allocation_xml.load_allocations(path) for path in (before, after))
    if cluster:
        size = _size(cluster)
    else:
        with open_client(ctx) as client:
            size = queue_view.queues_now(client.site).root.maximum
    changes = comparison.compare(old, new, size)
    if as_json:
        print_json([_change_plain(change) for change in changes])
        return
    _print_changes(changes)


@click.command("convert")
@click.argument("file", metavar="FILE")
@click.option(
    "--cluster",
    required=True,
    metavar="SNAPSHOT",
    help="Take the nodes from SNAPSHOT, a file by `yarnam nodes --save`.",
)
@new_file_option
@json_option
def convert(file: str, cluster: str, output: str | None, as_json: bool) -> None:
    """Show what a move from the Fair to the Capacity Scheduler changes for gangs.

    FILE is an allocation file. Each queue's share of GPUs with all queues in use becomes its
    capacity. Prints the GPUs of each queue before and after, and what its jobs will feel. With -o
    the settings are written as a capacity-scheduler.xml. Needs no cluster.
    """
    size = _size(cluster)
    if not size.gpus:
        raise UsageError(f"{cluster} has no GPUs")
    found = capacity_conversion.convert(allocation_xml.load_allocations(file), size)
    if output is not None:
        write_output(output, queue_text.settings_xml(found.settings), is_new=True)
        print_note(f"Wrote {output}. To check it: yarnam queues lint {output} --cluster {cluster}")
    if as_json:
        print_json(queue_text.conversion_plain(found))
        return
    print_lines(queue_text.conversion_lines(found))


target_option = click.option(
    "--to",
    "target",
    default="",
    metavar="PATH",
    help="The file that the ResourceManager reads. Default: as the site's configuration says.",
)


@click.command("apply")
@click.argument("file", metavar="FILE")
@target_option
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@json_option
@click.pass_context
def apply(ctx: click.Context, file: str, target: str, dry_run: bool, as_json: bool) -> None:
    """Give the ResourceManager another allocation file, and watch that it takes it.

    Refuses a file with errors (see `yarnam queues lint`). Shows what changes and what the jobs of
    each queue would feel. The file is replaced atomically; what was there stays beside it as a
    backup. Run it where the ResourceManager runs.
    """
    found = lint_file.lint_file(file)
    if lint_file.exit_code(found):
        print_findings(file, found)
        raise BadConfig(f"{file} has errors: nothing was changed")
    with open_client(ctx) as client:
        path = Path(target) if target else queue_view.allocation_file(client.site)
        _put_in_place(client.site, Path(file), path, dry_run, as_json)


@click.command("undo")
@target_option
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@json_option
@click.pass_context
def undo(ctx: click.Context, target: str, dry_run: bool, as_json: bool) -> None:
    """Take back the last `yarnam queues apply`; again, the one before it.

    Puts the backup in place as `apply` would, and says what the jobs of each queue would feel.
    Refused where the file was changed by other means since. Run it where the ResourceManager runs.
    """
    with open_client(ctx) as client:
        path = Path(target) if target else queue_view.allocation_file(client.site)
        last = allocation_versions.to_undo(path)
        backup = path.parent / last.backup
        _put_in_place(client.site, backup, path, dry_run, as_json, last.digest)


@click.command("history")
@target_option
@json_option
@click.pass_context
def history(ctx: click.Context, target: str, as_json: bool) -> None:
    """Show who has replaced the allocation file, when, and what changed in GPUs."""
    with open_client(ctx) as client:
        path = Path(target) if target else queue_view.allocation_file(client.site)
        size = queue_view.queues_now(client.site).root.maximum
    found = allocation_versions.versions(path)
    rows = [
        (one, _changes_of(path, one, made, size))
        for one, made in zip(found, allocation_versions.contents(path, found), strict=True)
    ]
    if as_json:
        print_json(
            [
                {
                    **asdict(one),
                    "changes": None
                    if changes is None
                    else [_change_plain(each) for each in changes],
                }
                for one, changes in rows
            ]
        )
        return
    if not rows:
        print_note(f"`yarnam queues apply` has never replaced {path}.")
        return
    table = []
    for one, changes in rows:
        when = (date_time(one.at_s), one.by, "undo" if one.undid else "apply")
        if changes is None:
            lost = "its file is gone or was changed by hand"
            table.append((*when, lost if one.backup else "there was no file before", "", "", ""))
            continue
        lines = list(_change_rows(changes)) or [("no queue changes", "", "", "")]
        table += [
            (*(when if not number else ("", "", "")), *row) for number, row in enumerate(lines)
        ]
    print_table(("WHEN", "BY", "HOW", "QUEUE", "WHAT", "BEFORE", "AFTER"), table)


def _changes_of(
    path: Path, version: AllocationVersion, made: Path | None, size: Resources
) -> tuple[Change, ...] | None:
    """Compares the two files of a version; returns ``None`` where one of them is gone."""
    before = path.parent / version.backup
    if made is None or not version.backup or not before.is_file():
        return None
    old, new = (allocation_xml.load_allocations(one) for one in (before, made))
    return tuple(comparison.compare(old, new, size))


def _put_in_place(
    site: Site, file: Path, path: Path, dry_run: bool, as_json: bool, undid: str = ""
) -> None:
    planned = allocation_xml.load_allocations(file)
    now = queue_view.queues_now(site)
    if now.scheduler is not cluster_snapshot.Scheduler.FAIR:
        raise UsageError(
            "the cluster does not run the Fair Scheduler: it reads no allocation file",
            hint="The Capacity Scheduler reads capacity-scheduler.xml at `yarn rmadmin "
            "-refreshQueues`; `yarnam queues lint` checks that file too.",
        )
    old = allocation_xml.load_allocations(path) if path.exists() else None
    changes = comparison.compare(old, planned, now.root.maximum) if old is not None else ()
    felt = tuple(comparison.effects(now, planned))
    backup, took_s = None, None
    if not dry_run:
        backup = apply_file.replace_file(file, path, undid)
        took_s = apply_file.await_taken(site, path)
    if as_json:
        print_json(
            {
                "changes": [_change_plain(change) for change in changes],
                "effects": [{"queue": one.queue, "message": one.message} for one in felt],
                "written": None if dry_run else str(path),
                "backup": str(backup) if backup else None,
                "taken_after_s": took_s,
            }
        )
        return
    _print_changes(changes)
    _print_effects(felt)
    if dry_run:
        print_note(f"Nothing was changed. Without --dry-run this writes {path}.")
    else:
        print_line(f"The ResourceManager has taken {path} after {took_s:.0f} s.")
        if backup is not None:
            print_line(f"Backup: {backup}")


_OF_A_WHOLE_QUEUE = ("steady share", "minimum", "maximum", "weight", "policy")
"""Settings shown of a queue that is added or removed; --json has all of them."""


def _change_rows(changes: tuple[Change, ...]) -> Iterator[tuple[str, str, str, str]]:
    """One row for each change; a queue that is new, or gone, has one in all."""
    for queue, group in groupby(changes, key=lambda one: one.queue):
        mine = list(group)
        is_new, is_gone = not any(c.before for c in mine), not any(c.after for c in mine)
        if not (is_new or is_gone):
            yield from ((queue, one.what, one.before or "-", one.after or "-") for one in mine)
            continue
        words = [
            f"{one.what} {one.after or one.before}" for one in mine if one.what in _OF_A_WHOLE_QUEUE
        ]
        row = ", ".join(words)
        yield (queue, "new queue", "-", row) if is_new else (queue, "queue removed", row, "-")


def _print_changes(changes: tuple[Change, ...]) -> None:
    if not changes:
        print_line("No queue changes.")
        return
    print_table(
        ("QUEUE", "WHAT", "BEFORE", "AFTER"),
        list(_change_rows(changes)),
    )


def _print_effects(felt: tuple[Effect, ...]) -> None:
    print_line("")
    if not felt:
        print_line("The jobs that run and wait now feel nothing.")
    for one in felt:
        print_line(f"{one.queue}: {one.message}")


def _change_plain(change: Change) -> dict[str, str | None]:
    return {
        "queue": change.queue,
        "what": change.what,
        "before": change.before or None,
        "after": change.after or None,
    }
