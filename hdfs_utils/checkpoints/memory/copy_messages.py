"""What processes and holders send each other. All of it may be hostile until it is checked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hdfs_utils.checkpoints.format import layout
from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import Record, decode_record, shown

MAX_MESSAGE = 16 * 1024
"""Bytes of one message: a key has a path of at most 8,000 (HDFS's limit) and two short names."""

_MAX_ROOT = 12_000
_PLAIN = re.compile(r"[a-z0-9-]+")
_FILE = re.compile(r"shard-[0-9]{5}-of-[0-9]{5}")


@dataclass(frozen=True, slots=True)
class CopyKey:
    """Which shard of which save.

    Attributes:
        root: the URI of the directory of checkpoints.
        name: of the checkpoint; with the writer's epoch and the save's tag it is of one save alone.
        file: of the shard.
    """

    root: str
    name: str
    file: str

    @property
    def order(self) -> tuple[int, int, str]:
        """Which save is newer."""
        parsed = layout.parse(f"/{self.name}")
        assert parsed is not None
        return parsed.order

    @property
    def plain(self) -> dict[str, str]:
        return {"root": self.root, "name": self.name, "file": self.file}


@dataclass(frozen=True, slots=True)
class WantedShard:
    """A shard as the manifest has it."""

    key: CopyKey
    length: int
    crc32c: int

    @property
    def plain(self) -> dict[str, Any]:
        return {**self.key.plain, "length": self.length, "crc32c": self.crc32c}


def encode(message: Mapping[str, Any]) -> bytes:
    """Raises MalformedData if it is too long for who reads it."""
    data = json.dumps(message).encode()
    if len(data) > MAX_MESSAGE:
        raise MalformedData(f"a message of {len(data)} bytes; at most {MAX_MESSAGE} are read")
    return data


def decode(data: bytes) -> Record:
    """Raises MalformedData."""
    return decode_record(data, max_bytes=MAX_MESSAGE, max_depth=4)


def key_of(message: Record) -> CopyKey:
    """Raises MalformedData."""
    key = CopyKey(
        message.text("root", max_length=_MAX_ROOT),
        message.text("name", max_length=100),
        message.text("file", max_length=40),
    )
    if not _PLAIN.fullmatch(key.name) or layout.parse(f"/{key.name}") is None:
        raise MalformedData(f"not the name of a checkpoint: {shown(key.name)}")
    if not _FILE.fullmatch(key.file):
        raise MalformedData(f"not the name of a shard: {shown(key.file)}")
    return key


def wanted_of(message: Record) -> WantedShard:
    """Raises MalformedData."""
    return WantedShard(
        key_of(message), size_of(message, "length"), message.integer("crc32c", most=2**32 - 1)
    )


def size_of(message: Record, name: str) -> int:
    """Bytes of a shard: at least its footer. Raises MalformedData."""
    return message.integer(name, least=1)
