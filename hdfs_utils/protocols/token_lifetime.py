"""When a delegation token ends, as its identifier says: its owner, its renewer and its dates.

HDFS writes the identifier by ``AbstractDelegationTokenIdentifier``, YARN as the protobuf message
``YARNDelegationTokenIdentifierProto``. The first byte tells them apart.
"""

from __future__ import annotations

from hdfs_utils.config.delegation_tokens import HDFS_KIND, DelegationToken, read_bytes, read_vint
from hdfs_utils.protocols.protobuf import Message

_OLD_FORMAT = 0
NATIVE_MARGIN_S = 60.0
"""Of hdfs-native 0.14, as it was seen to behave."""

_MAX_DATE_FIELD = 5


def max_date_s(token: DelegationToken) -> float | None:
    """When it ends for good, however often it is renewed, in seconds since 1970; ``None`` means it
    does not say. Without renewal it ends after the server's renewal interval, of which it says
    nothing."""
    data = token.identifier
    try:
        date_ms = _of_hdfs(data) if data[0] == _OLD_FORMAT else _of_yarn(data)
    except (IndexError, ValueError):
        return None
    return date_ms / 1000 if date_ms > 0 else None


def usable_until_s(token: DelegationToken) -> float | None:
    """Until when the clients of HDFS take it, as ``max_date_s``: the native one ignores a token
    that ends for good within a minute."""
    date_s = max_date_s(token)
    return date_s if date_s is None or token.kind != HDFS_KIND else date_s - NATIVE_MARGIN_S


def _of_hdfs(data: bytes) -> int:
    position = 1
    for _ in range(3):  # owner, renewer, real user
        _, position = read_bytes(data, position)
    _, position = read_vint(data, position)  # the issue date
    return read_vint(data, position)[0]


def _of_yarn(data: bytes) -> int:
    return Message(data).number(_MAX_DATE_FIELD)
