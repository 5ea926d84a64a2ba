"""The list of a job's inputs, file by file, as it was at submit.

Every process, every agent and every attempt uses this one list, so all compute the same shares.
Read by ``yarnam.train._inputs.input_listing``, which runs in the user's Python.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from yarnam.core.model.job_spec import DataInput


@dataclass(frozen=True, slots=True)
class ListedInput:
    """``root``: the input's plain path on its file system. ``files``: path relative to it (its name
    where the input is one file), bytes, modification time in ms; in order."""

    given: DataInput
    root: str
    is_file: bool
    files: Sequence[tuple[str, int, int]]


def encode_manifest(inputs: Iterable[ListedInput]) -> bytes:
    """Gzipped JSON; the same inputs give the same bytes."""
    plain = [
        {
            "name": one.given.name,
            "uri": one.given.uri,
            "root": one.root,
            "is_file": one.is_file,
            "mode": one.given.mode.value,
            "shard": one.given.shard.value,
            "files": [list(file) for file in one.files],
        }
        for one in inputs
    ]
    text = json.dumps({"version": 1, "inputs": plain}, separators=(",", ":"))
    return gzip.compress(text.encode(), compresslevel=6, mtime=0)
