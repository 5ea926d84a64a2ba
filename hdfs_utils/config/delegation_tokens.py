"""Delegation tokens of a container: the file that ``HADOOP_TOKEN_FILE_LOCATION`` names.

The native client reads that file itself; this is for WebHDFS. The format is Hadoop's
``Credentials`` (``HDTS``, version 0): counts as variable-length integers, then for each token an
alias and identifier, password, kind and service, each behind its length.
"""

from __future__ import annotations

import base64
import binascii
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from hdfs_utils.errors import BadConfig, MalformedData

TOKEN_FILE_VARIABLE = "HADOOP_TOKEN_FILE_LOCATION"  # noqa: S105 - a name
_MAGIC = b"HDTS"
HDFS_KIND = "HDFS_DELEGATION_TOKEN"
RM_KIND = "RM_DELEGATION_TOKEN"
KINDS = (HDFS_KIND, "WEBHDFS delegation", "SWEBHDFS delegation")


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """One delegation token. Its bytes are secrets and stay out of ``repr``."""

    kind: str
    service: str
    identifier: bytes = field(repr=False)
    password: bytes = field(repr=False)

    def for_url(self) -> str:
        """The token as WebHDFS takes it in ``delegation=``."""
        parts = (self.identifier, self.password, self.kind.encode(), self.service.encode())
        raw = b"".join(_vint(len(part)) + part for part in parts)
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    def for_rpc(self, service: str) -> DelegationToken:
        """The same token as the RPC of HDFS takes it: what WebHDFS hands out differs in its name
        only. ``service``: ``ip:port`` of the NameNode, or ``ha-hdfs:nameservice``."""
        return replace(self, kind=HDFS_KIND, service=service or self.service)


def from_url(text: str) -> DelegationToken:
    """A token as :meth:`DelegationToken.for_url` writes it, and Hadoop's REST interfaces do.

    Raises:
        MalformedData: it is none.
    """
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        parts, position = [], 0
        for _ in range(4):
            part, position = _read_bytes(data, position)
            parts.append(part)
        identifier, password, kind, service = parts
        return DelegationToken(kind.decode(), service.decode(), identifier, password)
    except (IndexError, ValueError, binascii.Error) as error:
        raise MalformedData("no delegation token") from error


def load(path: str | None = None) -> tuple[DelegationToken, ...]:
    """The tokens of the file; none where the environment names none.

    Raises:
        BadConfig: the file is missing or damaged.
    """
    token_file = path or os.environ.get(TOKEN_FILE_VARIABLE)
    if not token_file:
        return ()
    try:
        data = Path(token_file).read_bytes()
    except OSError as error:
        raise BadConfig(f"cannot be read: {error.strerror}", path=token_file) from error
    if data[:4] != _MAGIC or len(data) < 6:
        raise BadConfig("not a Hadoop token file", path=token_file)
    if data[4] != 0:
        raise BadConfig(
            f"token file of format {data[4]}; only format 0 is supported", path=token_file
        )
    try:
        return _tokens(data, 5)
    except IndexError as error:
        raise BadConfig("the token file is truncated", path=token_file) from error


def find(tokens: tuple[DelegationToken, ...], services: tuple[str, ...]) -> DelegationToken | None:
    """The token for one of these services (``host:port`` or ``ha-hdfs:nameservice``)."""
    for token in tokens:
        if token.kind in KINDS and token.service in services:
            return token
    return None


def _tokens(data: bytes, position: int) -> tuple[DelegationToken, ...]:
    count, position = _read_vint(data, position)
    found = []
    for _ in range(count):
        _, position = _read_bytes(data, position)  # the alias
        identifier, position = _read_bytes(data, position)
        password, position = _read_bytes(data, position)
        kind, position = _read_bytes(data, position)
        service, position = _read_bytes(data, position)
        found.append(DelegationToken(kind.decode(), service.decode(), identifier, password))
    return tuple(found)


def _read_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    size, position = _read_vint(data, position)
    if size < 0 or position + size > len(data):
        raise IndexError(position)
    return data[position : position + size], position + size


def _read_vint(data: bytes, position: int) -> tuple[int, int]:
    """Hadoop's ``WritableUtils.readVLong``."""
    first = data[position] - 256 if data[position] > 127 else data[position]
    position += 1
    if first >= -112:
        return first, position
    size = -112 - first if first >= -120 else -120 - first
    if position + size > len(data):
        raise IndexError(position)
    value = int.from_bytes(data[position : position + size], "big")
    return (value if first >= -120 else ~value), position + size


def _vint(value: int) -> bytes:
    """Hadoop's ``WritableUtils.writeVLong`` of a length."""
    if value <= 127:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return bytes([256 - 112 - size]) + value.to_bytes(size, "big")
