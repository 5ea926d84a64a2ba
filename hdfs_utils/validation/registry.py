"""Which check fits a file: by its name, else by its first bytes, or as the user says."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from hdfs_utils.validation import formats
from hdfs_utils.validation.findings import Corrupt, EnclosingCorrupt, Findings, NotSupported, Reason
from hdfs_utils.validation.input_format import Check, CheckContext, InputFormat, TextRules
from hdfs_utils.validation.sources import Source, Stream, StreamSource

# Archives in archives in archives are a mistake or an attack.
MAX_DEPTH = 4
HEAD_BYTES = 512


def discover() -> dict[str, InputFormat]:
    """All formats by name: ``FORMATS`` of each module of :mod:`hdfs_utils.validation.formats`."""
    found: dict[str, InputFormat] = {}
    for info in pkgutil.iter_modules(formats.__path__):
        module = importlib.import_module(f"{formats.__name__}.{info.name}")
        found |= {one.name: one for one in module.FORMATS}
    return found


FORMATS: Mapping[str, InputFormat] = discover()


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks to use: the built-in ones with these rules, and the user's own.

    Attributes:
        rules: for text, JSON and CSV.
        own: by format or by ending (``.myformat``); they override the built-in ones.
        allows_empty: whether an empty file is valid.
    """

    rules: TextRules = field(default_factory=TextRules)
    own: Mapping[str, Check] = field(default_factory=dict)
    allows_empty: bool = False


_BY_ENDING = {
    ending: one.name for one in FORMATS.values() if not one.decompress for ending in one.endings
}
_CODECS = {
    ending: one
    for one in FORMATS.values()
    if one.decompress
    for ending in (*one.endings, *one.tar_endings)
}


def format_of(name: str, head: bytes, checks: Checks) -> str:
    """The format's name, compressions first as in ``gzip+jsonl``; empty means not known.

    Args:
        name: path or name.
        head: the first HEAD_BYTES of the file.
    """
    base = name.rpartition("/")[2].lower()
    layers: list[str] = []
    while True:
        stem, dot, ending = base.rpartition(".")
        ending = dot + ending
        codec = _CODECS.get(ending)
        if codec is None or not stem or ending in checks.own:
            break
        layers.append(codec.name)
        base = f"{stem}.tar" if ending in codec.tar_endings else stem
    # part-00000.tfrecord-00001-of-00010, as TensorFlow names its shards
    ending = ".tfrecord" if ".tfrecord-" in base or ".tfrecords-" in base else ending
    inner = ending if ending in checks.own else _BY_ENDING.get(ending, "")
    if not layers and not inner:
        inner = next((one.name for one in FORMATS.values() if one.recognizes(head)), "")
    return "+".join((*layers, inner)) if inner else "+".join(layers)


def run_check(
    format_name: str, source: Source, found: Findings, checks: Checks, depth: int = 0
) -> None:
    """Check a source as of this format, in this process. Raises what checks raise."""
    first, _, rest = format_name.partition("+")
    if own := checks.own.get(first):
        own(source, found)
        return
    known = FORMATS.get(first)
    if known is None:
        raise NotSupported(f"no check for {first!r}; there are: {', '.join(FORMATS)}")
    if known.decompress is not None:
        _run_inside(known.decompress(source, found), rest, source, found, checks, depth)
    elif known.needs_context:
        context = CheckContext(checks.rules, _member_check(checks, depth))
        known.check(source, found, context)  # type: ignore[call-arg,misc]
    else:
        cast("Check", known.check)(source, found)


def _run_inside(
    content: Iterator[bytes], rest: str, source: Source, found: Findings, checks: Checks, depth: int
) -> None:
    stream = Stream(_marked(content))
    try:
        if rest:
            name = source.name.rpartition(".")[0]
            with found.within("decompressed"), found.catching():
                run_check(rest, StreamSource(name, stream), found, checks, depth)
        else:
            found.records += 1
        stream.drain()
    except EnclosingCorrupt as below:
        raise below.cause from None


def _marked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """So that damage of the compressed stream is not taken for damage of what is inside."""
    try:
        yield from pieces
    except Corrupt as error:
        raise EnclosingCorrupt(error) from error


def _member_check(checks: Checks, depth: int) -> Check:
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

    return member


def check_empty(size: int | None, checks: Checks) -> None:
    """Raise Corrupt for an empty file: nearly always one that was never written."""
    if size == 0 and not checks.allows_empty:
        raise Corrupt(Reason.EMPTY, "is empty", 0)
