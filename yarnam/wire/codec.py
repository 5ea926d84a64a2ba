"""Values to JSON and back, by their types: numbers are numbers, texts texts, nothing is converted.

Unions of events and actions carry their class name under ``"t"``; enums their value; tuples are
arrays. Unknown keys are ignored, so that a newer writer does not break an older reader.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from math import isfinite
from typing import Any, TypeVar, get_args

from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import decode_json, shown
from yarnam.core.model.actions import Action
from yarnam.core.model.events import Event
from yarnam.core.model.metrics import Measured
from yarnam.core.model.plans import Reason
from yarnam.core.model.printable import printable_json
from yarnam.errors import WireMismatch

T = TypeVar("T")

MAX_BYTES = 64 << 20
"""The most bytes of one record, unless the caller sets a limit: the status of 10,000 tasks has some
5 MB."""

_TAG = "t"
_MAX_CAUSES = 5
_MAX_CAUSE = 200

_FORMER_KEYS = {
    "Target": {"place": "domain"},
    "Rung": {"apart": "anti_affinity"},
    "PlacementPlan": {"seats": "extra_targets"},
    "OutputStatus": {"place": "path"},
    "Ticket": {"aside": "blocked_reason"},
}
"""Former keys of older records, by class. Classes are given by name, as an agent does not load all
of them. Without this a renamed key would silently be read as its default."""

_FORMER_DEFAULTS = {"GangSpec": {"localize_timeout_s": 0.0}}
"""Defaults of older records, by class, where today's are others: a journal leads to the same
actions as when it was written."""

_KEYS_TO_WRITE = {"Ticket": {"blocked_reason": "aside"}}
"""Former keys that are still written, by class: running jobs of an older version read these records
too. To them a ticket without ``aside`` would hold up all that come after it."""

_FORMER_REASONS = {
    "no-rack-has-room": Reason.NO_RACK_FITS,
    "no-gpu-model-has-room": Reason.NO_GPU_MODEL_FITS,
}


def _converter() -> Converter:
    converter = Converter(prefer_attrib_converters=False)
    # cattrs would make a number of any text, and a text of anything.
    for scalar, accepted in _SCALARS.items():
        converter.register_structure_hook(scalar, _exactly(scalar, accepted))
    converter.register_unstructure_hook_func(lambda kind: kind is Measured, _measured_to_plain)
    converter.register_structure_hook_func(lambda kind: kind is Measured, _measured_from_plain)
    for union in (Event, Action):
        _tag(converter, union)
    converter.register_structure_hook_factory(
        lambda kind: getattr(kind, "__name__", "") in {*_FORMER_KEYS, *_FORMER_DEFAULTS},
        lambda kind: _by_todays_keys(converter, kind),
    )
    converter.register_unstructure_hook_factory(
        lambda kind: getattr(kind, "__name__", "") in _KEYS_TO_WRITE,
        lambda kind: _with_former_keys(converter, kind),
    )
    converter.register_structure_hook(
        Reason, lambda plain, _: _FORMER_REASONS.get(plain) or Reason(plain)
    )
    return converter


def _by_todays_keys(converter: Converter, kind: Any) -> Any:
    former = _FORMER_KEYS.get(kind.__name__, {})
    defaults = _FORMER_DEFAULTS.get(kind.__name__, {})
    structure = make_dict_structure_fn(kind, converter)

    def from_any_version(plain: Any, _: Any) -> Any:
        todays = {former.get(key, key): value for key, value in plain.items()}
        return structure({**defaults, **todays}, kind)

    return from_any_version


def _with_former_keys(converter: Converter, kind: Any) -> Any:
    keys = {key: override(rename=former) for key, former in _KEYS_TO_WRITE[kind.__name__].items()}
    return make_dict_unstructure_fn(kind, converter, **keys)  # type: ignore[arg-type]


_SCALARS: dict[type, tuple[type, ...]] = {
    str: (str,), int: (int,), float: (int, float), bool: (bool,),
}  # fmt: skip


def _exactly(scalar: type, accepted: tuple[type, ...]) -> Any:
    def structure(plain: Any, kind: Any) -> Any:
        if kind is not scalar:
            return kind(plain)  # an enum of such values
        if type(plain) not in accepted:
            raise TypeError(f"{shown(plain)} is no {scalar.__name__}")
        return scalar(plain)

    return structure


_NOT_FINITE = frozenset({"nan", "inf", "-inf"})


def _measured_to_plain(value: float) -> float | str:
    """JSON has no such numbers; some writers and readers of it do, each its own."""
    return value if isfinite(value) else str(value)


def _measured_from_plain(plain: Any, _: Any) -> float:
    if type(plain) not in (int, float) and not (type(plain) is str and plain in _NOT_FINITE):
        raise TypeError(f"{shown(plain)} is not a number")
    return float(plain)


def _tag(converter: Converter, union: Any) -> None:
    """Members carry their class name. As ``cattrs.strategies.configure_tagged_union`` does it, but
    a member's code is generated when it is first met: all of them take 50 ms, which every start of
    an AM and of an agent would wait for."""
    members = {member.__name__: member for member in get_args(union)}

    def unstructure(value: Any) -> dict[str, Any]:
        return {**converter.unstructure(value, type(value)), _TAG: type(value).__name__}

    def structure(plain: Any, _: Any) -> Any:
        name = plain.get(_TAG) if isinstance(plain, dict) else plain
        if not isinstance(name, str) or name not in members or name is plain:
            raise ValueError(f"no kind of event or action: {shown(name)}")
        return converter.structure(plain, members[name])

    converter.register_unstructure_hook_func(lambda kind: kind == union, unstructure)
    converter.register_structure_hook_func(lambda kind: kind == union, structure)


_CONVERTER = _converter()


def to_plain(value: Any, kind: Any = None) -> Any:
    """Nested dicts, lists and scalars. Pass ``kind`` for a member of a union (Event, Action)."""
    return _CONVERTER.unstructure(value, kind or type(value))


def encode(value: Any, kind: Any = None) -> bytes:
    """One line of JSON without the newline; the same value gives the same bytes. Any tool can show
    it: it does nothing to a terminal. Half a surrogate pair, which readers refuse, becomes `?`."""
    text = json.dumps(to_plain(value, kind), separators=(",", ":"), ensure_ascii=False)
    return printable_json(text.encode("utf-8", "replace").decode()).encode()


def from_plain(plain: Any, kind: type[T]) -> T:
    """Inverse of ``to_plain``. Raises WireMismatch, naming what does not fit."""
    try:
        result: T = _CONVERTER.structure(plain, kind)
    except Exception as error:
        detail = "; ".join(islice(_causes(error), _MAX_CAUSES))
        raise WireMismatch(
            f"cannot read a {getattr(kind, '__name__', kind)} record: {detail}",
            hint="It was probably written by another version of yarnam: use the same one.",
        ) from error
    return result


def decode(data: bytes, kind: type[T], *, max_bytes: int = MAX_BYTES) -> T:
    """Inverse of ``encode``, for untrusted bytes. Raises WireMismatch."""
    try:
        plain = decode_json(data, max_bytes=max_bytes)
    except MalformedData as error:
        raise WireMismatch(error.message) from error
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
        text = f"{type(error).__name__}: {error}"[:_MAX_CAUSE]
        yield text if text.isprintable() else ascii(text)
