"""An allocation file's XML as elements that know their lines.

The file may be anybody's: it is bounded in size and depth, and a document type, which is what
entities need, is refused, as by Hadoop 3.4 itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from hdfs_utils.config.configuration import xml_bytes
from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import read_at_most, shown
from yarnam.core.queues.allocation_reading import read_allocations
from yarnam.core.queues.allocations import Allocations, Element
from yarnam.errors import BadConfig, UsageError

MAX_BYTES = 8 << 20
"""500 queues with all their settings take 400 KB."""
MAX_DEPTH = 24
"""Queues within queues; sites have at most five levels."""


@dataclass
class _Open:
    """An element whose end has not come yet."""

    tag: str
    attributes: dict[str, str]
    line: int
    text: list[str] = field(default_factory=list)
    children: list[Element] = field(default_factory=list)


def parse_xml(data: bytes) -> Element:
    """The document's outermost element. Raises MalformedData with line and column."""
    if len(data) > MAX_BYTES:
        raise MalformedData(f"longer than {MAX_BYTES} bytes")
    parser = expat.ParserCreate()
    parser.buffer_text = True
    opened = [_Open("", {}, 0)]

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(opened) > MAX_DEPTH:
            raise MalformedData(f"line {parser.CurrentLineNumber}: nested deeper than {MAX_DEPTH}")
        opened.append(_Open(tag, attributes, parser.CurrentLineNumber))

    def end(_tag: str) -> None:
        last = opened.pop()
        opened[-1].children.append(
            Element(
                last.tag,
                last.line,
                last.attributes,
                "".join(last.text),
                tuple(last.children),
                parser.CurrentLineNumber,
            )
        )

    def text(data: str) -> None:
        if not opened[-1].children:
            opened[-1].text.append(data)

    def doctype(*_: object) -> None:
        raise MalformedData(
            f"line {parser.CurrentLineNumber}: a document type (<!DOCTYPE>): Hadoop 3.4 refuses it"
        )

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = text, doctype
    try:
        parser.Parse(xml_bytes(data), True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise MalformedData(f"line {error.lineno}, column {error.offset + 1}: {reason}") from None
    except (ValueError, LookupError) as error:  # an encoding that nobody knows
        raise MalformedData(f"line {parser.CurrentLineNumber}: {shown(str(error))}") from None
    return opened[0].children[0]


def read_xml(path: str | Path) -> Element:
    """The file's outermost element. Raises UsageError (no such file), BadConfig (no XML)."""
    try:
        with Path(path).open("rb") as file:
            return parse_xml(read_at_most(file, MAX_BYTES))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except MalformedData as error:
        raise BadConfig(
            f"{path}: {error.message}",
            hint="It has to be well-formed XML: YARN keeps its last queues until it is.",
        ) from error


def load_allocations(path: str | Path) -> Allocations:
    """The values of a file that YARN would take. Raises UsageError, BadConfig."""
    found, refusals = read_allocations(read_xml(path))
    if refusals:
        raise BadConfig(
            f"{path}, line {refusals[0].line}: {refusals[0].message}",
            hint=f"YARN would refuse the file. To see all findings: yarnam queues lint {path}",
        )
    return found
