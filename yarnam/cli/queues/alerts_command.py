"""``yarnam alerts``: what administrators should look at."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import json_option, open_client
from yarnam.cli.rendering.console import date_time, print_json, print_line, print_note
from yarnam.core.queues.overview.alerts import Alert
from yarnam.errors import ExitCode

with on_first_use():
    from yarnam.client.queues import alert_check

ACTIVE = 1
"""The exit code while an alert is active."""


@click.command("alerts")
@click.option(
    "--once", is_flag=True,
    help="Print only what is new or over since the last time, and remember it (for cron).",
)  # fmt: skip
@click.option(
    "--state-file", "state", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Remember it in FILE. Default: ~/.local/state/yarnam/alerts.json",
)  # fmt: skip
@json_option
@click.pass_context
def command(ctx: click.Context, once: bool, state: Path | None, as_json: bool) -> int:
    """Show what administrators should look at.

    An alert is a node that jobs have struck three times within a day, a queue that has been without
    its minimum for an hour while its jobs wait, or a gang that waits beyond its forecast. Without
    --once the active alerts are listed, and nothing is remembered. Exits with 0 if no alert is
    active, with 1 if one is, and with 69 if a part of the cluster could not be read.
    """
    path = state or alert_check.default_file()
    with open_client(ctx) as client:
        if not once:
            found = alert_check.check_alerts(client.site, alert_check.read_state(client.site, path))
            _print(found, found.step.state.active, (), as_json)
            return _exit_code(found)
        with alert_check.own_state(path):
            found = alert_check.check_alerts(client.site, alert_check.read_state(client.site, path))
            # Said before it is remembered: what could not be printed is said the next time.
            _print(found, found.step.said, found.step.cleared, as_json)
            alert_check.write_state(client.site, path, found.step.state)
            return _exit_code(found)


def _exit_code(found: alert_check.AlertCheck) -> int:
    if found.missing:
        return int(ExitCode.UNAVAILABLE)
    return ACTIVE if found.step.state.active else 0


def _print(
    found: alert_check.AlertCheck, said: Iterable[Alert], cleared: Iterable[Alert], as_json: bool
) -> None:
    if as_json:
        step = found.step
        print_json(
            {
                "said": [_plain(one) for one in step.said],
                "cleared": [_plain(one) for one in step.cleared],
                "active": [_plain(one) for one in step.state.active],
                "missing": list(found.missing),
            }
        )
        return
    for one in said:
        print_line(f"alert    {one.text} (since {date_time(one.since_s)})")
    for one in cleared:
        print_line(f"cleared  {one.text} (since {date_time(one.since_s)})")
    for trouble in found.missing:
        print_note(f"Missing: {trouble}. Its alerts stay as they were.")


def _plain(alert: Alert) -> dict[str, Any]:
    return {
        "kind": alert.kind.value,
        "subject": alert.subject,
        "since_s": alert.since_s,
        "text": alert.text,
    }
