"""What a manifest says, and how it is written down. Pure."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hdfs_utils.errors import CorruptData

FORMAT = "hdfs_utils.checkpoint/2"
# Of this many bytes each has a checksum of its own, so that a part of a shard can be verified.
# Larger: more is read for a small range. Smaller: a longer manifest (8 characters for each).
CHUNK = 4 << 20


@dataclass(frozen=True, slots=True)
class ArrayPart:
    """Which part of which global array an entry holds, in C order.

    Attributes:
        dtype: NumPy's short form such as ``<f4``, or a name such as ``bfloat16``.
        shape: of the global array.
        start: where the part begins, for each axis.
        extent: its size, for each axis.
    """

    dtype: str
    shape: tuple[int, ...]
    start: tuple[int, ...]
    extent: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """Some bytes of one shard. ``array`` is None for plain bytes."""

    name: str
    shard: int
    offset: int
    length: int
    array: ArrayPart | None = None


@dataclass(frozen=True, slots=True)
class Shard:
    """One file.

    Attributes:
        file: its name within the checkpoint.
        length: in bytes.
        data_length: in bytes, without its footer.
        crc32c: of the whole file.
        chunks: CRC32C of every ``CHUNK`` bytes of the data, in order.
    """

    file: str
    length: int
    data_length: int
    crc32c: int
    chunks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint by its manifest.

    Attributes:
        path: its directory.
        step: the training step.
        epoch: of its writer; see :mod:`hdfs_utils.checkpoints.commit.fence`.
        saved_ms: when, in milliseconds since 1970 by the clock of who saved it.
        world_size: how many ranks wrote it.
        writer: who: ``owner``, ``attempt`` and ``host``.
        metrics: what ``save`` was told, for retention.
        metadata: what was given to ``save``: anything JSON can hold.
    """

    path: str
    step: int
    epoch: int
    saved_ms: int
    world_size: int
    shards: tuple[Shard, ...]
    entries: tuple[Entry, ...]
    writer: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of all shards."""
        return sum(shard.length for shard in self.shards)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the values, each once, in the order of the shards."""
        return tuple(dict.fromkeys(entry.name for entry in self.entries))


def encode_chunks(chunks: tuple[int, ...]) -> str:
    """Eight hexadecimal digits each."""
    return "".join(f"{crc:08x}" for crc in chunks)


def decode_chunks(text: str) -> tuple[int, ...]:
    return tuple(int(text[at : at + 8], 16) for at in range(0, len(text), 8))


def encode_entry(entry: Entry) -> dict[str, Any]:
    plain: dict[str, Any] = {"name": entry.name, "offset": entry.offset, "length": entry.length}
    if entry.array is not None:
        plain["array"] = [
            entry.array.dtype,
            list(entry.array.shape),
            list(entry.array.start),
            list(entry.array.extent),
        ]
    return plain


def decode_entry(plain: Mapping[str, Any], shard: int) -> Entry:
    array = None
    if "array" in plain:
        dtype, shape, start, extent = plain["array"]
        array = ArrayPart(dtype, tuple(shape), tuple(start), tuple(extent))
    return Entry(plain["name"], shard, plain["offset"], plain["length"], array)


def encode(checkpoint: Checkpoint) -> bytes:
    """The manifest's bytes. Raises ValueError or TypeError: the metadata is nothing for JSON."""
    content = {
        "format": FORMAT,
        "step": checkpoint.step,
        "epoch": checkpoint.epoch,
        "saved_ms": checkpoint.saved_ms,
        "world_size": checkpoint.world_size,
        "writer": dict(checkpoint.writer),
        "metrics": dict(checkpoint.metrics),
        "metadata": dict(checkpoint.metadata),
        "chunk": CHUNK,
        "shards": [_encode_shard(checkpoint, number) for number in range(len(checkpoint.shards))],
    }
    body = json.dumps(content, indent=1, sort_keys=True, allow_nan=False).encode()
    # The manifest vouches for the shards; this line vouches for the manifest.
    return body + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n"


def _encode_shard(checkpoint: Checkpoint, number: int) -> dict[str, Any]:
    shard = checkpoint.shards[number]
    return {
        "file": shard.file,
        "length": shard.length,
        "data_length": shard.data_length,
        "crc32c": f"{shard.crc32c:08x}",
        "chunks": encode_chunks(shard.chunks),
        "entries": [encode_entry(entry) for entry in checkpoint.entries if entry.shard == number],
    }


def decode(data: bytes, path: str, place: str) -> Checkpoint:
    """The checkpoint in directory ``path`` by the manifest's bytes, read from ``place``.

    Raises:
        CorruptData: damaged, or of another format.
    """
    body, _, seal = data.rstrip(b"\n").rpartition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != seal:
        raise CorruptData("the manifest is damaged", path=place, operation="load")
    content = json.loads(body)
    if content["format"] != FORMAT or content["chunk"] != CHUNK:
        message = f"of format {content['format']!r}; this code reads {FORMAT!r}"
        raise CorruptData(message, path=place, operation="load")
    shards = [_decode_shard(plain) for plain in content["shards"]]
    entries = [
        decode_entry(plain, number)
        for number, shard in enumerate(content["shards"])
        for plain in shard["entries"]
    ]
    return Checkpoint(
        path=path,
        step=content["step"],
        epoch=content["epoch"],
        saved_ms=content["saved_ms"],
        world_size=content["world_size"],
        shards=tuple(shards),
        entries=tuple(entries),
        writer=content["writer"],
        metrics=content["metrics"],
        metadata=content["metadata"],
    )


def _decode_shard(plain: Mapping[str, Any]) -> Shard:
    return Shard(
        file=plain["file"],
        length=plain["length"],
        data_length=plain["data_length"],
        crc32c=int(plain["crc32c"], 16),
        chunks=decode_chunks(plain["chunks"]),
    )


def incomplete(entries: Iterable[Entry]) -> str:
    """What is wrong with arrays whose parts are not all there; empty where nothing is.

    Equal parts may be stored more than once; others must not overlap.
    """
    parts: dict[str, set[tuple[tuple[int, ...], tuple[int, ...]]]] = {}
    kinds: dict[str, tuple[str, tuple[int, ...]] | None] = {}
    for entry in entries:
        spec = entry.array
        kind = None if spec is None else (spec.dtype, spec.shape)
        if kinds.setdefault(entry.name, kind) != kind or (spec is None and entry.name in parts):
            return f"{entry.name} is saved twice, or is not the same kind of value on all ranks"
        found = parts.setdefault(entry.name, set())
        if spec is not None and all(spec.extent):
            found.add((spec.start, spec.extent))
    for name, kind in kinds.items():
        if kind is None:
            continue
        held = sum(math.prod(extent) for _, extent in parts[name])
        if held != math.prod(kind[1]):
            return f"{name}: the parts of all ranks hold {held} of {math.prod(kind[1])} elements"
    return ""
