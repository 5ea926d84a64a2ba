"""Options and arguments that several commands share, and how they open a client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from yarnam.wire.light_imports import on_first_use

if TYPE_CHECKING:
    from yarnam.client import Client
    from yarnam.client.data.data_location import DataLocation

with on_first_use():
    from yarnam.client.data import data_location

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, including errors.")

job_argument = click.argument("job", metavar="JOB")
"""An application id, the start of a name, or `last`."""


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
