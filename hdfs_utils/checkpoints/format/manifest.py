"""A checkpoint's manifest and its JSON. Pure."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hdfs_utils.checkpoints.format import layout
from hdfs_utils.errors import CorruptData, MalformedData
from hdfs_utils.protocols.untrusted import at_path, decode_record

FORMAT = "hdfs_utils.checkpoint/2"
# Of this many bytes each has a checksum of its own, so that a part of a shard can be verified.
# Larger: more is read for a small range. Smaller: a longer manifest (8 characters for each).
CHUNK = 4 << 20
# Bytes of a manifest, and of a shard's footer: a million values, or 100 TB in shards.
MAX_BYTES = 256 << 20
MAX_SEALED_BYTES = MAX_BYTES + 1000
# Nesting of the user's metadata and of the rest.
_MAX_DEPTH = 200
# HDFS counts bytes in 64 bits.
_MAX_COUNT = 2**63 - 1
# Of `layout.single_tag`; times beyond it cannot be shown as a date for much longer anyway.
_MAX_SAVED_MS = 36**9 - 1
# NumPy 2 allows 64.
_MAX_AXES = 64
# NumPy's short forms and plain names; no commas: those make records.
_DTYPE = re.compile(r"[<>|=]?[A-Za-z][A-Za-z0-9_]{0,30}(\[[A-Za-z0-9]{1,10}\])?")


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
        metrics: those given to ``save``, for retention.
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
        """The names of the values, each once, in the order of the shards."""
        return tuple(dict.fromkeys(entry.name for entry in self.entries))


def encode_chunks(chunks: tuple[int, ...]) -> str:
    """Eight hexadecimal digits each."""
    return "".join(f"{crc:08x}" for crc in chunks)


def decode_chunks(text: str) -> tuple[int, ...]:
    """Inverse of :func:`encode_chunks`. Raises ValueError, TypeError."""
    return tuple(_crc(text[at : at + 8]) for at in range(0, len(text), 8))


def is_name(text: object) -> bool:
    """Whether a value can be called so. Names are paths: a checkpoint can be taken apart into
    files, and none of them may lie outside of the directory that it is taken apart into."""
    return (
        isinstance(text, str)
        and "\0" not in text
        and all(part not in ("", ".", "..") for part in text.split("/"))
    )


def encode_entry(entry: Entry) -> dict[str, Any]:
    """One value of a shard as plain JSON values. Offset and length are in bytes."""
    plain: dict[str, Any] = {"name": entry.name, "offset": entry.offset, "length": entry.length}
    if entry.array is not None:
        plain["array"] = [
            entry.array.dtype,
            list(entry.array.shape),
            list(entry.array.start),
            list(entry.array.extent),
        ]
    return plain


def decode_entry(plain: Mapping[str, Any], shard: int, data_length: int) -> Entry:
    """Inverse of :func:`encode_entry`.

    Args:
        plain: by whoever wrote it.
        shard: the number of its file.
        data_length: of that file, in bytes.

    Raises:
        ValueError, KeyError, TypeError: nothing that :func:`encode_entry` writes.
    """
    name, offset, length = plain["name"], _count(plain["offset"]), _count(plain["length"])
    if not is_name(name):
        raise ValueError(f"{name!r:.200} cannot be the name of a value")
    if offset + length > data_length:
        raise ValueError(f"{name!r:.200} lies outside of its shard")
    array = _decode_part(plain["array"]) if "array" in plain else None
    return Entry(name, shard, offset, length, array)


def _decode_part(plain: Any) -> ArrayPart:
    dtype, *boxes = plain
    shape, start, extent = (tuple(_count(size) for size in box) for box in boxes)
    if not _DTYPE.fullmatch(dtype):
        raise ValueError(f"{dtype!r:.200} is not an element type")
    if not len(shape) == len(start) == len(extent) <= _MAX_AXES or any(
        a + n > size for a, n, size in zip(start, extent, shape, strict=True)
    ):
        raise ValueError(f"a part of {extent} at {start} is not within {shape}")
    return ArrayPart(dtype, shape, start, extent)


def _count(plain: Any, most: int = _MAX_COUNT) -> int:
    if type(plain) is not int or not 0 <= plain <= most:
        raise ValueError(f"{plain!r:.40} is not a number from 0 to {most}")
    return plain


def _crc(plain: str) -> int:
    # int() takes signs, blanks and underscores too.
    if not re.fullmatch("[0-9a-f]{8}", plain):
        raise ValueError(f"{plain!r:.40} is not a checksum")
    return int(plain, 16)


def _mapping(plain: Any) -> dict[str, Any]:
    if not isinstance(plain, dict):
        raise TypeError(f"a {type(plain).__name__} where names and values belong")
    return plain


@contextlib.contextmanager
def corrupt_where_malformed(source: str, operation: str) -> Iterator[None]:
    """Whatever can come of decoding what anybody may have written, as CorruptData."""
    try:
        with at_path(source, operation):
            yield
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        message = f"this is nothing that a checkpoint says: {error!r:.300}"
        raise CorruptData(message, path=source, operation=operation) from error
    except RecursionError as error:
        message = "it is nested too deeply"
        raise CorruptData(message, path=source, operation=operation) from error


def encode(checkpoint: Checkpoint) -> bytes:
    """The manifest's bytes. Raises ValueError or TypeError: the metadata is nothing for JSON, or
    the whole is too large to be read again."""
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
    if len(body) > MAX_BYTES:
        raise ValueError(f"the manifest has {len(body)} bytes; at most {MAX_BYTES} are read")
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


def decode_plain(body: bytes) -> dict[str, Any]:
    """The JSON object of a manifest, a footer or a note. Raises MalformedData."""
    # Metadata may hold long integers: a random generator's state has 128 bits.
    return decode_record(body, max_bytes=MAX_BYTES, max_depth=_MAX_DEPTH, is_lenient=True).plain


def copy_of_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """A deep copy, as a reader of the manifest will see it.

    Raises:
        ValueError, TypeError: it is nothing for JSON, or no reader would take it.
    """
    data = json.dumps(dict(metadata or {}), allow_nan=False).encode()
    try:
        return decode_plain(data)
    except MalformedData as error:
        raise ValueError(f"the metadata cannot be saved: {error.message}") from error


def decode(data: bytes, path: str, source: str) -> Checkpoint:
    """The checkpoint in directory ``path`` by the manifest's bytes, read from ``source``.

    Raises:
        CorruptData: damaged, or of another format.
    """
    body, _, seal = data.rstrip(b"\n").rpartition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != seal:
        raise CorruptData("the manifest is damaged", path=source, operation="load")
    with corrupt_where_malformed(source, "load"):
        content = decode_plain(body)
        if content["format"] != FORMAT or content["chunk"] != CHUNK:
            message = f"of format {content['format']!r:.100}; this code reads {FORMAT!r}"
            raise CorruptData(message, path=source, operation="load")
        return _decode(content, path)


def _decode(content: Mapping[str, Any], path: str) -> Checkpoint:
    shards = tuple(_decode_shard(plain) for plain in content["shards"])
    entries = tuple(
        decode_entry(plain, number, shards[number].data_length)
        for number, shard in enumerate(content["shards"])
        for plain in shard["entries"]
    )
    if wrong := incomplete(entries):
        raise ValueError(wrong)
    metrics = _mapping(content["metrics"])
    if not all(math.isfinite(value) for value in metrics.values()):
        raise ValueError("a metric is not a number")
    return Checkpoint(
        path=path,
        step=_count(content["step"], layout.MAX_STEP),
        epoch=_count(content["epoch"]),
        saved_ms=_count(content["saved_ms"], _MAX_SAVED_MS),
        world_size=_count(content["world_size"]),
        shards=shards,
        entries=entries,
        writer=_mapping(content["writer"]),
        metrics=metrics,
        metadata=_mapping(content["metadata"]),
    )


def _decode_shard(plain: Mapping[str, Any]) -> Shard:
    shard = Shard(
        file=plain["file"],
        length=_count(plain["length"]),
        data_length=_count(plain["data_length"]),
        crc32c=_crc(plain["crc32c"]),
        chunks=decode_chunks(plain["chunks"]),
    )
    if not is_name(shard.file) or "/" in shard.file:
        raise ValueError(f"{shard.file!r:.200} cannot be the name of a shard")
    if shard.data_length > shard.length or len(shard.chunks) != -(-shard.data_length // CHUNK):
        raise ValueError(f"the lengths of {shard.file!r:.200} do not fit")
    return shard


def incomplete(entries: Iterable[Entry]) -> str:
    """The faults of arrays with missing parts; empty if all parts exist.

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
