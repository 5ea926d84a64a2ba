"""Delegation tokens of a container: the file that ``HADOOP_TOKEN_FILE_LOCATION`` names.

The native client reads that file itself; this is for WebHDFS. The format is Hadoop's
``Credentials`` (``HDTS``, version 0): counts as variable-length integers, then for each token an
alias and identifier, password, kind and service, each behind its length.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from hdfs_utils.errors import BadConfig, MalformedData

TOKEN_FILE_VARIABLE = "HADOOP_TOKEN_FILE_LOCATION"  # noqa: S105 - a name
_MAGIC = b"HDTS"
_NO_SECRETS = b"\0"
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
        return base64.urlsafe_b64encode(_written(self)).rstrip(b"=").decode()

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
        return _read_token(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), 0)[0]
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
    entries, _ = _entries(token_file)
    return tuple(token for _, token in entries)


def replace_in_file(path: str, tokens: Iterable[DelegationToken]) -> None:
    """Put these tokens in place of those of the same kind and service, or beside what is there.
    Readers see the file before or after: it is replaced whole. Only its owner may read it.

    Raises:
        BadConfig: the file is missing, damaged or cannot be written.
    """
    entries, secrets = _entries(path)
    rows = {(token.kind, token.service): (alias, token) for alias, token in entries}
    for token in tokens:
        name = (token.kind, token.service)
        alias = rows[name][0] if name in rows else _alias(token)
        rows[name] = (alias, token)
    _write(path, rows.values(), secrets)


def write_file(path: str, tokens: Iterable[DelegationToken]) -> None:
    """A file of these tokens alone, which only its owner may read. Raises BadConfig."""
    _write(path, [(_alias(token), token) for token in tokens], _NO_SECRETS)


def _alias(token: DelegationToken) -> bytes:
    return f"{token.kind} {token.service}".encode()


def _write(path: str, rows: Collection[tuple[bytes, DelegationToken]], secrets: bytes) -> None:
    body = b"".join(_vint(len(alias)) + alias + _written(token) for alias, token in rows)
    data = _MAGIC + b"\0" + _vint(len(rows)) + body + secrets
    part = f"{path}.{os.getpid()}.new"
    try:
        Path(part).unlink(missing_ok=True)
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
            file.write(data)
        Path(part).replace(path)
    except OSError as error:
        raise BadConfig(f"cannot be written: {error.strerror}", path=path) from error


def _entries(path: str) -> tuple[list[tuple[bytes, DelegationToken]], bytes]:
    """The tokens of a file with their aliases, and the secrets behind them as they are."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise BadConfig(f"cannot be read: {error.strerror}", path=path) from error
    return decode_file(data, path)


def decode_file(data: bytes, path: str = "") -> tuple[list[tuple[bytes, DelegationToken]], bytes]:
    """The tokens of a file's bytes with their aliases, and the secrets behind them as they are.
    Raises BadConfig."""
    if data[:4] != _MAGIC or len(data) < 6:
        raise BadConfig("not a Hadoop token file", path=path)
    if data[4] != 0:
        raise BadConfig(f"token file of format {data[4]}; only format 0 is supported", path=path)
    try:
        return _tokens(data, 5)
    except (IndexError, ValueError) as error:
        raise BadConfig("the token file is damaged", path=path) from error


def find(tokens: tuple[DelegationToken, ...], services: tuple[str, ...]) -> DelegationToken | None:
    """The token for one of these services (``host:port`` or ``ha-hdfs:nameservice``)."""
    for token in tokens:
        if token.kind in KINDS and token.service in services:
            return token
    return None


def _tokens(data: bytes, position: int) -> tuple[list[tuple[bytes, DelegationToken]], bytes]:
    count, position = read_vint(data, position)
    found = []
    for _ in range(count):
        alias, position = read_bytes(data, position)
        token, position = _read_token(data, position)
        found.append((alias, token))
    return found, data[position:]


def _read_token(data: bytes, position: int) -> tuple[DelegationToken, int]:
    identifier, position = read_bytes(data, position)
    password, position = read_bytes(data, position)
    kind, position = read_bytes(data, position)
    service, position = read_bytes(data, position)
    return DelegationToken(kind.decode(), service.decode(), identifier, password), position


def _written(token: DelegationToken) -> bytes:
    parts = (token.identifier, token.password, token.kind.encode(), token.service.encode())
    return b"".join(_vint(len(part)) + part for part in parts)


def read_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    """Bytes behind their length, and the position behind them. Raises IndexError."""
    size, position = read_vint(data, position)
    if size < 0 or position + size > len(data):
        raise IndexError(position)
    return data[position : position + size], position + size


def read_vint(data: bytes, position: int) -> tuple[int, int]:
    """Hadoop's ``WritableUtils.readVLong``, and the position behind it. Raises IndexError."""
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
