"""Options and arguments that several commands share, and how they open a client."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from yarnam._light_imports import on_first_use
from yarnam.errors import UsageError

if TYPE_CHECKING:
    from yarnam.client import Client
    from yarnam.client.data.data_location import DataLocation

with on_first_use():
    from yarnam.client.data import data_location
    from yarnam.spec.values import units

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2})?)?")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, including errors.")

queue_option = click.option("-q", "--queue", help="Use this queue instead of the spec's.")

new_file_option = click.option(
    "-o", "--output", type=click.Path(dir_okay=False), help="Write to this new file."
)
"""For ``write_output``."""

picture_option = click.option(
    "--plot",
    "picture",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Draw the figures (SVG).",
)

job_argument = click.argument("job", metavar="JOB")
"""An application id, the start of a name, or `last`."""


class ChoiceWithFormer(click.Choice):  # type: ignore[type-arg,unused-ignore]
    """A choice that refuses the values of earlier versions with what to use instead."""

    def __init__(self, choices: Sequence[str], former: Mapping[str, str]) -> None:
        super().__init__(choices)
        self.former = former

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in self.former:
            raise UsageError(f"{value} is not supported any more", hint=self.former[value])
        return str(super().convert(value, param, ctx))


class GroupWithFormer(click.Group):
    """A group that refuses the command names of earlier versions with what to use instead."""

    def __init__(self, *args: Any, former: Mapping[str, str], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.former = former

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] in self.former:
            raise UsageError(
                f"{ctx.command_path} {args[0]} is not supported any more",
                hint=self.former[args[0]],
            )
        return super().resolve_command(ctx, args)


def former_option(name: str, instead: str) -> Callable[[Any], Any]:
    """An option of earlier versions, which is refused with what to use instead."""

    def refuse(_ctx: click.Context, _option: click.Parameter, value: Any) -> None:
        if value is not None:
            raise UsageError(f"{name} is not supported any more", hint=instead)

    return click.option(name, hidden=True, expose_value=False, callback=refuse)


@contextmanager
def open_client(ctx: click.Context, **settings: Any) -> Iterator[Client]:
    """The client for this command, closed at the end of the block."""
    client: Client = ctx.obj.open_client(**settings)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def open_data(ctx: click.Context, path: str) -> Iterator[DataLocation]:
    """The file system of ``path``; local data (file:///) needs no cluster."""
    if data_location.is_local(path):
        yield data_location.locate_data(path, lambda: ctx.obj.open_client().site)
        return
    with open_client(ctx) as client:
        yield data_location.locate_data(path, lambda: client.site)


def moment(text: str | None, option: str) -> float | None:
    """A local date and time, or an age, in seconds since the epoch. Raises UsageError."""
    if text is None:
        return None
    if _DATE.fullmatch(text):
        try:
            return datetime.fromisoformat(text).timestamp()
        except ValueError as error:
            raise UsageError(f"{option} {text}: {error}") from error
    try:
        return time.time() - units.parse_duration_s(text)
    except ValueError as error:
        raise UsageError(
            f"{option} {text} is neither a date such as 2026-11-22 nor an age such as 7d"
        ) from error


def seconds_of(text: str, option: str) -> float:
    """A duration that was given for this option. Raises UsageError."""
    try:
        return units.parse_duration_s(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}", hint="Give a duration such as 90m or 2d.") from error
