"""Options and arguments that several commands share, and the client behind them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from yarnam.client import Client

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
