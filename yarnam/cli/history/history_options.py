"""Which ended jobs a command is about: the options that ``history`` and ``usage`` share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from yarnam.cli.options import moment
from yarnam.cli.rendering.console import print_note
from yarnam.client.monitor.job_history import MOST_NAMED, Listing
from yarnam.core.accounting.job_summary import HistoryFilter
from yarnam.core.model.job_status import FINAL_PHASES

F = TypeVar("F", bound=Callable[..., Any])

STATES = sorted(phase.value for phase in FINAL_PHASES)

_OPTIONS = (
    click.option(
        "-u", "--user", default="", help="Jobs of this user; `*`: of all users. Default: you."
    ),
    click.option("-q", "--queue", default="", help="Jobs of this queue and those below it."),
    click.option(
        "-s",
        "--state",
        type=click.Choice(STATES, case_sensitive=False),
        help="Jobs that ended in this state.",
    ),
    click.option("--name", default="", help="Jobs whose name starts with this."),
    click.option(
        "--since", metavar="WHEN", help="Jobs that ended since then: a date, or an age such as 7d."
    ),
    click.option("--until", metavar="WHEN", help="Jobs that ended before then."),
)


def filter_options(command: F) -> F:
    """Adds the options; their values come as keyword arguments, for ``chosen``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def chosen(
    queue: str, state: str | None, name: str, since: str | None, until: str | None
) -> HistoryFilter:
    """The filter that the options describe. Raises UsageError."""
    return HistoryFilter(
        queue=queue,
        state=(state or "").upper(),
        name=name,
        since_s=moment(since, "--since"),
        until_s=moment(until, "--until"),
    )


def note_gaps(listing: Listing) -> None:
    """Says what is not in the list, on standard error."""
    if listing.unreadable:
        records = "record" if listing.unreadable == 1 else "records"
        print_note(
            f"{listing.unreadable} {records} could not be read: damaged, or of another version "
            "of yarnam."
        )
    if listing.hidden:
        print_note(f"No permission to read the history of {_named(listing.hidden)}.")
    if listing.cut:
        print_note(f"Only the newest jobs were read of {_named(listing.cut)}, who has many.")


def _named(users: Sequence[str]) -> str:
    more = len(users) - MOST_NAMED
    return ", ".join(users[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
