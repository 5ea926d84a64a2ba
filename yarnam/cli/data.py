"""``yarnam data``: files between this machine and HDFS. Thin skins over ``hdfs_utils``."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from yarnam.cli.data_look import locality, ls
from yarnam.cli.data_verify import command as verify_command
from yarnam.cli.options import json_option, open_data
from yarnam.cli.output import print_json, say

if TYPE_CHECKING:
    from hdfs_utils import FileSystem
    from hdfs_utils.transfer import Options, Progress

_SIZE_UNITS = {"k": 10, "m": 20, "g": 30}


@click.group()
def command() -> None:
    """Move data between this machine and HDFS, and look at it there.

    A path on HDFS is absolute (/data/train) or a URI (hdfs://..., webhdfs://...); on this machine
    any path. A target that ends with / gets the source under its own name.

    Ctrl-C or a kill leaves a target as it was; the same command again goes on where it was.
    """


# Content of the files: their own engineer's module. Copies are compared by `compare`.
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
    help="Compare with HDFS's own checksums; auto: not for small files whose reads are checked.",
)
_threads = click.option("--threads", type=click.IntRange(1, 64), default=8, show_default=True)
_fresh = click.option("--fresh", is_flag=True, help="Take nothing over from an interrupted run.")
_overwrite = click.option("--overwrite", is_flag=True, help="Replace what is at the target.")


def _transfer_options(**given: Any) -> Options:
    from hdfs_utils.transfer import Options

    given["resume"] = not given.pop("fresh", False)
    return Options(**given)


@contextlib.contextmanager
def _shown(label: str, as_json: bool) -> Iterator[Progress]:
    from hdfs_utils.transfer.progress import Bar, Plain
    from hdfs_utils.transfer.values import Silent
    from yarnam.client.transfers import transfer_errors

    progress: Progress
    if as_json:
        progress = Silent()
    elif sys.stderr.isatty():
        progress = Bar(label)
    else:
        progress = Plain(label)
    try:
        with transfer_errors(label):
            yield progress
    finally:
        progress.end()


def _tell(as_json: bool, began: float, verb: str, plain: dict[str, Any]) -> int:
    from hdfs_utils.transfer.progress import human

    took = time.monotonic() - began
    if as_json:
        print_json({**plain, "duration_s": round(took, 3)})
        return 0
    size = plain["bytes"]
    parts = [f"{plain['files']} files, {human(size)} in {took:.1f} s, {human(size / took)}/s"]
    if plain.get("resumed_bytes"):
        parts.append(f"{human(plain['resumed_bytes'])} were there from before")
    if plain.get("verified"):
        parts.append(f"{plain['verified']} verified against HDFS's checksums")
    say(f"{verb} {'; '.join(parts)}")
    return 0


@command.command("put")
@click.argument("source")
@click.argument("target")
@_overwrite
@_verify
@_threads
@_fresh
@click.option("--no-manifest", is_flag=True, help="Leave out _SUCCESS and _MANIFEST.jsonl.")
@click.option("--streams", type=click.IntRange(1, 16), default=1, help="Parts of a file at once.")
@click.option("--replication", type=click.IntRange(1), help="Of the new files.")
@json_option
@click.pass_context
def put(
    ctx: click.Context, /, source: str, target: str, no_manifest: bool, as_json: bool, **how: Any
) -> int:
    """Upload SOURCE, a file or directory of this machine, to TARGET on HDFS."""
    from yarnam.client.transfers import local_end

    with open_data(ctx, target) as place:
        near, path = local_end(source)
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
    """Download SOURCE from HDFS to TARGET on this machine (default: here, same name)."""
    from yarnam.client.transfers import local_end

    with open_data(ctx, source) as place:
        near, path = local_end(target)
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
    """Copy SOURCE on HDFS to TARGET on HDFS, through this machine."""
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
    from hdfs_utils import transfer
    from yarnam.client.transfers import target_name

    began = time.monotonic()
    goal = target_name(sink, path, target)
    with _shown(verb, as_json) as progress:
        done = transfer.copy(source, path, sink, goal, options, progress)
    plain = {
        "target": f"{sink.uri}{sink.own_path(goal)}",
        "files": done.files,
        "bytes": done.size,
        "resumed_bytes": done.resumed,
        "verified": done.verified,
    }
    return _tell(as_json, began, f"{plain['target']}:", plain)


@command.command("sync")
@click.argument("source")
@click.argument("target")
@click.option("--delete", is_flag=True, help="Delete at TARGET what SOURCE does not have.")
@click.option("--checksum", "by_checksum", is_flag=True, help="Compare CRC32C, not times.")
@click.option("-n", "--dry-run", is_flag=True, help="Only tell what would be done.")
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
    """Make TARGET like SOURCE: send what differs in length or time.

    One end is on HDFS: an absolute path or a URI with a scheme counts as HDFS where the other end
    is a relative path or file:///...; two absolute paths mean from this machine to HDFS.
    """
    from hdfs_utils import transfer

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
            click.echo(f"send    {name}")
        for name in done.deleted:
            click.echo(f"delete  {name}")
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
    return _tell(as_json, began, verb, plain)


_End = tuple["FileSystem", str]


def _ends(
    ctx: click.Context, stack: contextlib.ExitStack, source: str, target: str
) -> tuple[_End, _End]:
    from yarnam.client.transfers import local_end

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
        return far(source), local_end(target)
    return local_end(source), far(target)


@command.command("compare")
@click.argument("source")
@click.argument("target")
@json_option
@click.pass_context
def compare(ctx: click.Context, /, source: str, target: str, as_json: bool) -> int:
    """Compare a tree with its copy by the CRC32C of every file; HDFS's bytes stay there.

    Ends are told apart as for sync. Exits 65 when they differ.
    """
    from hdfs_utils import transfer
    from yarnam.errors import ExitCode

    with contextlib.ExitStack() as stack:
        (left, path), (right, goal) = _ends(ctx, stack, source, target)
        with _shown("compare", as_json) as progress:
            done = transfer.compare(left, path, right, goal, progress)
    if as_json:
        found = [{"path": d.relative, "what": d.what} for d in done.differences]
        print_json(
            {
                "files": done.files,
                "bytes": done.size,
                "method": done.method,
                "differences": found,
            }
        )
    else:
        for difference in done.differences:
            click.echo(f"{difference.what:<8}  {difference.relative}")
        say(f"{done.files} files compared by {done.method}; {len(done.differences)} differ")
    return int(ExitCode.BAD_SPEC) if done.differences else 0


@command.command("shard")
@click.argument("source")
@click.argument("target")
@click.option("--size", type=_Size(), default="256M", show_default=True, help="Of a shard.")
@click.option("--name", default="shard", show_default=True, help="What their names begin with.")
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
    """Pack the small files below SOURCE into tar shards (webdataset) with an index at TARGET.

    Files of one sample (same name up to the first dot) stay together. Ends are told apart as for
    sync.
    """
    from hdfs_utils.transfer.sharding import shard as pack

    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        (left, path), (right, goal) = _ends(ctx, stack, source, target)
        with _shown("shard", as_json) as progress:
            options = _transfer_options(verify=verify)
            done = pack(
                left, path, right, goal, size=size, name=name, options=options, progress=progress
            )
    plain = {"shards": done.shards, "files": done.files, "bytes": done.size}
    return _tell(as_json, began, f"{done.shards} shards of", plain)
