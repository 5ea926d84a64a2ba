"""The glossary is a sorted list of words, and what it names in the code is there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "glossary.md").read_text()
WORDS, _, AVOID = PAGE.partition("## Words to avoid")
ROWS = re.findall(r"^\| (?!word |---)(.+?) \| (.+?) \| `(.+?)` \|$", WORDS, re.MULTILINE)


def test_every_row_is_read() -> None:
    assert len(ROWS) == WORDS.count("\n|") - 2
    assert len(ROWS) > 60


def test_words_are_sorted_and_occur_once() -> None:
    words = [word.lower() for word, _, _ in ROWS]
    assert words == sorted(set(words))


def test_no_word_to_avoid_is_a_word_of_the_list() -> None:
    avoided = {
        one.split(" (")[0].strip()
        for cell in re.findall(r"^\| (?!not |---)(.+?) \|", AVOID, re.MULTILINE)
        for one in cell.split(",")
    }
    listed = {one.strip().lower() for word, _, _ in ROWS for one in word.split(",")}
    assert avoided
    assert not avoided & listed


@pytest.mark.parametrize("name", sorted({name for _, _, name in ROWS}))
def test_the_code_has_it(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        assert hasattr(importlib.import_module(module), attribute), f"{name} is not there"
