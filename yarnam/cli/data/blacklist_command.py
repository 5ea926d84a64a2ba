"""``yarnam blacklist``: corrupt input files, shared by all jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import json_option, open_client, open_data
from yarnam.cli.rendering.console import (
    clock_time,
    json_text,
    print_json,
    print_json_line,
    print_line,
    print_note,
    print_table,
)
from yarnam.client.data.output_file import write_output
from yarnam.errors import ExitCode

if TYPE_CHECKING:
    from hdfs_utils import FileSystem
    from yarnam.adapters.hdfs.shared_blacklist import SharedBlacklist
    from yarnam.client.data.blacklist_entries import ListedEntry

with on_first_use():
    from hdfs_utils import blacklist as hdfs_utils_blacklist
    from hdfs_utils import validation
    from hdfs_utils.blacklist import entries
    from yarnam.client.data import blacklist_entries

path_argument = click.argument("path")


@click.group("blacklist")
def command() -> None:
    """Manage the list of corrupt input files.

    Entries are stored beside the data. Entries of users who may write the data are trusted; those
    of other users only produce warnings.
    """


@contextmanager
def _opened(ctx: click.Context, path: str) -> Iterator[tuple[FileSystem, SharedBlacklist, str]]:
    """The file system of ``path``, its blacklist and the user name."""
    with open_data(ctx, path) as location:
        blacklist = blacklist_entries.open_blacklist(location)
        try:
            yield location.files, blacklist, location.user
        finally:
            blacklist.close()


@command.command("ls")
@click.argument("path", required=False)
@click.option("-a", "--all", "with_all", is_flag=True, help="Include cleared and outdated entries.")
@json_option
@click.pass_context
def list_(ctx: click.Context, path: str | None, with_all: bool, as_json: bool) -> None:
    """List the entries for files at or below PATH (default: your home directory)."""
    where = path or ""
    if not where:
        with open_client(ctx) as client:
            where = client.site.paths.home
    with _opened(ctx, where) as (files, blacklist, _):
        found, looked = blacklist_entries.find(files, blacklist, where)
    shown = [f for f in found if with_all or (f.state.value != "cleared" and f.present == "same")]
    if as_json:
        print_json([_plain(f) for f in shown])
    else:
        _print_table(shown)
    for problem in looked.problems:
        print_note(f"warning: not read: {problem}")
    hidden = len(found) - len(shown)
    if not as_json and (hidden or not shown):
        more = f"; {hidden} cleared or outdated (see --all)" if hidden else ""
        print_note(f"{len(shown)} entries at or below {where}{more}")


def _print_table(shown: list[ListedEntry]) -> None:
    if not shown:
        return
    rows = [
        [
            f.state.value + ("" if f.is_trusted else "?"),
            f.present,
            f.claim.reason,
            f.claim.by,
            clock_time(f.claim.last_s),
            f.entry.path + _records(f),
        ]
        for f in shown
    ]
    print_table(("STATE", "FILE", "REASON", "BY", "LAST", "PATH"), rows)
    if any(not f.is_trusted for f in shown):
        print_note("?: reported by a user without write access; only warns")


def _records(listed: ListedEntry) -> str:
    first, last = listed.entry.key.first, listed.entry.key.last
    if first < 0:
        return ""
    return f" record {first}" if first == last else f" records {first} to {last}"


def _plain(listed: ListedEntry) -> dict[str, Any]:
    key = listed.entry.key
    return {
        "path": key.path,
        "state": listed.state.value,
        "trusted": listed.is_trusted,
        "file": listed.present,
        "length": key.version.length,
        "mtime_ms": key.version.mtime_ms,
        "checksum": key.version.checksum,
        "records": None if key.first < 0 else [key.first, key.last],
        "claims": [
            {
                "state": claim.state.value,
                "by": claim.by,
                "job": claim.job,
                "reason": claim.reason,
                "evidence": claim.evidence,
                "first_s": claim.first_s,
                "last_s": claim.last_s,
                "expires_s": claim.expires_s or None,
            }
            for claim in sorted(listed.entry.claims, key=lambda c: c.last_s)
        ],
    }


@command.command()
@path_argument
@json_option
@click.pass_context
def show(ctx: click.Context, path: str, as_json: bool) -> None:
    """Show all entries for one file, with their history."""
    with _opened(ctx, path) as (files, blacklist, _):
        found, _looked = blacklist_entries.find(files, blacklist, path)
        away = blacklist_entries.in_quarantine(files, path)
    if as_json:
        print_json({"entries": [_plain(f) for f in found], "quarantined": [q.now for q in away]})
        return
    for number, one in enumerate(found):
        if number:
            print_line()
        _print_entry(one)
    for item in away:
        print_line(f"quarantined at {item.now} by {item.by}: {item.reason}")
    if not found and not away:
        print_note(f"No entries for {path}.")


def _print_entry(listed: ListedEntry) -> None:
    key = listed.entry.key
    trust = (
        "trusted" if listed.is_trusted else "reported by a user without write access; only warns"
    )
    print_line(f"{key.path}{_records(listed)}")
    print_line(f"  state     {listed.state.value} ({trust})")
    written = clock_time(key.version.mtime_ms / 1000)
    print_line(f"  version   {key.version.length} bytes, written {written}; now: {listed.present}")
    if key.version.checksum:
        print_line(f"  checksum  {key.version.checksum}")
    for claim in sorted(listed.entry.claims, key=lambda c: c.last_s):
        job = f", job {claim.job}" if claim.job else ""
        until = f", until {clock_time(claim.expires_s)}" if claim.expires_s else ""
        when = f"{clock_time(claim.last_s)}{until}"
        why = f"{claim.reason}: {claim.evidence}" if claim.evidence else claim.reason
        print_line(f"  {claim.state.value.ljust(9)} by {claim.by}{job}, {when}: {why}")


@command.command()
@path_argument
@click.option("-r", "--reason", default="by-hand", show_default=True, help="A one-word reason.")
@click.option("-e", "--evidence", default="", help="Describe the evidence.")
@click.option("--record", type=click.IntRange(0), help="Mark only this record, counted from 0.")
@click.option("--proved", is_flag=True, help="Mark it as proved. Default: suspected.")
@json_option
@click.pass_context
def add(
    ctx: click.Context,
    path: str,
    reason: str,
    evidence: str,
    record: int | None,
    proved: bool,
    as_json: bool,
) -> None:
    """Mark the current version of a file as corrupt. To prove or clear the entry, use `check`."""
    state = hdfs_utils_blacklist.State.PROVED if proved else hdfs_utils_blacklist.State.SUSPECTED
    with _opened(ctx, path) as (files, blacklist, user):
        claim = entries.new_claim(state, user, reason, evidence)
        added = blacklist_entries.add_by_hand(files, blacklist, path, claim, record)
    if as_json:
        print_json({"location": added.location, "trusted": added.is_trusted, "state": state.value})
        return
    print_line(f"{state.value}: {path}")
    if not added.is_trusted:
        print_note(
            "You have no write access to the file's directory: the entry only warns"
            f" ({added.location})."
        )


@command.command()
@path_argument
@click.option("--restore", is_flag=True, help="Move quarantined files back.")
@click.option("-r", "--reason", default="by-hand", show_default=True, help="Record this reason.")
@json_option
@click.pass_context
def clear(ctx: click.Context, path: str, restore: bool, reason: str, as_json: bool) -> None:
    """Clear the entries for files at or below PATH.

    An entry applies to one version of a file: a file that is rewritten needs no clearing.
    """
    with _opened(ctx, path) as (files, blacklist, user):
        done = blacklist_entries.clear(files, blacklist, path, user, reason, bring_back=restore)
    is_weak = any(f.is_trusted for f in done.entries) and not all(
        location.is_trusted for location in done.places
    )
    if as_json:
        print_json(
            {
                "cleared": [f.entry.path for f in done.entries],
                "restored": [q.origin for q in done.restored],
                "kept_out": list(done.kept_out),
                "without_effect": is_weak,
            }
        )
    else:
        for one in done.entries:
            print_line(f"cleared: {one.entry.path}{_records(one)}")
        for item in done.restored:
            print_line(f"restored: {item.origin}")
        if not done.entries and not done.restored:
            print_note(f"Nothing to clear at or below {path}.")
    for problem in done.kept_out:
        print_note(problem)
    if is_weak:
        print_note(
            "You have no write access to the data's directory: entries of its owners remain."
        )


@command.command()
@path_argument
@click.option(
    "-f", "--format", "format_name", default="", help="The format of the files. Default: by name."
)
@json_option
@click.pass_context
def check(ctx: click.Context, path: str, format_name: str, as_json: bool) -> int:
    """Check the listed files at or below PATH again, and prove or clear each entry.

    Exits 65 if a file is proved corrupt.
    """
    with _opened(ctx, path) as (files, blacklist, user):
        found, _ = blacklist_entries.find(files, blacklist, path)
        standing = [f for f in found if f.state.value != "cleared" and f.present == "same"]
        done = blacklist_entries.recheck(
            files, blacklist, standing, user, validation.CheckOptions(format=format_name)
        )
    if as_json:
        print_json([{"path": d.report.path, "outcome": d.outcome} for d in done])
    for one in [] if as_json else done:
        print_line(f"{one.outcome}: {one.report.path}")
    if not done and not as_json:
        print_note(f"No entries at or below {path}.")
    return int(ExitCode.BAD_SPEC if any(d.outcome == "proved" for d in done) else ExitCode.OK)


@command.command()
@path_argument
@click.option("-o", "--output", help="Write to this local file. Default: standard output.")
@click.pass_context
def export(ctx: click.Context, path: str, output: str | None) -> None:
    """Print all entries at or below PATH as JSON Lines, one per version of a file."""
    with _opened(ctx, path) as (files, blacklist, _):
        found, _looked = blacklist_entries.find(files, blacklist, path)
    if output is None:
        for one in found:
            print_json_line(_plain(one))
        return
    text = "".join(f"{json_text(_plain(one))}\n" for one in found)
    write_output(output, text)
    print_note(f"Wrote {len(found)} entries to {output}")
