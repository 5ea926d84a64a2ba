"""The JSON Schema (draft 2020-12) of a spec, for editors.

It says what each key may be. What two keys together must satisfy, and what needs the files or the
environment at hand, only ``yarnam spec validate`` knows.
"""

from __future__ import annotations

from typing import Any

from yarnam.spec import checks
from yarnam.spec.sections.document import Document
from yarnam.spec.values.units import DURATION_PATTERN, SIZE_PATTERN, format_duration, format_size

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema as plain values."""
    schema: dict[str, Any] = _cleaned(Document.model_json_schema(by_alias=True))
    definitions, properties = schema["$defs"], schema["properties"]
    properties["name"]["pattern"] = _anchored(checks.NAME.pattern)
    text, mapping = definitions["Queue"]["anyOf"]
    for queue_name in (text, mapping["properties"]["name"]):
        queue_name["pattern"] = _anchored(checks.QUEUE.pattern)
    properties["tags"]["maxItems"] = checks.MAX_TAGS
    properties["tags"]["items"]["pattern"] = _anchored(checks.TAG.pattern)
    properties["roles"]["propertyNames"] = {"pattern": _anchored(checks.ROLE_NAME.pattern)}
    properties["roles"]["minProperties"] = 1
    placement = definitions["Placement"]["properties"]
    for key in ("exclude_nodes", "include_nodes"):
        placement[key]["items"]["pattern"] = _anchored(checks.HOST.pattern)
    placement["gpu_model"]["pattern"] = _anchored(checks.GPU_MODEL.pattern)
    for section in (schema, definitions["Role"]):
        section["properties"]["env"]["propertyNames"] = {
            "pattern": _anchored(checks.VARIABLE.pattern)
        }
        section["properties"]["ports"]["items"]["pattern"] = _anchored(checks.IDENTIFIER.pattern)
    other = [{"required": ["roles"]}, {"required": ["command"]}]
    schema["oneOf"] = [
        {"required": ["gpus", "command"]},
        {"required": ["roles"]},
        {"required": ["notebook"], "not": {"anyOf": other}},
    ]
    return {"$schema": DIALECT, **schema, "title": "yarnam job spec"}


def _anchored(pattern: str) -> str:
    return f"^(?:{pattern})$"


def _cleaned(node: Any) -> Any:
    """Without nulls (a key without a value is refused) and made-up titles; defaults with their
    units."""
    if isinstance(node, list):
        return [_cleaned(item) for item in node]
    if not isinstance(node, dict):
        return node
    result = {
        key: _cleaned(value)
        for key, value in node.items()
        if key != "title" or not isinstance(value, str)
    }
    choices = result.get("anyOf")
    if isinstance(choices, list) and {"type": "null"} in choices:
        rest = [choice for choice in choices if choice != {"type": "null"}]
        result.pop("anyOf")
        result = {**rest[0], **result} if len(rest) == 1 else {**result, "anyOf": rest}
    default = result.get("default")
    if default is None or isinstance(default, dict):
        # Sections' defaults stand at their own keys.
        result.pop("default", None)
    elif result.get("pattern") == DURATION_PATTERN:
        result["default"] = format_duration(default)
    elif result.get("pattern") == SIZE_PATTERN:
        result["default"] = format_size(default)
    return result
