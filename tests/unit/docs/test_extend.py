"""docs/how-to/extend.md names the files to touch: each claim is checked by an existing example."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.near import imported_by

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/how-to/extend.md").read_text()

MENTIONS = [
    ("launch_timeout", ("yarnam/spec", "yarnam/core/model", "yarnam/wire", "yarnam/am"), {
        "yarnam/core/model/job_spec.py", "yarnam/spec/sections/document.py",
        "yarnam/spec/typed_dicts.py",
    }),
    ("near_data", ("yarnam/core/placement",), {"yarnam/core/placement/job_view.py"}),
    ("near_data", ("yarnam/spec", "yarnam/core/model"), {
        "yarnam/core/model/job_spec.py", "yarnam/spec/sections/document.py",
        "yarnam/spec/typed_dicts.py",
    }),
    ("events_command", ("yarnam",), set()),
    ("List the events of a job.", ("yarnam/cli",), {"yarnam/cli/catalog.py"}),
    ("helios", ("yarnam/client", "yarnam/sim", "yarnam/core"), {
        "yarnam/client/planning/traces/trace_formats.py",
    }),
]  # fmt: skip
"""An example, where it is searched, and all files that mention it."""

IMPORTS = [
    ("hdfs_utils.backends.libhdfs", {"hdfs_utils/backends/connect.py"}),
    ("hdfs_utils.checkpoints.frameworks.jax_pytrees", set()),
    ("yarnam.core.frameworks.supported.tensorflow", set()),
    (
        "yarnam.core.observers.memory_observer",
        {"yarnam/core/observers/observer_registry.py"},
    ),
]
"""A module, and all files of its package that import it."""


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize(("example", "folders", "expected"), MENTIONS)
def test_only_these_files_mention_the_example(
    example: str, folders: tuple[str, ...], expected: set[str]
) -> None:
    word = re.compile(rf"\b{re.escape(example)}(_s|_mib)?(?!\w)")
    found = {name(p) for f in folders for p in modules(f) if word.search(p.read_text())}
    assert found == expected


@pytest.mark.parametrize(("module", "expected"), IMPORTS)
def test_only_these_files_import_the_example(module: str, expected: set[str]) -> None:
    assert (ROOT / f"{module.replace('.', '/')}.py").is_file()
    package = module.partition(".")[0]
    assert {name(p) for p in modules(package) if module in imported_by(p)} == expected


def test_the_page_names_these_files_and_examples() -> None:
    files = {file for _, _, expected in MENTIONS for file in expected}
    files |= {file for _, expected in IMPORTS for file in expected}
    for file in files:
        assert f"`{file}`" in PAGE
    for example in [
        *(one for one, _, _ in MENTIONS),
        "libhdfs",
        "jax_pytrees",
        "tensorflow",
        "memory_observer",
    ]:
        assert f"`{example}`" in PAGE


def test_the_files_that_the_page_names_exist() -> None:
    named = set(re.findall(r"`((?:yarnam|hdfs_utils|tests)/[^`<]+\.py)`", PAGE))
    assert len(named) >= 6
    for path in named:
        assert (ROOT / path).is_file(), path


def test_a_failure_rule_is_an_entry_of_one_file() -> None:
    for path in ("yarnam/spec/failure_rules.yaml", "tools/generate_failure_rules.py"):
        assert f"`{path}`" in PAGE
        assert (ROOT / path).is_file()
