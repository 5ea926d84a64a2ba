"""Finds the setting that an unknown one is meant for."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping

ALIKE = 0.85
"""A name that is less alike is of another setting rather than misspelt. Ours."""


def meant_name(name: str, known: Collection[str], renamed: Mapping[str, str]) -> str:
    """Finds the known setting that ``name`` was renamed to or misspells; empty where there is
    none."""
    if name in renamed:
        return renamed[name] if renamed[name] in known else ""
    by_case = {one.lower(): one for one in sorted(known)}
    for lower, one in by_case.items():
        if sorted(lower) == sorted(name.lower()):
            return one  # Letters have changed places.
    alike = difflib.get_close_matches(name.lower(), by_case, n=1, cutoff=ALIKE)
    return by_case[alike[0]] if alike else ""


def value_of_kind(text: str, parse: Callable[[str], object] | None) -> str:
    """The text, where the other setting takes it; else dots to fill in."""
    try:
        if parse is not None:
            parse(text.strip())
    except ValueError:
        return "..."
    return text.strip()
