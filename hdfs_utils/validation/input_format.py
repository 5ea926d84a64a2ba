"""An input format as the checks know it: a row in a module of ``validation/formats``.

To add a format, add one module there that defines ``FORMATS``; nothing else names it::

    FORMATS = (
        InputFormat("sensor", (".sensor",), "none: the structure", check_sensor,
                    recognizes=lambda head: head.startswith(b"SNSR")),
    )
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Union

from hdfs_utils.validation.findings import Findings
from hdfs_utils.validation.sources import Source

Check = Callable[[Source, Findings], None]
"""Reads the source; adds to the findings, or raises Corrupt, NeedsLibrary or NotSupported."""


VALUE_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "any": lambda _value: True,
}


@dataclass(frozen=True, slots=True)
class TextRules:
    """The user's rules for lines, beyond the format's own.

    Attributes:
        encoding: of text, CSV and JSON lines; Python's name.
        columns: number of columns of a CSV; 0 means as many as the first line has.
        has_header: whether the first line of a CSV names its columns.
        schema: name to type (``string``, ``integer``, ``number``, ``boolean``, ``array``,
            ``object``, ``any``): the keys that each JSON line must have, or a CSV's columns.
        delimiter: of CSV; empty means by the first line.
    """

    encoding: str = "utf-8"
    columns: int = 0
    has_header: bool = True
    schema: Mapping[str, str] = field(default_factory=dict)
    delimiter: str = ""

    def __post_init__(self) -> None:
        codecs.lookup(self.encoding)
        for name, kind in self.schema.items():
            if kind not in VALUE_TYPES:
                raise ValueError(f"{name}: {kind!r} is not one of {', '.join(VALUE_TYPES)}")


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What some checks need besides the file.

    Attributes:
        rules: the user's rules for text, JSON and CSV.
        check_member: checks a member of an archive by its name; ignores unknown formats.
    """

    rules: TextRules
    check_member: Check


def is_never_recognized(_head: bytes) -> bool:
    """For formats whose first bytes do not identify them."""
    return False


def begins_with(magic: bytes) -> Callable[[bytes], bool]:
    """For formats whose first bytes are always the same."""
    return lambda head: head.startswith(magic)


@dataclass(frozen=True, slots=True)
class InputFormat:
    """One format.

    Attributes:
        name: as in reports and ``--format``.
        endings: of file names, with the dot, in lower case.
        protects: what the format's own checksums cover; a changed byte elsewhere may go unseen.
            Begins with ``every byte`` or ``the content`` where a clean check proves the content.
        check: the check; with ``needs_context`` it takes a :class:`CheckContext` as well. None for
            a compression.
        needs_context: whether ``check`` takes a context.
        recognizes: whether the first bytes of a file identify the format.
        is_framing: ``check`` follows lengths and compares checksums, no more, in a few MiB of
            memory and a time that grows with the file's size alone: it needs no process of its own.
        decompress: of a compression: yields the content, which is checked by its own format.
        tar_endings: short endings of a compressed tar, such as ``.tgz``.
    """

    name: str
    endings: tuple[str, ...]
    protects: str
    check: Union[Check, Callable[[Source, Findings, CheckContext], None], None] = None
    needs_context: bool = False
    recognizes: Callable[[bytes], bool] = is_never_recognized
    is_framing: bool = False
    decompress: Union[Callable[[Source, Findings], Iterator[bytes]], None] = None
    tar_endings: tuple[str, ...] = ()
