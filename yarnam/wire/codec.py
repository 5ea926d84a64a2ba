"""Values to JSON and back, by their types.

Unions of events and actions carry their class name under ``"t"``; enums their value; tuples are
arrays. Unknown keys are ignored, so that a newer writer does not break an older reader.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeVar, get_args

from cattrs import Converter

from yarnam.core.model.actions import Action
from yarnam.core.model.events import Event
from yarnam.errors import WireMismatch

T = TypeVar("T")

_TAG = "t"


def _converter() -> Converter:
    converter = Converter(prefer_attrib_converters=False)
    for union in (Event, Action):
        _tag(converter, union)
    return converter


def _tag(converter: Converter, union: Any) -> None:
    """Members carry their class name. As ``cattrs.strategies.configure_tagged_union`` does it, but
    a member's code is generated when it is first met: all of them take 50 ms, which every start of
    an AM and of an agent would wait for."""
    members = {member.__name__: member for member in get_args(union)}

    def unstructure(value: Any) -> dict[str, Any]:
        return {**converter.unstructure(value, type(value)), _TAG: type(value).__name__}

    def structure(plain: Any, _: Any) -> Any:
        if not isinstance(plain, dict) or plain.get(_TAG) not in members:
            name = plain.get(_TAG) if isinstance(plain, dict) else plain
            raise ValueError(f"no kind of event or action: {name!r}")
        return converter.structure(plain, members[plain[_TAG]])

    converter.register_unstructure_hook_func(lambda kind: kind == union, unstructure)
    converter.register_structure_hook_func(lambda kind: kind == union, structure)


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
