"""Text of others, safe to show: job names, paths, diagnostics, node names, lines of logs.

A terminal obeys what it is sent. Escape sequences move the cursor, write the clipboard and make
links; bidirectional controls change the order of what is read; some characters are drawn as
nothing. All of them are shown as escapes (``\\x1b``, ``\\u202e``): nothing acts, nothing is hidden.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection

_DRAWN_AS_NOTHING = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
"""The Default_Ignorable_Code_Points of Unicode that ``str.isprintable`` lets pass."""

_EMOJI_FORMS = "\ufe0e\ufe0f"
"""After a symbol they choose its form, as in a coloured warning sign; elsewhere they hide."""

MOST_SHOWN_AT_S = 253_402_214_400.0
"""The last day of the year 9999: the last time since the epoch that calendars have, everywhere."""

_MOST_S = 1e12

_NEW_LINE = re.compile(r"\n(?!  )")


def printable(text: str, *, keep: str = "", max_length: int = 0) -> str:
    """``text`` with everything escaped that is not a visible character or a space.

    ``keep`` has the exceptions, such as ``"\\n\\t"``. Text longer than ``max_length`` ends in an
    ellipsis. Escapes that are already in the text stay as they are.
    """
    if max_length and len(text) > max_length:
        # A character becomes at least one: what is past the limit is not looked at.
        text = text[: max_length + 1]
    shown = _escaped(text, keep, lambda char: char.encode("unicode_escape").decode())
    return f"{shown[: max_length - 1]}…" if max_length and len(shown) > max_length else shown


def printable_lines(text: str) -> str:
    """The same for text of several lines. Those after the first are indented: none of them can pass
    for a line of ours."""
    return _NEW_LINE.sub("\n  ", printable(text, keep="\n\t"))


def printable_json(document: str) -> str:
    """A JSON document in which ``\\u`` escapes stand for what ``printable`` escapes. Every parser
    reads the same values from it."""
    return _escaped(document, "\n", lambda char: json.dumps(char)[1:-1])


def duration(seconds: float) -> str:
    """Show a duration as in ``42s``, ``3m05s``, ``2h07m``, ``5d03h``."""
    whole = int(within(seconds, _MOST_S))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}h"


def gpu_hours(gpu_s: float) -> str:
    """``3.3 GPU hours``."""
    return f"{gpu_s / 3600:.3g} GPU hours"


def within(value: float, most: float) -> float:
    """``value`` moved into 0 to ``most``, so that it can be shown: what others write may be any
    number."""
    return min(most, max(0.0, value)) if value == value else 0.0


def _escaped(text: str, keep: Collection[str], escape: Callable[[str], str]) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if char in keep or _is_visible(char, before) else escape(char)
        for before, char in zip("\0" + text, text, strict=False)
    )


def _is_visible(char: str, before: str) -> bool:
    if char in _DRAWN_AS_NOTHING:
        is_symbol = "\u203c" <= before <= "\u2bff" or "\U0001f000" <= before <= "\U0001faff"
        return char in _EMOJI_FORMS and is_symbol
    return char.isprintable()


def size_text(size: float) -> str:
    """As in ``512 B``, ``1.5 GiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
