"""English as CONTRIBUTING.md has it ("How we write"): no message shows one of the patterns, and
the docstrings and comments of a room show no more of them than it had when it was last edited."""

from __future__ import annotations

import ast
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

EVERYWHERE = {
    "is no X": r"(?<!there )\b(?:is|are|was) no (?!longer\b|more\b|other\b|better\b|good\b|such\b)"
    r"[a-z]+",
    "is there already, twice": r"\b(?:is|are) there (?:already|twice)\b",
    "so many, so long": r"\bso (?:many|long)\b(?! as\b| that\b| ago\b)",
    "who asks": r"\bwho (?:asks|waits)\b",
    "it is told": r"\b(?:is|are|was|were|been) told\b",
    "says so": r"; [a-z]+ (?:says|tells) so\b",
}
"""Patterns of a translated text, in messages and in prose."""

PROSE = {
    **EVERYWHERE,
    "None: there is none": r"(?:^|[.;] )None: ",
    "0: all": r"(?:^|[.;] )(?:0|-1|empty|False|True): [a-z]",
    "by itself": r"\bby itself\b",
    "at once": r"\bat once\b",
    "goes on": r"\b(?:goes|go|went|going) on\b",
    "a fragment that finishes the name": r"^(?:Of (?:its|the|an?|one|all|each|what|whom|which)\b|"
    r"That (?:are|is|it|they)\b|As there\b|As (?:ever|above)\b)",
    "a clause as a noun": r"^What (?:it|they|is|are|was|has|to|this|a|an|the)\b",
}

FOLDERS = ("yarnam", "hdfs_utils", "skein_specs", "hydra_plugins", "torchx_plugins")

MOST: dict[str, int] = {
    "hdfs_utils/protocols": 2,
    "yarnam/adapters": 1,
    "yarnam/agent": 5,
}
"""Texts with a pattern that a room still has."""


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    depth = 3 if parts[:2] == ("yarnam", "core") else 2
    return "/".join(parts[:-1][:depth])


def sources() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "pb" not in path.parts:
                yield path


@cache
def texts(path: Path) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """The messages of a module, and its docstrings (those under fields included)."""
    messages, docs = [], []
    tree = ast.parse(path.read_text())
    statements = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = " ".join(node.value.split())
            (docs if id(node) in statements else messages).append((node.lineno, text))
    return messages, docs


@cache
def comments(path: Path) -> tuple[tuple[int, str], ...]:
    with path.open("rb") as file:
        return tuple(
            (token.start[0], token.string.lstrip("# "))
            for token in tokenize.tokenize(file.readline)
            if token.type == tokenize.COMMENT
        )


def found(text: str, patterns: dict[str, str]) -> list[str]:
    return [name for name, pattern in patterns.items() if re.search(pattern, text)]


def test_no_message_shows_a_pattern() -> None:
    shown = [
        f"{path.relative_to(ROOT)}:{line}: {', '.join(names)}: {text[:90]}"
        for path in sources()
        for line, text in texts(path)[0]
        if (names := found(text, EVERYWHERE))
    ]
    assert shown == []


def counts() -> Counter[str]:
    by_room = Counter[str]()
    for path in sources():
        for _, text in (*texts(path)[1], *comments(path)):
            by_room[room_of(path)] += bool(found(text, PROSE))
    return by_room


@pytest.mark.parametrize("room", sorted({room_of(path) for path in sources()}))
def test_the_prose_of_a_room_only_gets_better(room: str) -> None:
    """An edited room has 0. Whoever edits another lowers its number in ``MOST``."""
    shown = [
        f"{path.relative_to(ROOT)}:{line}: {', '.join(names)}: {text[:90]}"
        for path in sources()
        if room_of(path) == room
        for line, text in (*texts(path)[1], *comments(path))
        if (names := found(text, PROSE))
    ]
    assert len(shown) <= MOST.get(room, 0), "\n".join(shown)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("'x' is no policy: fair, fifo and drf are", "is no X"),
        ("None: there is none", "None: there is none"),
        ("List so many, the newest first; 0: all", "so many, so long"),
        ("Of its writer.", "a fragment that finishes the name"),
        ("What it says that it still needs.", "a clause as a noun"),
        ("Let a suspended job go on.", "goes on"),
    ],
)
def test_the_patterns_find_what_they_are_for(text: str, name: str) -> None:
    assert name in found(text, PROSE)


def test_plain_english_passes() -> None:
    for text in ("unknown policy 'x'", "It is no longer shown.", "as long as", "so that it stops"):
        assert found(text, PROSE) == []
