"""``yarnam data ls`` and ``yarnam data locality``: files on HDFS and the nodes that store them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import json_option, open_data
from yarnam.cli.rendering.console import (
    date_time,
    is_terminal,
    print_json,
    print_note,
    print_table,
)

if TYPE_CHECKING:
    from hdfs_utils import FileStatus, FileSystem

with on_first_use():
    from hdfs_utils import filesystem
    from hdfs_utils.transfer import replica_locality
    from yarnam.client.data import transfer_ends


@click.command("ls")
@click.argument("path")
@click.option("-R", "--recursive", is_flag=True, help="List subdirectories recursively.")
@click.option(
    "-d", "--directory", is_flag=True, help="List the directory itself, not its contents."
)
@json_option
@click.pass_context
def ls(ctx: click.Context, path: str, recursive: bool, directory: bool, as_json: bool) -> int:
    """List a directory on HDFS, or the files that match a pattern such as '/data/*.parquet'."""
    with open_data(ctx, path) as place, transfer_ends.transfer_errors(f"listing {path}"):
        found = _listed(place.files, path, recursive, directory)
    if as_json:
        print_json(
            [
                {
                    "path": s.path,
                    "is_dir": s.is_dir,
                    "bytes": s.length,
                    "mtime_ms": s.mtime_ms,
                    "owner": s.owner,
                    "group": s.group,
                    "permission": f"{s.permission:o}",
                    "replication": s.replication,
                }
                for s in found
            ]
        )
        return 0
    rows = []
    for s in found:
        when = date_time(s.mtime_ms / 1000)
        size = "-" if s.is_dir else filesystem.format_bytes(s.length)
        name = s.path + ("/" if s.is_dir else "")
        rows.append([f"{s.permission:04o}", s.owner, s.group, size, when, name])
    if rows:
        print_table(("MODE", "OWNER", "GROUP", "SIZE", "MODIFIED", "PATH"), rows)
    elif is_terminal():
        print_note("No files found.")
    return 0


def _listed(fs: FileSystem, path: str, recursive: bool, directory: bool) -> list[FileStatus]:
    if any(sign in path for sign in "*?["):
        return list(fs.glob(path))
    status = fs.stat(path)
    if directory or not status.is_dir:
        return [status]
    return list(fs.walk(path) if recursive else fs.list(path))


@click.command("locality")
@click.argument("path")
@json_option
@click.pass_context
def locality(ctx: click.Context, path: str, as_json: bool) -> int:
    """Show which nodes and racks store the data below PATH."""
    with open_data(ctx, path) as place, transfer_ends.transfer_errors(f"asking where {path} lies"):
        found = replica_locality.replica_locality(place.files, path)
    if as_json:
        spread = {"hosts": dict(found.hosts), "racks": dict(found.racks)}
        print_json({"files": found.files, "bytes": found.size, **spread})
        return 0
    whole = max(found.size, 1)
    rows = [
        [kind, name, filesystem.format_bytes(size), f"{size / whole:.0%}"]
        for kind, sizes in (("rack", found.racks), ("node", found.hosts))
        for name, size in sizes
    ]
    if rows:
        print_table(("", "NAME", "BYTES", "OF ALL"), rows)
    print_note(f"{found.files} files, {filesystem.format_bytes(found.size)}")
    return 0
