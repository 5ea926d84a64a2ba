"""Values to JSON and back, by their types.

Unions of events and actions carry their class name under ``"t"``; enums their value; tuples are
arrays. Unknown keys are ignored, so that a newer writer does not break an older reader.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeVar

from cattrs import Converter
from cattrs.strategies import configure_tagged_union

from yarnam.errors import WireMismatch
from yarnam.model.actions import Action
from yarnam.model.events import Event

T = TypeVar("T")


def _converter() -> Converter:
    converter = Converter(prefer_attrib_converters=False)
    for union in (Event, Action):
        configure_tagged_union(union, converter, tag_name="t")
    return converter


_CONVERTER = _converter()


def to_plain(value: Any, kind: Any = None) -> Any:
    """Nested dicts, lists and scalars. Pass ``kind`` for a member of a union (Event, Action)."""
    return _CONVERTER.unstructure(value, kind or type(value))


def encode(value: Any, kind: Any = None) -> bytes:
    """One line of JSON without the newline; the same value gives the same bytes."""
    plain = to_plain(value, kind)
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=False).encode()


def from_plain(plain: Any, kind: type[T]) -> T:
    """Inverse of ``to_plain``. Raises WireMismatch, naming what does not fit."""
    try:
        result: T = _CONVERTER.structure(plain, kind)
    except Exception as error:
        detail = "; ".join(_causes(error))
        raise WireMismatch(
            f"cannot read a {getattr(kind, '__name__', kind)} record: {detail}",
            hint="It was probably written by another version of yarnam: use the same one.",
        ) from error
    return result


def decode(data: bytes, kind: type[T]) -> T:
    """Inverse of ``encode``. Raises WireMismatch."""
    try:
        plain = json.loads(data)
    except ValueError as error:
        raise WireMismatch(f"not JSON: {data[:80]!r}") from error
    return from_plain(plain, kind)


def encode_event(event: Event) -> bytes:
    """One journal line."""
    return encode(event, Event)


def decode_event(data: bytes) -> Event:
    """Inverse of ``encode_event``. Raises WireMismatch."""
    event: Event = decode(data, Event)  # type: ignore[arg-type]
    return event


def _causes(error: BaseException) -> Iterable[str]:
    """The leaves of cattrs' exception groups, in words."""
    parts = getattr(error, "exceptions", None)
    if parts:
        for part in parts:
            yield from _causes(part)
    else:
        yield f"{type(error).__name__}: {error}"
