"""The types of values that keys of the spec take, with their JSON Schema.

Every check raises ``PydanticCustomError`` with the complete message, ready to be shown.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler, WithJsonSchema
from pydantic_core import PydanticCustomError, core_schema

from yarnam.spec.values import units
from yarnam.spec.values.scalars import Ambiguous, TypedFloat, TypedInt

MAX_ARGUMENT_BYTES = 128 * 1024 - 1
"""Linux starts no program with a longer argument or variable (MAX_ARG_STRLEN, execve(2))."""

SHELL = ("/bin/bash", "-c")


def wrong(message: str) -> PydanticCustomError:
    """An error that carries its message verbatim (a template would interpret braces)."""
    return PydanticCustomError("spec", "{message}", {"message": message})


def describe(value: object) -> str:
    """The type of a value, as messages name it."""
    for kind, word in (
        (bool, "true or false"),
        (int, "a number"),
        (float, "a fraction"),
        (str, "text"),
        (dict, "a mapping"),
    ):
        if isinstance(value, kind):
            return word
    return "a list"


def text_off(value: Any) -> Any:
    """Unquoted `off` as text, for keys where no other meaning is possible."""
    return str(value) if isinstance(value, Ambiguous) and value == "off" else value


def ambiguous_message(word: Ambiguous) -> str:
    return f"`{word}` without quotes is {word.why}; write '{word}' to mean the text"


def _text(value: Any) -> Any:
    if isinstance(value, Ambiguous):
        raise wrong(ambiguous_message(value))
    if isinstance(value, (TypedInt, TypedFloat)):
        raise wrong(f"must be text, not a number; quote it: '{value.text}'")
    if not isinstance(value, str):
        raise wrong(f"must be text, not {describe(value)}")
    if not value:
        raise wrong("is empty")
    return value


def _as_typed(value: Any) -> Any:
    """Text for a process: numbers are passed as they were typed. Messages never quote the value: it
    may be a secret."""
    if isinstance(value, bool) or (isinstance(value, Ambiguous) and value.is_boolean):
        raise wrong("true, false, yes, no, on and off have a meaning in YAML; quote the word")
    if isinstance(value, (TypedInt, TypedFloat)):
        return value.text
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        raise wrong(f"must be text, not {describe(value)}")
    size = len(value.encode())
    if size > MAX_ARGUMENT_BYTES:
        raise wrong(f"is {size} bytes long; Linux allows at most {MAX_ARGUMENT_BYTES}")
    return str(value)


def _command(value: Any) -> Any:
    if isinstance(value, str):
        line = _text(value)
        if not line.strip():
            raise wrong("is empty")
        return [*SHELL, line]
    if not isinstance(value, list):
        raise wrong(
            "must be a list of arguments or a shell line, as in [python3, train.py] or"
            f' "python3 train.py", not {describe(value)}'
        )
    if not value:
        raise wrong("is empty; write for example [python3, train.py]")
    if value[0] == "":
        raise wrong("the first argument names the program and must not be empty")
    return value


def _with_unit(value: Any, parse: Callable[[str], float], what: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise wrong(f"must be {what}, not {describe(value)}")
    if isinstance(value, Ambiguous):
        raise wrong(f"`{value}` is {value.why}; write {what}")
    text = value if isinstance(value, str) else getattr(value, "text", str(value))
    try:
        return parse(text)
    except ValueError as error:
        raise wrong(str(error)) from None


Text = Annotated[str, BeforeValidator(_text), WithJsonSchema({"type": "string", "minLength": 1})]
"""Text that is not empty and not ambiguous."""

Argument = Annotated[
    str, BeforeValidator(_as_typed), WithJsonSchema({"type": ["string", "number"]})
]
"""Text for a process; a number is passed as it was typed."""

Command = Annotated[
    list[Argument],
    BeforeValidator(_command),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"\S"},
                {"type": "array", "items": {"type": ["string", "number"]}, "minItems": 1},
            ]
        }
    ),
]
"""A list of arguments, or a line for ``/bin/bash -c``."""


class _Between(ABC):
    """Annotation of a field: a quantity, written with a unit, within limits."""

    PATTERN: ClassVar[str]

    @property
    @abstractmethod
    def limits(self) -> str: ...

    @abstractmethod
    def check(self, value: Any) -> float:
        """The value in the field's own unit. Raises PydanticCustomError."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string", "pattern": self.PATTERN, "$comment": self.limits}


@dataclass(frozen=True)
class DurationBetween(_Between):
    """Annotation of a float field: seconds, written with a unit, within limits."""

    PATTERN = units.DURATION_PATTERN

    low_s: float
    high_s: float

    @property
    def limits(self) -> str:
        return f"from {units.format_duration(self.low_s)} to {units.format_duration(self.high_s)}"

    def check(self, value: Any) -> float:
        seconds = float(
            _with_unit(value, units.parse_duration_s, "a duration such as 90s or 1h30m")
        )
        if not self.low_s <= seconds <= self.high_s:
            raise wrong(f"must be {self.limits}, not {units.format_duration(seconds)}")
        return seconds


SHARE_PATTERN = r"^(100|[0-9]{1,2})(\.[0-9]{1,6})? ?%$"


def _share(value: Any) -> float:
    """A share of a whole, from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise wrong(f"must be a percentage such as 0.1 %, not {describe(value)}")
    if isinstance(value, Ambiguous) or not isinstance(value, str):
        raise wrong(f"`{value}` needs a percent sign, as in 0.1 %")
    if not re.fullmatch(SHARE_PATTERN, value):
        raise wrong(f"{value!r} is not a percentage from 0 % to 100 %, such as 0.1 %")
    share = float(value.rstrip("% ")) / 100
    if share > 1:
        raise wrong(f"{value!r} is more than 100 %")
    return share


Share = Annotated[
    float, BeforeValidator(_share), WithJsonSchema({"type": "string", "pattern": SHARE_PATTERN})
]
"""A fraction, written as a percentage."""


@dataclass(frozen=True)
class SizeBetween(_Between):
    """Annotation of an int field: MiB, written with a unit, within limits."""

    PATTERN = units.SIZE_PATTERN

    low_mib: int
    high_mib: int

    @property
    def limits(self) -> str:
        return f"from {units.format_size(self.low_mib)} to {units.format_size(self.high_mib)}"

    def check(self, value: Any) -> int:
        mib = int(_with_unit(value, units.parse_size_mib, "a size such as 512MiB or 8GiB"))
        if not self.low_mib <= mib <= self.high_mib:
            raise wrong(f"must be {self.limits}, not {units.format_size(mib)}")
        return mib
