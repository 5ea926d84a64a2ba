"""``yarnam data``: transfer files between this machine and HDFS, by ``hdfs_utils``."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.data.data_listing import locality, ls
from yarnam.cli.data.data_verify_command import command as verify_command
from yarnam.cli.options import json_option, open_data
from yarnam.cli.rendering.console import print_json, print_line, print_note
from yarnam.cli.rendering.transfer_progress import transfer_progress
from yarnam.errors import ExitCode

if TYPE_CHECKING:
    from hdfs_utils import FileSystem
    from hdfs_utils.transfer import Options, Progress

with on_first_use():
    from hdfs_utils import filesystem, transfer
    from hdfs_utils.transfer import tar_shards
    from yarnam.client.data import transfer_ends

_SIZE_UNITS = {"k": 10, "m": 20, "g": 30}


@click.group()
def command() -> None:
    """Transfer data between this machine and HDFS, and inspect it.

    A path on HDFS is absolute (/data/train) or a URI (hdfs://..., webhdfs://...); a local path can
    be relative. If TARGET ends with /, the source keeps its name.

    An interrupted command leaves the target unchanged; run it again to resume.
    """


command.add_command(verify_command, "verify")
command.add_command(ls)
command.add_command(locality)


class _Size(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip().lower().removesuffix("ib").removesuffix("b")
        shift = _SIZE_UNITS.get(text[-1:], 0)
        number = text[:-1] if shift else text
        if not number.isdigit() or not int(number):
            self.fail(f"{value!r} is not a size such as 256M or 1G", param, ctx)
        return int(number) << shift


_verify = click.option(
    "--verify",
    type=click.Choice(["auto", "full", "none"]),
    default="auto",
    show_default=True,
    help="Verify against HDFS checksums; auto skips small files, whose reads are verified.",
)
_threads = click.option(
    "--threads",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    help="Transfer this many files in parallel.",
)
_fresh = click.option("--fresh", is_flag=True, help="Start over instead of resuming.")
_overwrite = click.option("--overwrite", is_flag=True, help="Replace an existing target.")


def _transfer_options(**given: Any) -> transfer.Options:
    given["resume"] = not given.pop("fresh", False)
    return transfer.Options(**given)


@contextlib.contextmanager
def _shown(label: str, as_json: bool) -> Iterator[Progress]:
    with (
        transfer_progress(label, is_silent=as_json) as progress,
        transfer_ends.transfer_errors(label),
    ):
        yield progress


def _report(as_json: bool, began: float, verb: str, plain: dict[str, Any]) -> int:
    took = time.monotonic() - began
    if as_json:
        print_json({**plain, "duration_s": round(took, 3)})
        return 0
    size = plain["bytes"]
    parts = [
        (
            f"{plain['files']} files, {filesystem.format_bytes(size)} in {took:.1f} s,"
            f" {filesystem.format_bytes(size / took)}/s"
        )
    ]
    if plain.get("resumed_bytes"):
        parts.append(f"{filesystem.format_bytes(plain['resumed_bytes'])} were there from before")
    if plain.get("verified"):
        parts.append(f"{plain['verified']} verified against HDFS's checksums")
    print_note(f"{verb} {'; '.join(parts)}")
    return 0


@command.command("put")
@click.argument("source")
@click.argument("target")
@_overwrite
@_verify
@_threads
@_fresh
@click.option("--no-manifest", is_flag=True, help="Do not write _SUCCESS and _MANIFEST.jsonl.")
@click.option(
    "--streams",
    type=click.IntRange(1, 16),
    default=1,
    help="Send this many parts of a file in parallel.",
)
@click.option("--replication", type=click.IntRange(1), help="Set the replication of the new files.")
@json_option
@click.pass_context
def put(
    ctx: click.Context, /, source: str, target: str, no_manifest: bool, as_json: bool, **how: Any
) -> int:
    """Upload SOURCE, a local file or directory, to TARGET on HDFS."""
    with open_data(ctx, target) as place:
        near, path = transfer_ends.local_end(source)
        options = _transfer_options(manifest=not no_manifest, **how)
        return _copy("put", near, path, place.files, target, options, as_json)


@command.command("get")
@click.argument("source")
@click.argument("target", default="./")
@_overwrite
@_verify
@_threads
@_fresh
@json_option
@click.pass_context
def get(ctx: click.Context, /, source: str, target: str, as_json: bool, **how: Any) -> int:
    """Download SOURCE from HDFS to TARGET (default: the current directory)."""
    with open_data(ctx, source) as place:
        near, path = transfer_ends.local_end(target)
        path += "/" if target.endswith("/") else ""
        return _copy("get", place.files, source, near, path, _transfer_options(**how), as_json)


@command.command("cp")
@click.argument("source")
@click.argument("target")
@_overwrite
@_verify
@_threads
@_fresh
@json_option
@click.pass_context
def cp(ctx: click.Context, /, source: str, target: str, as_json: bool, **how: Any) -> int:
    """Copy SOURCE to TARGET, both on HDFS, through this machine."""
    with open_data(ctx, source) as left, open_data(ctx, target) as right:
        options = _transfer_options(**how)
        return _copy("cp", left.files, source, right.files, target, options, as_json)


def _copy(
    verb: str,
    source: FileSystem,
    path: str,
    sink: FileSystem,
    target: str,
    options: Options,
    as_json: bool,
) -> int:
    began = time.monotonic()
    goal = transfer_ends.target_name(sink, path, target)
    with _shown(verb, as_json) as progress:
        done = transfer.copy(source, path, sink, goal, options, progress)
    plain = {
        "target": f"{sink.uri}{sink.own_path(goal)}",
        "files": done.files,
        "bytes": done.size,
        "resumed_bytes": done.resumed,
        "verified": done.verified,
    }
    return _report(as_json, began, f"{plain['target']}:", plain)


@command.command("sync")
@click.argument("source")
@click.argument("target")
@click.option("--delete", is_flag=True, help="Delete files from TARGET that SOURCE does not have.")
@click.option(
    "--checksum", "by_checksum", is_flag=True, help="Compare CRC32C checksums instead of times."
)
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be done, without doing it.")
@_verify
@_threads
@_fresh
@json_option
@click.pass_context
def sync(
    ctx: click.Context,
    /,
    source: str,
    target: str,
    delete: bool,
    by_checksum: bool,
    dry_run: bool,
    as_json: bool,
    **how: Any,
) -> int:
    """Synchronize TARGET with SOURCE: transfer the files that differ in length or time.

    One side is on HDFS: a URI with a scheme, or an absolute path if the other side is relative or
    file:///.... With two absolute paths, SOURCE is local and TARGET is on HDFS.
    """
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        (left, path), (right, goal) = _ends(ctx, stack, source, target)
        with _shown("sync", as_json) as progress:
            done = transfer.sync(
                left,
                path,
                right,
                goal,
                _transfer_options(**how),
                progress,
                delete=delete,
                by_checksum=by_checksum,
                dry_run=dry_run,
            )
    if dry_run and not as_json:
        for name in done.sent:
            print_line(f"send    {name}")
        for name in done.deleted:
            print_line(f"delete  {name}")
    plain: dict[str, Any] = {
        "files": len(done.sent),
        "bytes": done.size,
        "same": done.same,
        "deleted": len(done.deleted),
        "resumed_bytes": done.resumed,
    }
    if as_json:
        plain |= {"sent": list(done.sent), "deleted_names": list(done.deleted)}
    verb = "would send" if dry_run else f"{done.same} same, {len(done.deleted)} deleted, sent"
    return _report(as_json, began, verb, plain)


_End = tuple["FileSystem", str]


def _ends(
    ctx: click.Context, stack: contextlib.ExitStack, source: str, target: str
) -> tuple[_End, _End]:
    def is_remote(path: str) -> bool:
        return path.startswith(("hdfs:", "viewfs:", "webhdfs:", "swebhdfs:"))

    def far(path: str) -> _End:
        return stack.enter_context(open_data(ctx, path)).files, path

    if is_remote(source) and is_remote(target):
        return far(source), far(target)
    is_download = is_remote(source) or (
        source.startswith("/") and not target.startswith("/") and not is_remote(target)
    )
    if is_download:
        return far(source), transfer_ends.local_end(target)
    return transfer_ends.local_end(source), far(target)


@command.command("compare")
@click.argument("source")
@click.argument("target")
@json_option
@click.pass_context
def compare(ctx: click.Context, /, source: str, target: str, as_json: bool) -> int:
    """Compare two directory trees by the CRC32C of every file, without downloading from HDFS.

    Paths are interpreted as for sync. Exits 65 if the trees differ.
    """
    with contextlib.ExitStack() as stack:
        (left, path), (right, goal) = _ends(ctx, stack, source, target)
        with _shown("compare", as_json) as progress:
            done = transfer.compare(left, path, right, goal, progress)
    if as_json:
        found = [{"path": d.relative, "what": d.what} for d in done.differences]
        print_json(
            {"files": done.files, "bytes": done.size, "method": done.method, "differences": found}
        )
    else:
        for difference in done.differences:
            print_line(f"{difference.what:<8}  {difference.relative}")
        print_note(f"{done.files} files compared by {done.method}; {len(done.differences)} differ")
    return int(ExitCode.BAD_SPEC) if done.differences else 0


@command.command("shard")
@click.argument("source")
@click.argument("target")
@click.option(
    "--size", type=_Size(), default="256M", show_default=True, help="Set the size of a shard."
)
@click.option(
    "--name", default="shard", show_default=True, help="Start the shard names with this prefix."
)
@_verify
@json_option
@click.pass_context
def shard(
    ctx: click.Context,
    /,
    source: str,
    target: str,
    size: int,
    name: str,
    verify: str,
    as_json: bool,
) -> int:
    """Pack small files below SOURCE into tar shards (WebDataset) with an index at TARGET.

    Files of one sample (the same name up to the first dot) stay together. Paths are interpreted as
    for sync.
    """
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        (left, path), (right, goal) = _ends(ctx, stack, source, target)
        with _shown("shard", as_json) as progress:
            options = _transfer_options(verify=verify)
            done = tar_shards.pack_shards(
                left, path, right, goal, size=size, name=name, options=options, progress=progress
            )
    plain = {"shards": done.shards, "files": done.files, "bytes": done.size}
    return _report(as_json, began, f"{done.shards} shards of", plain)
