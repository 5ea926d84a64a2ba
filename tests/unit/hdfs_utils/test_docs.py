"""The examples of the reference page are run."""

from __future__ import annotations

import doctest
from pathlib import Path

import hdfs_utils
from hdfs_utils import errors

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "hdfs-utils.md"


def test_examples_of_the_reference_page(tmp_path: Path) -> None:
    names = {"home": f"file://{tmp_path}/home", "scratch": str(tmp_path)}
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    results = doctest.testfile(str(PAGE), module_relative=False, globs=names, optionflags=flags)
    assert results.attempted >= 15
    assert results.failed == 0


def test_every_limit_and_error_is_on_the_page() -> None:
    text = PAGE.read_text()
    for name in hdfs_utils.TimeLimits.__dataclass_fields__:
        assert f"`{name}`" in text
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, hdfs_utils.HdfsError):
            assert f"{name}`" in text, f"{name} is not documented"


def test_module_examples() -> None:
    assert doctest.testmod(hdfs_utils) == (0, 3)
