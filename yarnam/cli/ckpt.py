"""``yarnam ckpt``: the checkpoints in a directory."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from yarnam.cli.ckpt_words import Bar, as_plain, facts, row, short, size_words, verdict_row
from yarnam.cli.options import json_option
from yarnam.cli.output import print_json, say, table
from yarnam.errors import ExitCode, Unavailable, UsageError

if TYPE_CHECKING:
    from hdfs_utils import FileSystem
    from hdfs_utils.checkpoints import Checkpoint, Retention
    from hdfs_utils.checkpoints.shelf import Found

NEWEST = "newest"

_directory = click.argument("directory", metavar="DIRECTORY")
_which = click.argument("which", metavar="[CHECKPOINT]", default=NEWEST)


@click.group()
def command() -> None:
    """Look at, check, copy and clear away checkpoints.

    DIRECTORY is what the spec calls checkpoint.directory: a path on HDFS or a URI (hdfs://,
    file://). CHECKPOINT is a step, a name as `ls` shows it, or `newest`: the newest whole one.
    """


ckpt = command


@command.command("ls")
@_directory
@json_option
def ls(directory: str, as_json: bool) -> int:
    """List checkpoints, the newest first: whole, torn, unfinished, set aside.

    No data is read: use `verify` for that. Exit code 0, also where there is none.
    """
    with _errors("listing checkpoints"):
        fs, root = _open(directory)
        from hdfs_utils.checkpoints import shelf

        found = shelf.survey(fs, root)
    if as_json:
        print_json([as_plain(fs, one) for one in found])
    elif found:
        headers = ("STEP", "STATE", "RANKS", "SIZE", "SAVED", "BY", "METRICS", "NAME")
        click.echo(table(headers, [row(one) for one in found], colour_column=1))
        for one in found:
            if one.reason and one.state.value != "whole":
                say(f"{short(one.path)}: {one.reason}")
    else:
        say(f"No checkpoints in {fs.uri}{root}.")
    return 0


@command.command("verify")
@_directory
@click.argument("which", metavar="[CHECKPOINT]", default="all")
@json_option
def verify(directory: str, which: str, as_json: bool) -> int:
    """Read checkpoints again and compare every byte with its checksum.

    Without CHECKPOINT all of them. Nothing is changed: a corrupt one is set aside by the next
    restore. Exit code 65 (a data error) if one is torn: it has a manifest, and its data does not
    fit. One without a manifest is unfinished, perhaps just being saved.
    """
    with _errors("verifying checkpoints"):
        fs, root = _open(directory)
        results = [_verified(fs, one) for one in _chosen(fs, root, which)]
    if as_json:
        print_json(results)
    else:
        for result in results:
            words = "whole" if result["is_whole"] else f"{result['state']}: {result['reason']}"
            rate = f", {size_words(result['bytes'] / result['seconds'])}/s"
            extent = f"{size_words(result['bytes'])}{rate}" if result["is_whole"] else ""
            click.echo(f"{result['name']}  {words}  {extent}".rstrip())
        if not results:
            say(f"No checkpoints in {fs.uri}{root}.")
    is_torn = any(result["state"] == "torn" for result in results)
    return int(ExitCode.BAD_SPEC) if is_torn else 0


@command.command("restore")
@_directory
@_which
@click.option(
    "--to", "target", required=True, type=click.Path(path_type=Path), help="A new local directory."
)
@json_option
def restore(directory: str, which: str, target: Path, as_json: bool) -> int:
    """Take a checkpoint apart into local files: arrays as .npy, the rest as it was saved.

    Every byte is verified. `newest` passes over those that are not whole, and says so.
    """
    if target.exists():
        raise UsageError(f"{target} exists", hint="Give --to a directory that does not.")
    with _errors("restoring a checkpoint"):
        fs, root = _open(directory)
        from hdfs_utils.checkpoints import open_checkpoint
        from hdfs_utils.checkpoints.copying import export

        checkpoint, files = _first_good(
            fs, root, which, lambda one: export(open_checkpoint(one, fs=fs), target)
        )
    if as_json:
        print_json({"checkpoint": facts(fs, checkpoint), "files": [str(path) for path in files]})
    else:
        click.echo(f"{target}: step {checkpoint.step}, {len(files)} files, from {checkpoint.path}")
    return 0


@command.command("prune")
@_directory
@click.option("--keep", type=click.IntRange(1), default=3, show_default=True, help="The newest.")
@click.option("--keep-every", type=click.IntRange(1), metavar="STEPS", help="One of each so many.")
@click.option("--best", metavar="METRIC[:min|max[:N]]", help="The best by a metric.")
@click.option("--set-aside", "with_aside", is_flag=True, help="Also those that were set aside.")
@click.option("--yes", is_flag=True, help="Delete; without it this only shows what would go.")
@json_option
def prune(
    directory: str,
    keep: int,
    keep_every: int | None,
    best: str | None,
    with_aside: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Delete checkpoints that are not to be kept; shows what would go unless --yes is given.

    The newest whole one always stays: with --yes it is read first, and if it is torn, the one
    before counts as the newest. What somebody reads stays too. Unfinished ones of earlier attempts
    go; those of the newest attempt stay, since it may be at work.
    """
    retention = _retention(keep, keep_every, best)
    with _errors("pruning checkpoints"):
        fs, root = _open(directory)
        from hdfs_utils.checkpoints import shelf

        found = shelf.survey(fs, root)
        if yes:
            found = _with_a_whole_one(fs, found)
        verdicts = _judged(fs, root, retention, with_aside, found)
        gone = []
        for verdict in verdicts:
            if verdict["goes"] and yes:
                verdict["is_gone"] = shelf.remove(fs, verdict["path"])
                gone.append(verdict)
    if as_json:
        print_json({"deleted": yes, "checkpoints": verdicts})
        return 0
    rows = [verdict_row(verdict, yes) for verdict in verdicts]
    if rows:
        click.echo(table(("STEP", "SIZE", "VERDICT", "WHY", "NAME"), rows))
    freed = sum(verdict["bytes"] for verdict in (gone if yes else verdicts) if verdict["goes"])
    going = sum(verdict["goes"] for verdict in verdicts)
    if yes:
        say(f"Deleted {len(gone)} of {len(verdicts)}, {size_words(freed)}.")
    else:
        say(f"{going} of {len(verdicts)} would go, {size_words(freed)}; delete them with --yes.")
    return 0


@command.command("cp")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@_which
@json_option
def cp(source: str, target: str, which: str, as_json: bool) -> int:
    """Copy a checkpoint into another directory of checkpoints, also of another cluster.

    Every byte is verified on the way, and the copy appears at once. A job that writes to TO is not
    disturbed; the copy counts among its newest attempt's by its step.
    """
    with _errors("copying a checkpoint"):
        fs, root = _open(source)
        from hdfs_utils.checkpoints.copying import copy

        to, directory = _open(target)
        began = time.monotonic()
        with Bar() as bar:
            _, copied = _first_good(
                fs, root, which, lambda one: copy(fs, one, to, directory, bar.start(one.size))
            )
        took_s = time.monotonic() - began
    if as_json:
        print_json(facts(to, copied))
    else:
        rate = f"{size_words(copied.size / max(took_s, 1e-6))}/s"
        click.echo(f"{to.uri}{copied.path}: step {copied.step}, {size_words(copied.size)}, {rate}")
    return 0


def _open(directory: str) -> tuple[FileSystem, str]:
    import hdfs_utils

    fs = hdfs_utils.connect(directory)
    return fs, fs.own_path(directory)


def _errors(doing: str) -> Any:
    from yarnam.client.hdfs_errors import hdfs_errors

    return hdfs_errors(doing)


def _chosen(fs: FileSystem, root: str, which: str) -> list[Found]:
    """The checkpoints meant, the newest first. Raises UsageError where there is none."""
    from hdfs_utils.checkpoints import shelf
    from hdfs_utils.checkpoints.shelf import State

    found = shelf.survey(fs, root)
    if which == "all":
        return [one for one in found if one.state is not State.SET_ASIDE]
    if which == NEWEST:
        chosen = [one for one in found if one.state is State.WHOLE]
    else:
        chosen = [one for one in found if which in (str(one.name.step), short(one.path))]
    if not chosen:
        what = "whole checkpoint" if which == NEWEST else f"checkpoint {which}"
        raise UsageError(
            f"{fs.uri}{root} has no {what}", hint=f"'yarnam ckpt ls {fs.uri}{root}' shows all."
        )
    return chosen if which == NEWEST else chosen[:1]


def _first_good(fs: FileSystem, root: str, which: str, use: Any) -> tuple[Checkpoint, Any]:
    from hdfs_utils.checkpoints import shelf
    from hdfs_utils.errors import CorruptData

    for one in _chosen(fs, root, which):
        if one.checkpoint is None:
            raise UsageError(f"{one.path} is not whole: {one.reason}")
        try:
            with shelf.pinned(fs, one.path):
                return one.checkpoint, use(one.checkpoint)
        except CorruptData as error:
            if which != NEWEST:
                raise UsageError(f"{one.path} is not whole: {error}") from error
            say(f"Passed over {one.path}: {error}")
    raise Unavailable(f"{fs.uri}{root} has no checkpoint that is whole")


def _verified(fs: FileSystem, one: Found) -> dict[str, Any]:
    from hdfs_utils.checkpoints import shelf
    from hdfs_utils.errors import CorruptData, NotFound

    began = time.monotonic()
    state, reason = one.state.value, one.reason
    if one.checkpoint is not None and not reason:
        try:
            with shelf.pinned(fs, one.path), Bar() as bar:
                shelf.verify(fs, one.checkpoint, bar.start(one.size))
        except (CorruptData, NotFound) as error:
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


def _retention(keep: int, keep_every: int | None, best: str | None) -> Retention:
    from hdfs_utils.checkpoints import Best, Retention

    rated = None
    if best:
        metric, _, rest = best.partition(":")
        mode, _, number = rest.partition(":")
        try:
            rated = Best(metric, mode or "min", int(number or 1))
        except ValueError as error:
            raise UsageError(f"--best {best}: {error}", hint="As in accuracy:max:2.") from error
    return Retention(keep, keep_every or 0, rated)


def _with_a_whole_one(fs: FileSystem, found: list[Found]) -> list[Found]:
    """The same, with the newest ones torn whose data turns out to be."""
    from hdfs_utils.checkpoints.shelf import State

    judged = list(found)
    for number, one in enumerate(found):
        if one.state is not State.WHOLE:
            continue
        result = _verified(fs, one)
        if result["is_whole"]:
            break
        say(f"{short(one.path)} is torn: {result['reason']}")
        judged[number] = replace(one, state=State.TORN, reason=result["reason"])
    return judged


def _judged(
    fs: FileSystem, root: str, retention: Retention, with_aside: bool, found: list[Found]
) -> list[dict[str, Any]]:
    from hdfs_utils.checkpoints import shelf
    from hdfs_utils.checkpoints.fence import newest_claim
    from hdfs_utils.checkpoints.retention import Whole, kept
    from hdfs_utils.checkpoints.shelf import State

    claim = newest_claim(fs, root)
    epoch = claim.epoch if claim else 0
    wholes = [
        Whole(one.name, one.checkpoint.metrics)
        for one in found
        if one.state is State.WHOLE and one.checkpoint is not None
    ]
    reasons = kept(wholes, retention)
    verdicts = []
    for one in found:
        if one.state is State.WHOLE:
            goes, why = one.name not in reasons, reasons.get(one.name, "not one of those kept")
        elif one.state is State.UNFINISHED:
            goes, why = one.name.epoch < epoch, "unfinished"
        else:
            goes, why = one.state is State.SET_ASIDE and with_aside, one.state.value
        if goes and shelf.is_pinned(fs, one.path):
            goes, why = False, "somebody reads it"
        verdicts.append(
            {
                "name": short(one.path),
                "path": one.path,
                "step": one.name.step,
                "bytes": one.size,
                "goes": goes,
                "why": why,
            }
        )
    return verdicts
