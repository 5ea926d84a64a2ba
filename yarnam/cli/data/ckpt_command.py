"""``yarnam ckpt``: the checkpoints in a directory."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import json_option
from yarnam.cli.rendering.checkpoint_text import (
    as_plain,
    decision_as_plain,
    decision_row,
    facts,
    row,
    short,
)
from yarnam.cli.rendering.console import print_json, print_line, print_note, print_table
from yarnam.cli.rendering.transfer_progress import transfer_progress
from yarnam.core.model.printable import size_text
from yarnam.errors import ExitCode, Unavailable, UsageError

if TYPE_CHECKING:
    from hdfs_utils import FileSystem
    from hdfs_utils.checkpoints import Checkpoint
    from hdfs_utils.checkpoints.catalog import CheckpointListing

with on_first_use():
    from hdfs_utils import checkpoints, errors
    from hdfs_utils.checkpoints import catalog, export, file_sets
    from yarnam.adapters.hdfs import error_map
    from yarnam.client import site

T = TypeVar("T")

NEWEST = "newest"

_directory = click.argument("directory", metavar="DIRECTORY")
_which = click.argument("which", metavar="[CHECKPOINT]", default=NEWEST)


@click.group()
def command() -> None:
    """Manage checkpoints.

    DIRECTORY is the checkpoint.directory of the spec: a path on HDFS or a URI (hdfs://, file://).
    CHECKPOINT is a step, a name as shown by `ls`, or `newest`: the newest complete checkpoint.
    """


@command.command("ls")
@_directory
@json_option
def ls(directory: str, as_json: bool) -> None:
    """List checkpoints, newest first: whole, torn, unfinished or set aside.

    Sets of files (`checkpoint.mirror`) have the number of the set as their step. Does not read the
    data; to check it, use `verify`.
    """
    with error_map.hdfs_errors("listing checkpoints"):
        fs, root = _open(directory)
        found = catalog.list_checkpoints(fs, root)
        for rank in file_sets.known_ranks(fs, root):
            found += catalog.list_checkpoints(fs, file_sets.rank_directory(root, rank))
    if as_json:
        print_json([as_plain(fs, one) for one in found])
    elif found:
        headers = ("STEP", "STATE", "RANKS", "SIZE", "SAVED", "BY", "METRICS", "NAME")
        print_table(headers, [row(one, root) for one in found], colour_column=1)
        for one in found:
            if one.reason and one.state.value != "whole":
                print_note(f"{short(one.path)}: {one.reason}")
    else:
        print_note(f"No checkpoints in {fs.uri}{root}.")


@command.command("verify")
@_directory
@click.argument("which", metavar="[CHECKPOINT]", default="all")
@json_option
def verify(directory: str, which: str, as_json: bool) -> int:
    """Verify the checksums of checkpoints, by default of all.

    Changes nothing: the next restore sets a corrupt checkpoint aside. Exits 65 if a checkpoint is
    torn: its data does not match its manifest. A checkpoint without a manifest is unfinished and
    may be being saved.
    """
    with error_map.hdfs_errors("verifying checkpoints"):
        fs, root = _open(directory)
        results = [_verified(fs, one, as_json) for one in _chosen(fs, root, which)]
    if as_json:
        print_json(results)
    else:
        for result in results:
            words = "whole" if result["is_whole"] else f"{result['state']}: {result['reason']}"
            rate = f", {size_text(result['bytes'] / result['seconds'])}/s"
            extent = f"{size_text(result['bytes'])}{rate}" if result["is_whole"] else ""
            print_line(f"{result['name']}  {words}  {extent}".rstrip())
        if not results:
            print_note(f"No checkpoints in {fs.uri}{root}.")
    is_torn = any(result["state"] == "torn" for result in results)
    return int(ExitCode.BAD_SPEC) if is_torn else 0


@command.command("restore")
@_directory
@_which
@click.option(
    "--to",
    "target",
    required=True,
    type=click.Path(path_type=Path),
    help="Write to this new local directory.",
)
@json_option
def restore(directory: str, which: str, target: Path, as_json: bool) -> int:
    """Download a checkpoint as local files: arrays as .npy, other data as saved.

    Verifies every byte. `newest` skips incomplete checkpoints and reports them.
    """
    if target.exists():
        raise UsageError(f"{target} already exists", hint="Name a new directory with --to.")
    with error_map.hdfs_errors("restoring a checkpoint"):
        fs, root = _open(directory)

        def save(one: Checkpoint) -> list[Path]:
            return export.export(checkpoints.open_checkpoint(one, fs=fs), target)

        checkpoint, files = _used(fs, root, which, save)
    if as_json:
        print_json({"checkpoint": facts(fs, checkpoint), "files": [str(path) for path in files]})
    else:
        print_line(f"{target}: step {checkpoint.step}, {len(files)} files, from {checkpoint.path}")
    return 0


@command.command("prune")
@_directory
@click.option(
    "--keep",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Keep this many of the newest.",
)
@click.option(
    "--keep-every", type=click.IntRange(1), metavar="STEPS", help="Keep one for every STEPS steps."
)
@click.option(
    "--best", metavar="METRIC[:min|max[:N]]", help="Keep the best N (default 1) by a metric."
)
@click.option(
    "--set-aside", "with_aside", is_flag=True, help="Also delete checkpoints that were set aside."
)
@click.option("--yes", is_flag=True, help="Delete them. Default: only show what would be deleted.")
@json_option
def prune(
    directory: str,
    keep: int,
    keep_every: int | None,
    best: str | None,
    with_aside: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete old checkpoints; without --yes, only show which.

    The newest complete checkpoint is always kept: with --yes it is verified first, and if it is
    torn, the one before it counts as the newest. Checkpoints being read are kept. Unfinished ones
    are deleted, except those of the newest attempt, which may still be running.
    """
    retention = _retention(keep, keep_every, best)
    with error_map.hdfs_errors("pruning checkpoints"):
        fs, root = _open(directory)
        decisions = checkpoints.prune(
            root, retention, delete=yes, with_set_aside=with_aside,
            verify=partial(_verify, is_silent=as_json), fs=fs,
            report=lambda torn: print_note(f"{short(torn.path)} is torn: {torn.reason}"),
        )  # fmt: skip
    if as_json:
        plain = [decision_as_plain(one, is_done=yes) for one in decisions]
        print_json({"deleted": yes, "checkpoints": plain})
        return
    rows = [decision_row(one, is_done=yes) for one in decisions]
    if rows:
        print_table(("STEP", "SIZE", "ACTION", "REASON", "NAME"), rows)
    going = [one for one in decisions if (one.is_gone if yes else one.goes)]
    extent = f"{len(going)} of {len(decisions)} checkpoints"
    freed = size_text(sum(one.listing.size for one in going))
    if yes:
        print_note(f"Deleted {extent}, {freed}.")
    else:
        print_note(f"Would delete {extent}, {freed}. To delete them, use --yes.")


@command.command("cp")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@_which
@json_option
def cp(source: str, target: str, which: str, as_json: bool) -> int:
    """Copy a checkpoint to another checkpoint directory, also on another cluster.

    Verifies every byte; the copy appears whole or not at all. A job that writes to TO is not
    disturbed and sees the copy as a checkpoint of its newest attempt.
    """
    with error_map.hdfs_errors("copying a checkpoint"):
        fs, root = _open(source)
        to, directory = _open(target)
        began = time.monotonic()
        with transfer_progress("cp", is_silent=as_json) as progress:

            def copy(one: Checkpoint) -> Checkpoint:
                progress.begin(len(one.shards), one.size)
                return export.copy(fs, one, to, directory, progress.add)

            _, copied = _used(fs, root, which, copy)
        took_s = time.monotonic() - began
    if as_json:
        print_json(facts(to, copied))
    else:
        rate = f"{size_text(copied.size / max(took_s, 1e-6))}/s"
        print_line(f"{to.uri}{copied.path}: step {copied.step}, {size_text(copied.size)}, {rate}")
    return 0


def _open(directory: str) -> tuple[FileSystem, str]:
    fs = site.files_at(directory)
    return fs, fs.own_path(directory)


def _chosen(fs: FileSystem, root: str, which: str) -> list[CheckpointListing]:
    """The selected checkpoints, newest first. Raises UsageError if there is none."""
    found = catalog.list_checkpoints(fs, root)
    if which == "all":
        return [one for one in found if one.state is not catalog.CheckpointState.SET_ASIDE]
    if which == NEWEST:
        chosen = [one for one in found if one.state is catalog.CheckpointState.WHOLE]
    else:
        chosen = [one for one in found if which in (str(one.name.step), short(one.path))]
    if not chosen:
        what = "whole checkpoint" if which == NEWEST else f"checkpoint {which}"
        raise UsageError(
            f"{fs.uri}{root} has no {what}", hint=f"To list all: yarnam ckpt ls {fs.uri}{root}"
        )
    return chosen if which == NEWEST else chosen[:1]


def _used(
    fs: FileSystem, root: str, which: str, use: Callable[[Checkpoint], T]
) -> tuple[Checkpoint, T]:
    """The selected checkpoint, and what was made of it. Raises UsageError, Unavailable."""
    if which == NEWEST:
        _chosen(fs, root, which)
        found = checkpoints.first_good(
            root, use, fs=fs, report=lambda one: print_note(f"Skipped {one.path}: {one.reason}")
        )
        if found is None:
            raise Unavailable(f"{fs.uri}{root} has no complete checkpoint")
        return found
    (one,) = _chosen(fs, root, which)
    if one.checkpoint is None:
        raise UsageError(f"{one.path} is not complete: {one.reason}")
    try:
        with catalog.pinned(fs, one.path):
            return one.checkpoint, use(one.checkpoint)
    except errors.CorruptData as error:
        raise UsageError(f"{one.path} is not complete: {error}") from error


def _verify(fs: FileSystem, checkpoint: Checkpoint, *, is_silent: bool) -> None:
    with transfer_progress(f"verify {checkpoint.step}", is_silent=is_silent) as progress:
        progress.begin(len(checkpoint.shards), checkpoint.size)
        catalog.verify(fs, checkpoint, progress.add)


def _verified(fs: FileSystem, one: CheckpointListing, as_json: bool) -> dict[str, Any]:
    began = time.monotonic()
    state, reason = one.state.value, one.reason
    if one.checkpoint is not None and not reason:
        try:
            with catalog.pinned(fs, one.path):
                _verify(fs, one.checkpoint, is_silent=as_json)
        except (errors.CorruptData, errors.NotFound) as error:
            state, reason = "torn", str(error)
    return {
        "name": short(one.path),
        "path": f"{fs.uri}{one.path}",
        "step": one.name.step,
        "state": state,
        "is_whole": not reason,
        "reason": reason,
        "bytes": one.size,
        "seconds": max(time.monotonic() - began, 1e-6),
    }


def _retention(keep: int, keep_every: int | None, best: str | None) -> checkpoints.Retention:
    rated = None
    if best:
        metric, _, rest = best.partition(":")
        mode, _, number = rest.partition(":")
        try:
            rated = checkpoints.Best(metric, mode or "min", int(number or 1))
        except ValueError as error:
            raise UsageError(
                f"--best {best}: {error}", hint="For example: --best accuracy:max:2"
            ) from error
    return checkpoints.Retention(keep, keep_every or 0, rated)
