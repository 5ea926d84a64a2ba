"""Patterns of lines: pieces of text in a given order.

A pattern is text; ``*`` stands for any text within the line, ``^`` at its start for the start of
the line. It matches a line that holds its pieces in order, in capitals or not: programs say "loss
is NaN" and "Loss is nan". Each piece is searched once, from where the last one ended (the earliest
place is the best one: it leaves most for the rest), so a match takes time linear in the line
whatever the pattern is. Unlike a regular expression, no pattern can be slow, and brackets and dots
have no hidden meaning.
"""

from __future__ import annotations

MAX_LENGTH = 500
"""The longest pattern, in characters."""


def pattern_problem(pattern: str) -> str:
    """Explain to the author why this is not a valid pattern; empty if it is valid."""
    if len(pattern) > MAX_LENGTH:
        return f"is longer than {MAX_LENGTH} characters"
    if "\n" in pattern or "\r" in pattern:
        return "has a line break: a pattern is compared with one line"
    if len(longest_piece(pattern)) < 3:
        return "needs at least three characters in a row without *: it would match nearly any line"
    return ""


def longest_piece(pattern: str) -> str:
    """The lower-case text that every matching line contains: a quick test for many lines."""
    return max(pattern.lower().removeprefix("^").split("*"), key=len)


def is_match(pattern: str, line: str) -> bool:
    """Whether the line holds the pieces of the pattern in order, in capitals or not."""
    line, pattern = line.lower(), pattern.lower()
    is_anchored = pattern.startswith("^")
    pieces = pattern.removeprefix("^").split("*")
    if is_anchored and not line.startswith(pieces[0]):
        return False
    at = 0
    for piece in pieces:
        found = line.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return True
