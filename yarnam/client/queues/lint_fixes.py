"""Writes what lint proposes into the text of a file, whose comments and layout stay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from xml.parsers import expat

from yarnam.core.queues.lint import Finding


@dataclass(slots=True)
class _Span:
    """Where an element is in the bytes of its file. ``content`` is the end of its start tag."""

    tag: str
    line: int
    start: int
    content: int
    end: int = 0
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    parent: _Span | None = None


def with_fixes(source: bytes, found: Iterable[Finding]) -> tuple[bytes, int]:
    """Write each proposal in the place of its element, or into the queue that lacks it; returns the
    file and the number of proposals written. Several proposals for one element are written once.
    Those for the site's settings, and those that are prose, stay out."""
    spans = _spans(source)
    edits: dict[tuple[int, int], bytes] = {}
    for finding in found:
        new = _single(finding.mended)
        if new is None or not finding.line:
            continue
        here = [span for span in spans if span.line == finding.line]
        holder = next(filter(None, (_holder(span, new) for span in here)), None)
        inside = [span for span in spans if holder is not None and span.parent is holder]
        same = next((span for span in (*here, *inside) if _is_same(span, new)), None)
        if same is not None:
            edits.setdefault((same.start, same.end), finding.mended.encode())
        elif holder is not None:
            at = holder.content
            edits.setdefault((at, at), _indent(source, holder) + finding.mended.encode())
    text = source
    for (start, end), new_text in sorted(edits.items(), reverse=True):
        text = text[:start] + new_text + text[end:]
    return text, len(edits)


_HOLDERS = {"queue", "pool", "allocations"}
"""Elements that a setting may be missing from."""


def _holder(span: _Span, new: _Span) -> _Span | None:
    """The element itself, or the one around it, that takes the new one."""
    around = [span] if span.parent is None else [span, span.parent]
    return next((each for each in around if _takes(each.tag, new.tag)), None)


def _takes(holder: str, tag: str) -> bool:
    """Rules of placement belong into their policy, and that into the whole file."""
    is_policy = tag == "queuePlacementPolicy"
    is_setting = tag not in {*_HOLDERS, "rule"} and not is_policy
    return holder in _HOLDERS and (is_setting or (is_policy and holder == "allocations"))


def _is_same(span: _Span, new: _Span) -> bool:
    """A rule of placement is known by its name, a queue is never rewritten."""
    if span.tag != new.tag or span.tag in _HOLDERS:
        return False
    return span.tag != "rule" or span.attributes.get("name") == new.attributes.get("name")


def _single(text: str) -> _Span | None:
    """The one element that ``text`` is; ``None`` if it is prose or several."""
    try:
        spans = _spans(text.encode())
    except expat.ExpatError:
        return None
    return spans[0] if spans and "..." not in text else None


def _indent(source: bytes, span: _Span) -> bytes:
    """A new line, two blanks further in than the element that it is put into."""
    before = source[source.rfind(b"\n", 0, span.start) + 1 : span.start]
    return b"\n" + before + b"  " if not before.strip() else b""


def _spans(source: bytes) -> Sequence[_Span]:
    parser = expat.ParserCreate()
    found: list[_Span] = []
    open_spans: list[_Span] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        at = parser.CurrentByteIndex
        content = _tag_end(source, at)
        parent = open_spans[-1] if open_spans else None
        span = _Span(
            tag, parser.CurrentLineNumber, at, content, attributes=attributes, parent=parent
        )
        found.append(span)
        open_spans.append(span)

    def end(tag: str) -> None:
        span = open_spans.pop()
        is_empty = source[span.content - 2 : span.content] == b"/>"
        span.end = span.content if is_empty else _tag_end(source, parser.CurrentByteIndex)

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.Parse(source, True)
    return found


def _tag_end(source: bytes, at: int) -> int:
    """Behind the `>` of the tag at ``at``; one within quotes is text."""
    quote = 0
    for index in range(at, len(source)):
        byte = source[index]
        if quote:
            quote = 0 if byte == quote else quote
        elif byte in b"\"'":
            quote = byte
        elif byte == ord(">"):
            return index + 1
    return len(source)
