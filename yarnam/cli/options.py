"""Options and arguments that several commands share, and the client behind them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from yarnam.client import Client
    from yarnam.client.files import DataPlace

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, errors too.")

job_argument = click.argument("job", metavar="JOB")
"""An application id, the start of a name, or `last`."""


@contextmanager
def open_client(ctx: click.Context, **settings: Any) -> Iterator[Client]:
    """The client for this command; closed when the block is left."""
    client: Client = ctx.obj.open_client(**settings)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def open_data(ctx: click.Context, path: str) -> Iterator[DataPlace]:
    """The file system that ``path`` lies on; data of this machine (file:///) need no cluster."""
    from yarnam.client.files import data_place, is_local

    if is_local(path):
        yield data_place(path, lambda: ctx.obj.open_client().site)
        return
    with open_client(ctx) as client:
        yield data_place(path, lambda: client.site)
