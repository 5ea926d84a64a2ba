"""Parses and formats durations and sizes with units.

Durations are numbers with a unit, largest first: ``500ms``, ``90s``, ``10min``, ``1h30m``, ``2d``.
Sizes are one number with a unit: ``512MiB``, ``8GiB`` (powers of 1024), ``8GB`` (powers of 1000),
or Hadoop's single letters ``512m``, ``16g`` (powers of 1024). A bare number is never one of them:
what it means differs between Hadoop (MiB), Docker (bytes) and Kubernetes (bytes).
"""

from __future__ import annotations

import difflib
import math
import re
from fractions import Fraction

MIB = 1024**2

_SECONDS: dict[str, Fraction] = {
    "d": Fraction(86400),
    "h": Fraction(3600),
    "min": Fraction(60),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 1000),
}
_BYTES: dict[str, int] = {
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", start=1)},
    **{f"{letter}B": 1000**power for power, letter in enumerate("KMGT", start=1)},
    # Hadoop's StringUtils.TraditionalBinaryPrefix: single letters are binary, in either case.
    **{letter: 1024**power for power, letter in enumerate("kmgt", start=1)},
    **{letter: 1024**power for power, letter in enumerate("KMGT", start=1)},
}

_SPELLED_OUT = {
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
    "msec": "ms",
}

NUMBER_PATTERN = r"[0-9]{1,12}(\.[0-9]{1,6})?"
DURATION_PATTERN = (
    "^(?=[0-9])"
    + "".join(f"({NUMBER_PATTERN} ?{unit} ?)?" for unit in ("d", "h", "(min|m)", "s", "ms"))
    + "$"
)
"""The pattern for the JSON Schema: units in falling order, each at most once."""
SIZE_PATTERN = f"^{NUMBER_PATTERN} ?([KMGT]i?B|[kmgtKMGT])$"

_DURATION_PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?([A-Za-z]+) ?", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?([A-Za-z]+)", re.ASCII)
_BARE = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9]*)?", re.ASCII)

MAX_DURATION_S = 3650 * 86400.0
"""Ten years: anything longer is a typo."""
MAX_SIZE_MIB = 1024**3
"""1 PiB: anything larger is a typo."""


def parse_duration_s(text: str) -> float:
    """Seconds. Raises ValueError with what is wrong and what to write instead."""
    if _BARE.fullmatch(text):
        raise ValueError(f"a duration needs a unit: {text}s, {text}min or {text}h")
    total, position, last = Fraction(0), 0, Fraction(10**9)
    while position < len(text):
        part = _DURATION_PART.match(text, position)
        if part is None:
            raise ValueError(f"{text!r} is not a duration such as 90s, 10min or 1h30m")
        number, unit = part.groups()
        size = _SECONDS.get(unit)
        if size is None:
            raise ValueError(_unknown_unit("duration", unit, tuple(_SECONDS), number))
        if size >= last:
            raise ValueError(f"{text!r}: use each unit once, largest first, as in 1h30m")
        total, position, last = total + Fraction(number) * size, part.end(), size
    if not text or text != text.strip():
        raise ValueError(f"{text!r} is not a duration such as 90s, 10min or 1h30m")
    if total > MAX_DURATION_S:
        raise ValueError(f"{text} is longer than ten years")
    return float(total)


def parse_size_mib(text: str) -> int:
    """Whole MiB, rounded up. Raises ValueError with what is wrong and what to write instead."""
    if _BARE.fullmatch(text):
        raise ValueError(f"a size needs a unit: {text}GiB or {text}MiB")
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a size such as 512MiB or 8GiB")
    number, unit = match.groups()
    factor = _BYTES.get(unit)
    if factor is None:
        raise ValueError(_unknown_unit("size", unit, tuple(_BYTES), number))
    mib = math.ceil(Fraction(number) * factor / MIB)
    if mib > MAX_SIZE_MIB:
        raise ValueError(f"{text} is more than 1PiB")
    return mib


def format_duration(seconds: float) -> str:
    """The shortest exact spelling down to milliseconds; ``parse_duration_s`` reads it back."""
    left = round(Fraction(seconds) * 1000)
    parts = []
    for unit in ("d", "h", "min", "s", "ms"):
        size = int(_SECONDS[unit] * 1000)
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def format_size(mib: int) -> str:
    """In the largest binary unit that is exact; ``parse_size_mib`` reads it back."""
    for unit, size in (("TiB", 1024**2), ("GiB", 1024)):
        if mib and mib % size == 0:
            return f"{mib // size}{unit}"
    return f"{mib}MiB"


def _unknown_unit(kind: str, unit: str, units: tuple[str, ...], number: str) -> str:
    near = [known for known in units if known.lower() == unit.lower()]
    if kind == "duration" and unit.lower() in _SPELLED_OUT:
        near = [_SPELLED_OUT[unit.lower()]]
    near = near or difflib.get_close_matches(unit, units, n=1)
    shown = "d, h, min, s, ms" if kind == "duration" else "KiB, MiB, GiB, TiB, KB, MB, GB, TB"
    hint = f"did you mean {number}{near[0]}?" if near else f"units: {shown}"
    return f"{unit!r} is not a {kind} unit; {hint}"
