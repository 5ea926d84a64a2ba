"""``yarnam data ls`` and ``yarnam data locality``: what is on HDFS, and where."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from yarnam.cli.options import json_option, open_data
from yarnam.cli.output import is_terminal, print_json, say, table

if TYPE_CHECKING:
    from hdfs_utils import FileStatus, FileSystem


@click.command("ls")
@click.argument("path")
@click.option("-R", "--recursive", is_flag=True, help="All below, too.")
@click.option("-d", "--directory", is_flag=True, help="The directory itself.")
@json_option
@click.pass_context
def ls(ctx: click.Context, path: str, recursive: bool, directory: bool, as_json: bool) -> int:
    """List a directory of HDFS, or what fits a pattern such as '/data/*.parquet'."""
    from hdfs_utils.transfer.progress import human
    from yarnam.client.transfers import transfer_errors

    with open_data(ctx, path) as place, transfer_errors(f"listing {path}"):
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
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(s.mtime_ms / 1000))
        size = "-" if s.is_dir else human(s.length)
        name = s.path + ("/" if s.is_dir else "")
        rows.append([f"{s.permission:04o}", s.owner, s.group, size, when, _printable(name)])
    if rows:
        click.echo(table(("MODE", "OWNER", "GROUP", "SIZE", "CHANGED", "PATH"), rows))
    elif is_terminal():
        say("nothing is there")
    return 0


def _listed(fs: FileSystem, path: str, recursive: bool, directory: bool) -> list[FileStatus]:
    if any(sign in path for sign in "*?["):
        return list(fs.glob(path))
    status = fs.stat(path)
    if directory or not status.is_dir:
        return [status]
    return list(fs.walk(path) if recursive else fs.list(path))


def _printable(name: str) -> str:
    """A line break in a name would look like two files."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


@click.command("locality")
@click.argument("path")
@json_option
@click.pass_context
def locality(ctx: click.Context, path: str, as_json: bool) -> int:
    """Show on which nodes and racks the bytes below PATH lie."""
    from hdfs_utils.locality import locality as ask
    from hdfs_utils.transfer.progress import human
    from yarnam.client.transfers import transfer_errors

    with open_data(ctx, path) as place, transfer_errors(f"asking where {path} lies"):
        found = ask(place.files, path)
    if as_json:
        print_json(
            {
                "files": found.files,
                "bytes": found.size,
                "hosts": dict(found.hosts),
                "racks": dict(found.racks),
            }
        )
        return 0
    whole = max(found.size, 1)
    rows = [["rack", name, human(size), f"{size / whole:.0%}"] for name, size in found.racks]
    rows += [["node", name, human(size), f"{size / whole:.0%}"] for name, size in found.hosts]
    if rows:
        click.echo(table(("", "NAME", "BYTES", "OF ALL"), rows))
    say(f"{found.files} files, {human(found.size)}")
    return 0
