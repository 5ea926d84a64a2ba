"""The reference page is true: its examples are run, its tables are complete."""

from __future__ import annotations

import doctest
from pathlib import Path

from hdfs_utils.validation import FORMATS, Reason

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "validation.md"


def test_examples_of_the_reference_page(tmp_path: Path) -> None:
    names = {"home": f"file://{tmp_path}/home"}
    results = doctest.testfile(str(PAGE), module_relative=False, globs=names)
    assert results.attempted >= 12
    assert results.failed == 0


def test_every_format_and_reason_is_on_the_page() -> None:
    text = PAGE.read_text()
    for word in (*FORMATS, *(reason.value for reason in Reason)):
        if word not in ("snappy", "unprotected", "other-format"):
            assert f"`{word}`" in text, word
