"""Patterns of lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarnam.core.failures.line_pattern import is_match, longest_piece, pattern_problem


@pytest.mark.parametrize(
    ("pattern", "line", "fits"),
    [
        ("out of memory", "CUDA out of memory.", True),
        ("[Errno 2]", "FileNotFoundError: [Errno 2] No", True),
        ("a*b*c", "xaxbxcx", True),
        ("a*b*c", "xaxcxbx", False),
        ("ab*b", "ab", False),
        ("^EOFError", "EOFError", True),
        ("^EOFError", "x EOFError", False),
        ("^a*c", "abc", True),
        ("loss is NaN", "Loss is nan", True),
        ("a (2)", "a 2", False),
    ],
)
def test_pieces_in_order(pattern: str, line: str, fits: bool) -> None:
    assert is_match(pattern, line) is fits


@given(st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=4), st.data())
def test_a_line_that_holds_the_pieces_in_order_matches(pieces: list[str], data: object) -> None:
    draw = data.draw  # type: ignore[attr-defined]
    gaps = [draw(st.text("abx", max_size=4)) for _ in range(len(pieces) + 1)]
    line = gaps[0] + "".join(piece + gap for piece, gap in zip(pieces, gaps[1:], strict=True))
    assert is_match("*".join(pieces), line)


def test_a_pattern_that_defeats_backtracking_engines_is_harmless() -> None:
    # With (a.*)*b a backtracking engine would not end; here each piece is searched once.
    assert not is_match("a*" * 100 + "b", "a" * 100_000)


@pytest.mark.parametrize("pattern", ["", "*", "a*b", "ab\ncd", "x" * 501])
def test_what_is_no_pattern(pattern: str) -> None:
    assert pattern_problem(pattern)


def test_a_quick_test_for_many_lines() -> None:
    assert longest_piece("^ab*longest*x") == "longest"
