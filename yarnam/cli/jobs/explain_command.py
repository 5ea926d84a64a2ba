"""``yarnam explain``: why a job, or a process, failed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click

from yarnam.cli.options import json_option, open_client
from yarnam.cli.rendering.cause_text import cause_lines
from yarnam.cli.rendering.console import Line, coloured, print_json, print_lines
from yarnam.client.monitor.explanations import explain_logs
from yarnam.client.site import find_conf_dir
from yarnam.core.model.job_status import JobStatus
from yarnam.core.observers.observer_registry import past_findings
from yarnam.errors import BadConfig, ExitCode, UsageError, error_classes
from yarnam.spec import failure_rules
from yarnam.wire.codec import to_plain


@click.command("explain")
@click.argument("job", metavar="[JOB]", required=False)
@click.option(
    "--log",
    "logs",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A log of a process of rank 0, 1, ... (repeatable), in place of a job.",
)
@click.option(
    "--exit-code",
    type=click.IntRange(1, 255),
    help="The exit code of the processes; without --log, what it means by itself.",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    job: str | None,
    logs: tuple[Path, ...],
    exit_code: int | None,
    as_json: bool,
) -> None:
    """Show why a job failed: the first process, the rule and the line that say so, what followed,
    and what was ruled out. Of a job that was restarted, also why.

    With --log or --exit-code it shows what yarnam makes of other processes' logs and exit codes.
    """
    conf_dir = None
    is_other = bool(logs) or exit_code is not None
    if is_other == (job is not None):
        raise UsageError("name either a job, or --log and --exit-code")
    if job is not None:
        with open_client(ctx) as client:
            status = client.job(job).status()
        if as_json:
            print_json(_plain(status))
        else:
            print_lines(_of_job(status))
        return
    with suppress(BadConfig):  # without a cluster too
        conf_dir = find_conf_dir()
    cause = explain_logs(logs, exit_code, failure_rules.site_rules(conf_dir, os.environ))
    if as_json:
        print_json(to_plain(cause))
        return
    if not logs and exit_code is not None:
        print_lines(_own_code(exit_code))
    print_lines(cause_lines(cause))


def _plain(status: JobStatus) -> dict[str, object]:
    return {
        "stragglers": [
            {"attempt": one.attempt, **to_plain(each)}
            for one in status.history
            for each in one.stragglers
        ],
        "idle_gpus": [
            {"attempt": one.attempt, **to_plain(one.idle_gpus)}
            for one in status.history
            if one.idle_gpus is not None
        ],
        "conditions": [
            {"attempt": one.attempt, **to_plain(condition)}
            for one in status.history
            for condition in one.conditions
        ],
        "roles": [to_plain(one) for one in status.roles],
        "verdict": to_plain(status.verdict) if status.verdict else None,
        "attempts": [
            {"attempt": one.attempt, "outcome": one.outcome, "cause": to_plain(one.cause)}
            for one in status.history
            if one.cause is not None
        ],
    }


def _of_job(status: JobStatus) -> Iterator[Line]:
    last = status.verdict.cause if status.verdict else None
    yield from (f"role {one.words}" for one in status.roles)
    for record in status.history:
        if record.cause is None and record.outcome:
            yield f"attempt {record.attempt}: {record.outcome}"
        elif record.cause is not None and record.cause != last:
            yield f"attempt {record.attempt}: {record.outcome}"
            yield from cause_lines(record.cause, indent="  ")
        findings = list(past_findings(record))
        if findings and not record.outcome:
            yield f"attempt {record.attempt}:"
        yield from (f"  {line}" for line in findings)
    if status.verdict is None:
        yield "The job has no verdict yet."
    else:
        first = status.verdict.message.splitlines() or [""]
        yield coloured(status.verdict.kind.value), f": {first[0]}"
    if last is not None:
        yield from cause_lines(last)


def _own_code(code: int) -> Iterator[Line]:
    """yarnam's own exit codes mean something else than a process's."""
    if code in list(ExitCode):
        meaning = {one.exit_code: one for one in error_classes()}[ExitCode(code)]
        text = (meaning.__doc__ or "").strip().splitlines()[0]
        yield f"of yarnam itself: {ExitCode(code).name}: {text}"
        yield "of a process of a job:"
