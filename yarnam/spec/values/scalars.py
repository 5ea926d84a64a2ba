"""The value of a plain (unquoted) YAML scalar.

YAML 1.1 and 1.2, and their libraries, disagree about words such as ``yes``, ``010`` or ``1:30``.
This reading is what all agree on: decimal integers, decimal fractions, ``true``/``false``,
``null``; any other scalar is text. Disputed words become ``Ambiguous``: accepted where the text
itself is wanted (an argument, a variable), refused with a hint everywhere else. Numbers keep the
text they were written as, so that an argument such as ``1.0`` or ``0.10`` is passed as typed.
"""

from __future__ import annotations

import re
from typing import Union

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# https://yaml.org/type/bool.html: booleans in YAML 1.1, text in YAML 1.2.
_TRUE_WORDS = frozenset({"y", "yes", "on"})
_FALSE_WORDS = frozenset({"n", "no", "off"})

_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?([0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18})([eE][-+]?[0-9]{1,3})?", re.ASCII
)
_OTHER_NUMBERS = (
    (re.compile(r"[-+]?0[0-9_]+", re.ASCII), "an octal number in YAML 1.1 and a decimal in 1.2"),
    (re.compile(r"[-+]?0[xob][0-9A-Fa-f_]+"), "a number in some versions of YAML, text in others"),
    (
        re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?", re.ASCII),
        "a number in base 60 in YAML 1.1 and text in 1.2",
    ),
    (re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?", re.ASCII), "a number or text"),
    (re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"), "not a finite number"),
)


class TypedInt(int):
    """A whole number and how it was written."""

    text: str


class TypedFloat(float):
    """A number and how it was written."""

    text: str


class Ambiguous(str):  # noqa: SLOT000 (copies must keep the attributes)
    """A plain scalar that versions of YAML read differently. ``why`` completes "`x` is ..."."""

    why: str
    is_boolean: bool


Scalar = Union[str, int, float, bool, None]


def resolve_plain(text: str) -> Scalar:
    """The value of a plain scalar."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        whole = TypedInt(text)
        whole.text = text
        return whole
    if _FLOAT.fullmatch(text):
        number = TypedFloat(text)
        number.text = text
        return number
    return _ambiguous(text)


def _ambiguous(text: str) -> str:
    lower = text.lower()
    if lower in _TRUE_WORDS or lower in _FALSE_WORDS:
        meaning = "true" if lower in _TRUE_WORDS else "false"
        return _marked(text, f"{meaning} in YAML 1.1 and text in 1.2", is_boolean=True)
    for pattern, why in _OTHER_NUMBERS:
        if pattern.fullmatch(text):
            return _marked(text, why, is_boolean=False)
    return text


def _marked(text: str, why: str, *, is_boolean: bool) -> Ambiguous:
    word = Ambiguous(text)
    word.why = why
    word.is_boolean = is_boolean
    return word
