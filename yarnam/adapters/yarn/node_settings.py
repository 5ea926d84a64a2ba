"""The configuration of one NodeManager, as its web server shows it."""

from __future__ import annotations

from collections.abc import Mapping

from hdfs_utils.errors import MalformedData
from yarnam.adapters.http_identity import HttpIdentity
from yarnam.adapters.yarn import rest_parse
from yarnam.errors import Unavailable
from yarnam.wire.http_request import HttpError

LIMIT_S = 5.0
"""A NodeManager answers in milliseconds."""


def node_settings(http_address: str, scheme: str, who: HttpIdentity) -> Mapping[str, str]:
    """By name, empty for what has no value. ``http_address``: host:port. Raises Unavailable,
    NoPermission."""
    url = f"{scheme}://{http_address}/conf"
    try:
        return rest_parse.settings_of(who.get(url, timeout_s=LIMIT_S).json())
    except (HttpError, MalformedData) as error:
        raise Unavailable(f"cannot read {url}: {error}") from error
