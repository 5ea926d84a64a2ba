"""``yarnam data verify``: find corrupt files."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import json_option, open_data
from yarnam.cli.rendering.console import (
    is_terminal,
    print_json,
    print_note,
    print_progress,
    print_table,
)
from yarnam.core.model.printable import duration

if TYPE_CHECKING:
    from hdfs_utils.validation import FileReport
    from yarnam.client.data.verification import VerifySummary

with on_first_use():
    from hdfs_utils import validation
    from hdfs_utils.validation import report_table
    from yarnam.client.data import verification


@click.command("verify")
@click.argument("path")
@click.option(
    "-f",
    "--format",
    default="",
    help="Treat all files as this format, such as gzip+csv.",
)
@click.option(
    "--sample",
    type=click.FloatRange(0, 1, min_open=True),
    help="Check only this fraction of the files.",
)
@click.option("--workers", type=click.IntRange(1, 64), help="Check this many files in parallel.")
@click.option(
    "--memory",
    "memory_gib",
    type=click.IntRange(1),
    help="Memory that the check of one file may take, in GiB.  [default: 2]",
)
@click.option(
    "--time-limit",
    "time_limit_s",
    type=click.FloatRange(0, min_open=True),
    help="Seconds that the check of one file may take, plus 5 for each MB.  [default: 120]",
)
@click.option(
    "--encoding", default="utf-8", show_default=True, help="Encoding of text, CSV and JSON Lines."
)
@click.option(
    "--columns", type=click.IntRange(1), help="Expected CSV columns. Default: as in the first line."
)
@click.option(
    "--delimiter", default="", help="Delimiter of CSV. Default: by the first line of each file."
)
@click.option("--schema", default="", help="Schema of CSV and JSON Lines: name:type,name:type...")
@click.option(
    "--check",
    "own",
    multiple=True,
    metavar="ENDING=MODULE:FUNCTION",
    help="Check files with this ending by your own function.",
)
@click.option("--allow-empty", is_flag=True, help="Treat empty files as valid.")
@click.option("--report", help="Write all findings to this Parquet file (local or hdfs://...).")
@click.option("--add", is_flag=True, help="Add files proved corrupt to the input blacklist.")
@click.option("-v", "--verbose", is_flag=True, help="Also list clean files and notes.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    path: str,
    report: str | None,
    add: bool,
    verbose: bool,
    as_json: bool,
    **how: Any,
) -> int:
    """Check the files at or below PATH (hdfs://..., /on/the/cluster, file:///...).

    Reports each file as clean, corrupt, or not checked with the reason. Ignores names that begin
    with _ or `.`. Exits 65 if a file is corrupt, 69 if a file could not be checked, otherwise 0.
    """
    keep = verbose or report is not None
    given = {name: value for name, value in how.items() if value is not None}
    order = verification.VerifyRequest(path, add=add, keep_clean=keep, **given)
    with open_data(ctx, path) as location:
        done = verification.verify_path(location, order, None if as_json else _progress())
    if report and "://" in report:
        with open_data(ctx, report) as target:
            verification.write_report(target, report, done)
    elif report:
        verification.write_report(None, report, done)
    if as_json:
        print_json(_plain(done, verbose))
    else:
        _print(done, verbose)
        if report:
            print_note(f"Wrote the findings to {report}")
    return done.exit_code


def _progress() -> Any:
    if not is_terminal(sys.stderr):
        return None

    def show(summary: VerifySummary) -> None:
        rate = summary.length / max(summary.duration_s, 0.001) / 1e6
        print_progress(
            f"{summary.files} files, {summary.length / 1e6:.0f} MB, {rate:.0f} MB/s, "
            f"{summary.corrupt} corrupt"
        )

    return show


def _print(done: VerifySummary, verbose: bool) -> None:
    print_progress("")
    rows = [row for one in done.reports for row in _rows(one, verbose)]
    if rows:
        print_table(("VERDICT", "REASON", "POSITION", "FILE", "MESSAGE"), rows)
    parts = [f"{done.files} files, {done.length / 1e6:.1f} MB in {duration(done.duration_s)}"]
    parts.append(f"{done.clean} clean")
    parts.append(f"{done.corrupt} corrupt")
    parts.append(f"{done.not_checked} not checked")
    if done.not_sampled:
        parts.append(f"{done.not_sampled} not in the sample")
    print_note(", ".join(parts))
    if done.added:
        print_note(
            f"Added {done.added} files to the input blacklist. To list it: yarnam blacklist ls"
        )
    elif done.corrupt:
        print_note("Nothing was recorded. To put the corrupt files on the input blacklist: --add")
    for warning in done.warnings:
        print_note(warning)


def _rows(report: FileReport, verbose: bool) -> list[list[str]]:
    rows = []
    for finding in report.findings:
        is_note = finding.kind is validation.FindingKind.NOTE
        if is_note and not verbose:
            continue
        where = [finding.member] if finding.member else []
        where += [f"record {finding.record}"] if finding.record is not None else []
        where += [f"byte {finding.offset}"] if finding.offset is not None else []
        verdict = "note" if is_note else report.verdict.value
        rows.append(
            [verdict, finding.reason.value, ", ".join(where) or "-", report.path, finding.message]
        )
    if verbose and not rows:
        rows.append([report.verdict.value, "-", "-", report.path, report.format])
    return rows


def _plain(done: VerifySummary, verbose: bool) -> dict[str, Any]:
    listed = [
        row
        for report in done.reports
        if verbose or report.verdict.value != "clean"
        for row in report_table.rows(report)
    ]
    return {
        "files": done.files,
        "bytes": done.length,
        "duration_s": done.duration_s,
        "clean": done.clean,
        "corrupt": done.corrupt,
        "not_checked": done.not_checked,
        "not_sampled": done.not_sampled,
        "added": done.added,
        "warnings": list(done.warnings),
        "findings": listed,
    }
