"""Which check fits a file: by its name, else by its first bytes, or as the user says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from hdfs_utils.validation import (
    archives,
    arrays,
    columnar,
    compressed,
    hadoop_files,
    images,
    recordio,
    texts,
    tfrecord,
)
from hdfs_utils.validation.compressed import BZIP2, GZIP, LZ4, XZ, ZSTD, Codec
from hdfs_utils.validation.findings import Below, Corrupt, Findings, NotSupported, Reason
from hdfs_utils.validation.formats_isolated import LIBRARIES
from hdfs_utils.validation.isolated import check_isolated
from hdfs_utils.validation.sources import Source, Stream, StreamSource
from hdfs_utils.validation.texts import TextRules

# Archives in archives in archives are a mistake or an attack.
MAX_DEPTH = 4
HEAD_BYTES = 512

Check = Callable[[Source, Findings], None]
"""Reads the source; adds to the findings, or raises Corrupt, NeedsLibrary or NotSupported."""


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks there are: the built-in ones with these rules, and the user's own.

    Attributes:
        rules: for text, JSON and CSV.
        own: by format or by ending (``.myformat``); they win over the built-in ones.
        allows_empty: whether a file of no bytes is in order.
    """

    rules: TextRules = field(default_factory=TextRules)
    own: Mapping[str, Check] = field(default_factory=dict)
    allows_empty: bool = False


CODECS: dict[str, Codec] = {
    ".gz": GZIP, ".tgz": GZIP, ".bgz": GZIP, ".bz2": BZIP2, ".tbz2": BZIP2, ".xz": XZ,
    ".txz": XZ, ".zst": ZSTD, ".zstd": ZSTD, ".tzst": ZSTD, ".lz4": LZ4,
}  # fmt: skip
_TAR_ENDINGS = (".tgz", ".tbz2", ".txz", ".tzst")

_BY_ENDING: dict[str, str] = {
    ".tfrecord": "tfrecord", ".tfrecords": "tfrecord", ".tfrec": "tfrecord",
    ".parquet": "parquet", ".pq": "parquet", ".orc": "orc",
    ".arrow": "arrow", ".feather": "arrow", ".arrows": "arrow-stream",
    ".rec": "recordio", ".recordio": "recordio",
    ".tar": "tar", ".zip": "zip", ".npz": "zip",
    ".jpg": "image", ".jpeg": "image", ".png": "image", ".webp": "image", ".tif": "image",
    ".tiff": "image", ".gif": "image", ".bmp": "image",
    ".npy": "npy", ".h5": "hdf5", ".hdf5": "hdf5", ".safetensors": "safetensors",
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".csv": "csv", ".tsv": "csv",
    ".txt": "text", ".text": "text", ".log": "text",
    ".seq": "sequence-file", ".avro": "avro", ".snappy": "snappy",
}  # fmt: skip

_BY_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, columnar.PARQUET_MAGIC, "parquet"),
    (0, columnar.ARROW_MAGIC, "arrow"),
    (0, arrays.NPY_MAGIC, "npy"),
    (0, arrays.HDF5_MAGIC, "hdf5"),
    (0, hadoop_files.AVRO_MAGIC, "avro"),
    (0, hadoop_files.SEQUENCE_MAGIC, "sequence-file"),
    (0, columnar.ORC_MAGIC, "orc"),
    (0, b"PK\x03\x04", "zip"),
    (257, b"ustar", "tar"),
    (0, recordio.MAGIC.to_bytes(4, "little"), "recordio"),
)

PROTECTION: dict[str, str] = {
    "tfrecord": "every byte; not a cut exactly between two records",
    "parquet": "pages only where the writer wrote checksums (write_page_checksum)",
    "orc": "none: what decoding trips over",
    "arrow": "none: the structure",
    "arrow-stream": "none: the structure",
    "recordio": "none: the frame of each record",
    "tar": "headers; contents by their own formats",
    "zip": "the content of each member",
    "image": "PNG every byte; the others only what decoding trips over",
    "npy": "none: the header and the size (within .npz: every byte)",
    "hdf5": "datasets with Fletcher-32; the structure",
    "safetensors": "none: the header and the size",
    "jsonl": "none: encoding, syntax, schema",
    "json": "none: encoding, syntax, schema",
    "csv": "none: encoding, quotes, columns, schema",
    "text": "none: encoding",
    "sequence-file": "frames and sync marks; contents where the codec is zlib, gzip or bzip2",
    "avro": "frames and sync marks; contents where the codec is bzip2, xz or zstandard",
    "gzip": "the content; of the header (time, name) nothing",
    "bzip2": "every byte",
    "xz": "every byte",
    "zstd": "the content, where the writer wrote its checksum (the zstd command does)",
    "lz4": "the content, where the writer wrote its checksum (the lz4 command does)",
    "snappy": "not checked",
}
"""What each format's own checksums cover: a changed byte elsewhere cannot be told by anybody."""

FORMATS = tuple(dict.fromkeys((*_BY_ENDING.values(), *(c.name for c in CODECS.values()))))


def format_of(name: str, head: bytes, checks: Checks) -> str:
    """The format's name, compressions first as in ``gzip+jsonl``; empty: not known.

    Args:
        name: path or name.
        head: the first HEAD_BYTES of the file.
    """
    base = name.rpartition("/")[2].lower()
    layers: list[str] = []
    while True:
        stem, dot, ending = base.rpartition(".")
        ending = dot + ending
        if ending not in CODECS or not stem or ending in checks.own:
            break
        layers.append(CODECS[ending].name)
        base = f"{stem}.tar" if ending in _TAR_ENDINGS else stem
    # part-00000.tfrecord-00001-of-00010, as TensorFlow names its shards
    ending = ".tfrecord" if ".tfrecord-" in base or ".tfrecords-" in base else ending
    inner = ending if ending in checks.own else _BY_ENDING.get(ending, "")
    if not layers and not inner:
        inner = _by_magic(head)
    return "+".join((*layers, inner)) if inner else "+".join(layers)


def _by_magic(head: bytes) -> str:
    for at, magic, name in _BY_MAGIC:
        if head[at : at + len(magic)] == magic:
            return name
    if images.image_kind(head) not in ("", "BMP"):  # two letters are too few to tell
        return "image"
    for codec in (GZIP, ZSTD, LZ4, XZ):
        if head.startswith(codec.magic):
            return codec.name
    return ""


def run_check(
    format_name: str, source: Source, found: Findings, checks: Checks, depth: int = 0
) -> None:
    """Check a source as of this format. Raises what checks raise."""
    first, _, rest = format_name.partition("+")
    if own := checks.own.get(first):
        own(source, found)
        return
    codec = next((c for c in CODECS.values() if c.name == first), None)
    if codec is not None:
        _run_inside(codec, rest, source, found, checks, depth)
        return
    _built_in(first, checks, depth)(source, found)


def _run_inside(
    codec: Codec, rest: str, source: Source, found: Findings, checks: Checks, depth: int
) -> None:
    stream = Stream(_marked(compressed.decompressed(codec, source, found)))
    try:
        if rest:
            name = source.name.rpartition(".")[0]
            with found.within("decompressed"), found.catching():
                run_check(rest, StreamSource(name, stream), found, checks, depth)
        else:
            found.records += 1
        stream.drain()
    except Below as below:
        raise below.cause from None


def _marked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """So that damage of the compressed stream is not taken for damage of what is inside."""
    try:
        yield from pieces
    except Corrupt as error:
        raise Below(error) from error


def _built_in(name: str, checks: Checks, depth: int) -> Check:
    rules = checks.rules

    def member(source: Source, found: Findings) -> None:
        kind = format_of(source.name, b"", checks)
        if not kind:
            message = "members of unknown formats: only the archive around them was checked"
            found.note(Reason.UNKNOWN_FORMAT, message)
        elif depth >= MAX_DEPTH:
            raise NotSupported(f"archives within archives, more than {MAX_DEPTH} deep")
        else:
            records = found.records
            run_check(kind, source, found, checks, depth + 1)
            found.records = records  # the archive counts its members

    built_in: dict[str, Check] = {
        "tfrecord": tfrecord.check_tfrecord,
        "recordio": recordio.check_recordio,
        "tar": lambda source, found: archives.check_tar(source, found, member),
        "zip": lambda source, found: archives.check_zip(source, found, member),
        "image": images.check_image,
        "npy": arrays.check_npy,
        "safetensors": arrays.check_safetensors,
        "jsonl": lambda source, found: texts.check_jsonl(source, found, rules),
        "json": lambda source, found: texts.check_json(source, found, rules),
        "csv": lambda source, found: texts.check_csv(source, found, rules),
        "text": lambda source, found: texts.check_text(source, found, rules),
        "sequence-file": hadoop_files.check_sequence_file,
        "avro": hadoop_files.check_avro,
        "snappy": compressed.unsupported_snappy,
    }
    if name in LIBRARIES:
        return lambda source, found: check_isolated(name, source, found)
    if name not in built_in:
        raise NotSupported(f"no check for {name!r}; there are: {', '.join(FORMATS)}")
    return built_in[name]


def check_empty(size: int | None, checks: Checks) -> None:
    """Raises Corrupt for a file of no bytes, which nearly always is one that was never written."""
    if size == 0 and not checks.allows_empty:
        raise Corrupt(Reason.EMPTY, "has no bytes", 0)
