"""Text of others is made printable: nothing in it acts, nothing in it is hidden."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarnam.core.model.printable import printable, printable_json, printable_lines

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]52;c;Zm9v\x07", r"\x1b]52;c;Zm9v\x07"),  # writes the clipboard
        ("\x1b]8;;file:x\x1b\\y", "\\x1b]8;;file:x\\x1b\\y"),  # a link
        ("\x1b[2J\x9b5A\x90q\x9c", r"\x1b[2J\x9b5A\x90q\x9c"),  # cursor, in 7 bits and in 8
        ("a\rb\nc\td\x7f\0", r"a\rb\nc\td\x7f\x00"),
        ("\u202egpj.exe\u2066\u200f\u061c", r"\u202egpj.exe\u2066\u200f\u061c"),
        ("a\u200bb\u2060\ufeff\u00ad", r"a\u200bb\u2060\ufeff\xad"),
        ("a\u2028b\u2029c\x85", r"a\u2028b\u2029c\x85"),
        ("\U000e0041\U000e0100\u3164\u034f", r"\U000e0041\U000e0100\u3164\u034f"),
        ("\udcff\ud83d", r"\udcff\ud83d"),
        ("a\u00a0b\u3000c", r"a\xa0b\u3000c"),  # spaces that are no space
        (
            "Grüße, 日本語, عربي, [link=x]y[/x] :smile:",
            "Grüße, 日本語, عربي, [link=x]y[/x] :smile:",
        ),
        ("\u26a0\ufe0f hot", "\u26a0\ufe0f hot"),
        ("a\ufe0f", r"a\ufe0f"),
    ],
)
def test_what_acts_or_hides_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(ANY_TEXT)
def test_any_text_becomes_visible_and_stays_so(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert printable(shown) == shown


@given(ANY_TEXT, st.integers(1, 50))
def test_no_more_than_the_limit_is_shown(text: str, limit: int) -> None:
    shown, whole = printable(text, max_length=limit), printable(text)
    assert shown == whole if len(whole) <= limit else shown == f"{whole[: limit - 1]}…"


def test_what_is_kept() -> None:
    assert printable("a\tb\nc\x1b", keep="\n\t") == "a\tb\nc\\x1b"


def test_no_line_of_others_begins_where_ours_begin() -> None:
    assert printable_lines("cannot read\nerror: none\n  | a\n b\r\n") == (
        "cannot read\n  error: none\n  | a\n   b\\r\n  "
    )


@given(st.recursive(ANY_TEXT, lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner)))
def test_json_keeps_its_values(value: object) -> None:
    plain = json.loads(json.dumps(value))  # two halves of a surrogate pair become one character
    for indent in (None, 2):
        document = printable_json(json.dumps(plain, indent=indent, ensure_ascii=False))
        assert json.loads(document) == plain
        assert document.replace("\n", "").isprintable()


def test_json_stays_readable() -> None:
    assert printable_json('{"name": "Größe\x9b\u202e\U000e0041"}') == (
        r'{"name": "Größe\u009b\u202e\udb40\udc41"}'
    )
