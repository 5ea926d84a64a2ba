"""``yarnam data verify``: find corrupt files among a job's inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from yarnam.cli.options import json_option, open_data
from yarnam.cli.output import duration, print_json, say, table

if TYPE_CHECKING:
    from hdfs_utils.validation import FileReport
    from yarnam.client.verify import Summary, VerifyOrder


@click.command("verify")
@click.argument("path")
@click.option("-f", "--format", "format_name", default="", help="Of all files, as in gzip+csv.")
@click.option("--sample", type=click.FloatRange(0, 1, min_open=True), help="This share of files.")
@click.option("--workers", type=click.IntRange(1, 64), help="Files checked at the same time.")
@click.option("--encoding", default="utf-8", show_default=True, help="Of text, CSV, JSON lines.")
@click.option("--columns", type=click.IntRange(1), help="Of CSV. Default: as in the first line.")
@click.option("--schema", default="", help="Of CSV and JSON lines: name:type,name:type...")
@click.option("--check", "own", multiple=True, metavar="ENDING=MODULE:FUNCTION", help="Your own.")
@click.option("--allow-empty", is_flag=True, help="Files of no bytes are in order.")
@click.option("--report", help="Write all findings to this Parquet file (local or hdfs://...).")
@click.option("--add", is_flag=True, help="Put what is proved corrupt on the input blacklist.")
@click.option("-v", "--verbose", is_flag=True, help="Name clean files and notes, too.")
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
    """Check every file at or below PATH (hdfs://..., /on/the/cluster, file:///...).

    Each file is clean, corrupt, or not checked and why. Names that begin with _ or . are no data.
    Exits 65 when a file is corrupt, else 69 when one could not be checked, else 0.
    """
    import warnings

    from yarnam.client.verify import run, write_report

    # Pillow's, of pictures that are strange but whole; what is wrong is in the findings.
    warnings.filterwarnings("ignore", module="PIL")
    keep = verbose or report is not None
    order = _order(path, add=add, keep_clean=keep, **how)
    with open_data(ctx, path) as place:
        done = run(place, order, None if as_json else _progress())
    if report and "://" in report:
        with open_data(ctx, report) as target:
            write_report(target, report, done)
    elif report:
        write_report(None, report, done)
    if as_json:
        print_json(_plain(done, verbose))
    else:
        _print(done, verbose)
        if report:
            say(f"findings written to {report}")
    return done.exit_code


def _order(
    path: str,
    *,
    format_name: str,
    sample: float | None,
    workers: int | None,
    encoding: str,
    columns: int | None,
    schema: str,
    own: tuple[str, ...],
    allow_empty: bool,
    add: bool,
    keep_clean: bool,
) -> VerifyOrder:
    from yarnam.client.verify import VerifyOrder

    return VerifyOrder(
        path=path,
        format=format_name,
        sample=sample,
        workers=workers or 0,
        encoding=encoding,
        columns=columns or 0,
        schema=schema,
        own=own,
        allow_empty=allow_empty,
        add=add,
        keep_clean=keep_clean,
    )


def _progress() -> Any:
    from yarnam.cli.output import is_terminal

    if not is_terminal():
        return None

    def show(summary: Summary) -> None:
        rate = summary.length / max(summary.duration_s, 0.001) / 1e6
        click.echo(
            f"\r{summary.files} files, {summary.length / 1e6:.0f} MB, {rate:.0f} MB/s, "
            f"{summary.corrupt} corrupt\x1b[K",
            nl=False,
            err=True,
        )

    return show


def _print(done: Summary, verbose: bool) -> None:
    from yarnam.cli.output import is_terminal

    if is_terminal():
        click.echo("\r\x1b[K", nl=False, err=True)
    rows = [row for one in done.reports for row in _rows(one, verbose)]
    if rows:
        click.echo(table(("VERDICT", "REASON", "WHERE", "FILE", "WHAT"), rows))
    parts = [f"{done.files} files, {done.length / 1e6:.1f} MB in {duration(done.duration_s)}"]
    parts.append(f"{done.clean} clean")
    parts.append(f"{done.corrupt} corrupt")
    parts.append(f"{done.not_checked} not checked")
    if done.left_out:
        parts.append(f"{done.left_out} not in the sample")
    say(", ".join(parts))
    if done.added:
        say(f"{done.added} files are on the input blacklist now ('yarnam blacklist ls').")
    for warning in done.warnings:
        say(warning)


def _rows(report: FileReport, verbose: bool) -> list[list[str]]:
    from hdfs_utils.validation import FindingKind

    rows = []
    for finding in report.findings:
        is_note = finding.kind is FindingKind.NOTE
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


def _plain(done: Summary, verbose: bool) -> dict[str, Any]:
    from hdfs_utils.validation.outputs import rows

    listed = [
        row
        for report in done.reports
        if verbose or report.verdict.value != "clean"
        for row in rows(report)
    ]
    return {
        "files": done.files,
        "bytes": done.length,
        "duration_s": done.duration_s,
        "clean": done.clean,
        "corrupt": done.corrupt,
        "not_checked": done.not_checked,
        "left_out": done.left_out,
        "added": done.added,
        "warnings": list(done.warnings),
        "findings": listed,
    }
