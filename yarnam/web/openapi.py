"""The OpenAPI document of ``/api/v1``. What it says of a job's status follows from its type."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from yarnam._version import __version__
from yarnam.core.model.job_status import JobStatus
from yarnam.core.model.metrics import Measured
from yarnam.web.training_series import Series

VERSION = "3.1.0"

_SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    # Values from training code: JSON has no such numbers (yarnam.wire.codec).
    Measured: {"anyOf": [{"type": "number"}, {"enum": ["nan", "inf", "-inf"]}]},
}


def openapi() -> bytes:
    """The document. Addresses in it are relative to its own."""
    schemas: dict[str, Any] = {}
    status, series = schema_of(JobStatus, schemas), schema_of(Series, schemas)
    events = _object(
        first=_SCALARS[int], next=_SCALARS[int], events=_array({"type": "object"}, "The journal's.")
    )
    step_times = _array(_object(rank=_SCALARS[int], step_s=_SCALARS[float]), "Seconds a step.")
    document = {
        "openapi": VERSION,
        "info": {
            "title": "A running job of yarnam",
            "version": __version__,
            "description": "Read-only. Times are seconds since the epoch.",
        },
        "servers": [{"url": "."}],
        "paths": {
            "/job": _get("The job's status, as `yarnam status --json` shows it.", status),
            "/events": _get("Events of the job's journal, oldest first.", events, _FROM),
            "/series": _get(
                "What the program has reported over time, and each rank's step time.",
                _object(series=_array(series, "Of the lowest rank."), step_times=step_times),
            ),
            "/openapi.json": _get("This document.", {"type": "object"}),
        },
        "components": {"schemas": schemas},
    }
    return json.dumps(document, indent=1).encode()


def schema_of(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a type as ``yarnam.wire.codec`` writes it; classes go to ``schemas``.
    Raises TypeError for a type that the codec writes otherwise."""
    if kind in _SCALARS:
        return _SCALARS[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return {"anyOf": [schema_of(one, schemas) for one in inner]}
    if origin is tuple and inner[-1] is Ellipsis:
        return _array(schema_of(inner[0], schemas))
    if origin is tuple:
        prefix = [schema_of(one, schemas) for one in inner]
        return {"type": "array", "prefixItems": prefix, "minItems": len(prefix), "items": False}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _named(kind, schemas, lambda: {"enum": [one.value for one in kind]})
    if isinstance(kind, type) and is_dataclass(kind):
        return _named(kind, schemas, lambda: _class_schema(kind, schemas))
    raise TypeError(f"no schema for {kind}")


def _class_schema(kind: type, schemas: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    found = fields(kind)
    needed = [one.name for one in found if one.default is MISSING]
    properties = {one.name: schema_of(hints[one.name], schemas) for one in found}
    return {"type": "object", "properties": properties, "required": needed}


def _named(
    kind: type, schemas: dict[str, Any], make: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    name = kind.__name__
    if name not in schemas:
        schemas[name] = {}  # it may name itself
        about = " ".join((kind.__doc__ or "").split())
        schemas[name] = {**make(), "description": about}
    return {"$ref": f"#/components/schemas/{name}"}


def _array(items: dict[str, Any], about: str = "") -> dict[str, Any]:
    return {"type": "array", "items": items, **({"description": about} if about else {})}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


_FROM = {
    "name": "from",
    "in": "query",
    "description": "The number of the first event, from 0. A response has at most 500.",
    "schema": {"type": "integer", "minimum": 0, "default": 0},
}


def _get(about: str, schema: dict[str, Any], *parameters: dict[str, Any]) -> dict[str, Any]:
    found = {"description": about, "content": {"application/json": {"schema": schema}}}
    responses = {"200": found, "503": {"description": "The ApplicationMaster is starting."}}
    if parameters:
        responses["400"] = {"description": "A parameter is wrong."}
    return {"get": {"summary": about, "parameters": list(parameters), "responses": responses}}
