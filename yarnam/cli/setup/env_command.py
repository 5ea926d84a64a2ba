"""``yarnam env``: try a job's environment, and clear stored environments."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import json_option, open_client, queue_option
from yarnam.cli.rendering.console import (
    clock_time,
    print_error,
    print_json,
    print_line,
    print_note,
    print_table,
)
from yarnam.cli.rendering.transfer_progress import transfer_progress
from yarnam.errors import ExitCode, UsageError, UserFailed

if TYPE_CHECKING:
    from yarnam.client.environments.environment_check import EnvironmentReport
    from yarnam.client.environments.local_cache import CachedArchive
    from yarnam.client.environments.stored_archives import StoredArchive

with on_first_use():
    from yarnam.client import site
    from yarnam.client.environments import environment_check, local_cache, stored_archives
    from yarnam.spec.values import units

UNUSED = "30d"
"""A submit that finds its archive gone makes it again."""


@click.group("env")
def command() -> None:
    """Check jobs' environments, and clear those that are stored."""


@command.command("check")
@click.argument("spec", type=click.Path(exists=True, dir_okay=False, readable=True))
@click.option("-i", "--import", "more", multiple=True, metavar="MODULE", help="Import this too.")
@queue_option
@click.option("--timeout", default="15min", show_default=True, help="How long to wait at most.")
@json_option
@click.pass_context
def check(
    ctx: click.Context,
    spec: str,
    more: tuple[str, ...],
    queue: str | None,
    timeout: str,
    as_json: bool,
) -> int:
    """Try what SPEC's code imports, in one container.

    Runs a job of one task, with the job's environment and at most one GPU. Exits
    90 if a module cannot be imported. What is seen of the GPU is printed.
    """
    settings: dict[str, Any] = {}
    if not as_json:
        settings["on_progress"] = lambda text: print_note(f"{text} …")
        settings["open_progress"] = lambda label: transfer_progress(label, is_silent=False)
    limit_s = _seconds(timeout, "--timeout")
    with open_client(ctx, **settings) as client:
        given = client.parse(spec, queue=queue)
        modules = sorted({*environment_check.imported_modules(given), *more})
        job = client.submit(environment_check.check_job(given, modules))
        print_note(f"Submitted {job.id}: importing {len(modules)} modules in one container")
        try:
            verdict = job.wait(limit_s)
        except BaseException:
            job.kill("the check was given up")
            raise
        output = b"".join(piece.data for piece in job.logs() if not piece.is_note)
    report = environment_check.read_report(output)
    if report is None:
        raise UserFailed(
            f"the check ended without a report: {verdict.message}",
            hint=f"See its output: yarnam logs {job.id}",
        )
    if as_json:
        print_json({"application": job.id, **asdict(report)})
    else:
        _print_report(report)
    if not report.missing:
        return 0
    # Not raised: with --json the report is the one document on stdout.
    print_error(
        f"cannot be imported: {', '.join(sorted(report.missing))}",
        "Add the packages to the environment of the spec.",
    )
    return int(ExitCode.USER_FAILED)


def _print_report(report: EnvironmentReport) -> None:
    print_line(f"Python {report.python} at {report.executable} on {report.node}")
    rows = [(name, version or "imported") for name, version in sorted(report.modules.items())]
    rows += [(name, reason) for name, reason in sorted(report.missing.items())]
    if rows:
        print_table(("MODULE", "VERSION"), rows)
    for name, seen in report.gpus.items():
        print_line(f"GPUs by {name}: {', '.join(seen) or 'none'}")
    if not report.gpus:
        print_line("GPUs: neither a driver nor torch nor jax shows any")


@command.command("ls")
@json_option
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """List what your environments take on HDFS, the longest unused first."""
    with open_client(ctx) as client:
        found = stored_archives.list_archives(client.site)
    _print_archives(found, as_json=as_json)


@command.command("gc")
@click.option(
    "--unused-for", default=UNUSED, show_default=True, help="Since the last job that used it."
)
@click.option("--dry-run", is_flag=True, help="Only list what would be removed.")
@click.option("--local", is_flag=True, help="On this machine (~/.cache/yarnam), and not on HDFS.")
@json_option
@click.pass_context
def collect(ctx: click.Context, unused_for: str, dry_run: bool, local: bool, as_json: bool) -> None:
    """Remove archives that no job has used for a while.

    Never removes from HDFS what a job uses that has not ended. A later submit makes again what it
    misses.
    """
    unused_s = _seconds(unused_for, "--unused-for")
    if local:
        cached = local_cache.remove_unused(site.cache_dir(os.environ), unused_s, is_trial=dry_run)
        _print_cached(cached, as_json=as_json)
        sizes = [each.size_bytes for each in cached]
    else:
        with open_client(ctx) as client:
            stored = stored_archives.remove_unused(client.site, unused_s, is_trial=dry_run)
        _print_archives(stored, as_json=as_json)
        sizes = [each.size_bytes for each in stored]
    if not as_json:
        what = "would be removed" if dry_run else "removed"
        print_note(f"Archives {what}: {len(sizes)} ({sum(sizes) / 1e6:.1f} MB).")


def _print_cached(found: list[CachedArchive], *, as_json: bool) -> None:
    if as_json:
        print_json([{**asdict(each), "path": str(each.path)} for each in found])
    elif found:
        rows = [
            (each.path.name, f"{each.size_bytes / 1e6:.1f} MB", clock_time(each.used_at_s))
            for each in found
        ]
        print_table(("NAME", "SIZE", "LAST USE"), rows)


def _print_archives(found: list[StoredArchive], *, as_json: bool) -> None:
    if as_json:
        print_json([asdict(each) for each in found])
    elif found:
        headers = ("NAME", "KIND", "SIZE", "MADE", "LAST USE", "IN USE BY")
        print_table(headers, [_row(each) for each in found])


def _row(each: StoredArchive) -> tuple[str, ...]:
    return (
        each.name,
        each.kind,
        f"{each.size_bytes / 1e6:.1f} MB",
        clock_time(each.made_s),
        clock_time(each.last_use_s),
        f"{len(each.used_by)} jobs" if each.used_by else "-",
    )


def _seconds(text: str, option: str) -> float:
    try:
        return units.parse_duration_s(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error
