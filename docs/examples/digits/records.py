"""How the digits lie on HDFS: a manifest, and shards of fixed-length records.

One record is 65 bytes: 64 pixels (8 x 8, row by row, 0 to 16) and the label (0 to 9). The manifest
names every shard with its length and SHA-256, so that a reader knows a whole data set from a
broken one.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

import numpy as np

from hdfs_utils import FileSystem, connect

PIXELS = 64
RECORD_BYTES = PIXELS + 1
BRIGHTEST = 16.0
MANIFEST = "manifest.json"


class BadDataSet(Exception):
    """What lies there is not what the manifest says."""


@dataclass(frozen=True)
class Shard:
    """One file. ``path`` is relative to the data set."""

    path: str
    records: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    train: tuple[Shard, ...]
    test: tuple[Shard, ...]
    record_bytes: int = RECORD_BYTES

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode()


def read_manifest(directory: str) -> Manifest:
    """Raises NotFound when there is none, BadDataSet when it is of another kind."""
    plain = json.loads(connect(directory).read_bytes(f"{directory}/{MANIFEST}"))
    if plain["record_bytes"] != RECORD_BYTES:
        raise BadDataSet(f"{directory}: records of {plain['record_bytes']} bytes, not 65")
    return Manifest(
        train=tuple(Shard(**shard) for shard in plain["train"]),
        test=tuple(Shard(**shard) for shard in plain["test"]),
    )


def pack(pixels: np.ndarray, labels: np.ndarray) -> bytes:
    """Rows of 64 pixels and their labels as records."""
    return np.column_stack([pixels, labels]).astype(np.uint8).tobytes()


def unpack(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Inverse of ``pack``; pixels come back as float32 in [0, 1]."""
    table = np.frombuffer(data, np.uint8).reshape(-1, RECORD_BYTES)
    return table[:, :PIXELS].astype(np.float32) / BRIGHTEST, table[:, PIXELS].astype(np.int32)


def read_shard(files: FileSystem, directory: str, shard: Shard) -> tuple[np.ndarray, np.ndarray]:
    """The pixels and labels of one shard, verified. Raises BadDataSet."""
    data = files.read_bytes(f"{directory}/{shard.path}")
    found = hashlib.sha256(data).hexdigest()
    if found != shard.sha256:
        raise BadDataSet(
            f"{directory}/{shard.path}: SHA-256 is {found}, the manifest says {shard.sha256}"
        )
    return unpack(data)
