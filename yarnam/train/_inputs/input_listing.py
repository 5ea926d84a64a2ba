"""The list of the job's inputs as it was at submit: ``yarnam.wire.input_manifest`` writes it."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from yarnam.train._inputs.file_shares import InputFile, Partitioner

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

VERSION = 1


@dataclass(frozen=True)
class InputListing:
    """One input.

    Attributes:
        root: its plain path on its file system.
        is_file: it is one file: ``root`` is that file's own path.
        mode: ``stream``, ``localize`` or ``cache``.
    """

    name: str
    uri: str
    root: str
    is_file: bool
    mode: str
    is_shared: bool
    files: Sequence[InputFile]

    @property
    def is_staged(self) -> bool:
        """Whether the agent stages it on the node's own disk."""
        return self.mode != "stream"

    @property
    def partitioner(self) -> Partitioner:
        """How it is divided into shares."""
        return Partitioner(self.files, is_fixed=self.is_staged, is_shared=self.is_shared)

    def path_of(self, file: InputFile) -> str:
        """On its file system."""
        return self.root if self.is_file else f"{self.root.rstrip('/')}/{file.path}"

    def uri_of(self, file: InputFile) -> str:
        """The URI under which any program can open it."""
        return self.uri if self.is_file else f"{self.uri.rstrip('/')}/{file.path}"


def read_input_manifest(path: Path) -> dict[str, InputListing]:
    """The inputs by name. Raises ValueError for a format that this version cannot read, OSError."""
    plain = json.loads(gzip.decompress(path.read_bytes()))
    if plain.get("version") != VERSION:
        raise ValueError(f"{path} has version {plain.get('version')}, this reads {VERSION}")
    return {
        one["name"]: InputListing(
            one["name"],
            one["uri"],
            one["root"],
            one["is_file"],
            one["mode"],
            one["shard"] == "files",
            [InputFile(name, length, mtime_ms) for name, length, mtime_ms in one["files"]],
        )
        for one in plain["inputs"]
    }
