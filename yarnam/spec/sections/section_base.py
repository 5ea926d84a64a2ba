"""The base of all sections of the spec."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from yarnam.spec.values.fields import SizeBetween, describe, wrong

DAY_S = 86400.0

Whole = Annotated[int, Field(ge=1, le=1000)]
Memory = Annotated[int, SizeBetween(256, 64 * 1024**2)]
"""The minimum is what the agent (60 MiB) and a bare Python need."""
Vcores = Annotated[int, Field(ge=1, le=4096)]
ProcessesPerTask = Annotated[int, Field(ge=1, le=256)]
Processes = Literal["per-gpu", "per-task"]
Strictness = Literal["required", "preferred", "unconstrained"]


class Section(BaseModel):
    """Base of all sections: strict, no unknown keys."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )
    refused_keys: ClassVar[dict[str, str]] = {}
    """Keys that other systems have here and that are refused, with the reason and what to write."""
    refused_values: ClassVar[dict[str, dict[str, str]]] = {}
    """Values that a key took in earlier versions, with what to write instead."""


class TextOrMapping(Section):
    """A section that may be written as plain text."""

    text_key: ClassVar[str] = ""

    @model_validator(mode="before")
    @classmethod
    def _widen(cls, value: Any) -> Any:
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return {cls.text_key: value}
        if not isinstance(value, dict):
            raise wrong(f"must be text or a mapping with `{cls.text_key}`, not {describe(value)}")
        return value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        mapping = handler.resolve_ref_schema(handler(schema))
        text = {"type": "string", "minLength": 1}
        return {"anyOf": [text, mapping]}
