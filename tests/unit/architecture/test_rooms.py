"""docs/architecture.md names the rooms that there are, and the containers import what they need."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from yarnam.errors import ExitCode

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def rooms() -> set[str]:
    return {path.parent.name for path in (ROOT / "yarnam").glob("*/__init__.py")}


def layer_rows() -> list[str]:
    return re.findall(r"^\| (?:\d|beside) \| (.*?) \| ", PAGE.replace("\\|", "/"), re.MULTILINE)


def test_the_table_names_every_room_and_no_other() -> None:
    built, kept_free = set(), set()
    for row in layer_rows():
        now, _, later = row.partition("(kept free:")
        built |= set(re.findall(r"`(\w+)`", now))
        kept_free |= set(re.findall(r"`(\w+)`", later))
    assert built == rooms()
    assert kept_free.isdisjoint(rooms())
    # What is kept free has its place in the import contracts.
    contracts = (ROOT / "pyproject.toml").read_text()
    assert all(f"({room})" in contracts for room in kept_free)


def test_every_room_says_what_belongs_there_and_what_does_not() -> None:
    table = PAGE.split("### What belongs where")[1].split("\n\n")[1]
    rows = re.findall(r"^\| `([\w/]+)` \| (.+?) \| (.+?) \|$", table, re.MULTILINE)
    packages = {f"yarnam/{room}" for room in rooms()} - {"yarnam/core"}
    core = ROOT / "yarnam" / "core"
    packages |= {f"yarnam/core/{path.parent.name}" for path in core.glob("*/__init__.py")}
    assert sorted(room for room, _, _ in rows) == sorted(packages | {"hdfs_utils", "skein_specs"})
    for room, belongs, _ in rows:
        for inner in re.findall(r"`(\w+)/`", belongs):
            assert (ROOT / room / inner).is_dir(), f"{room} has no {inner}/"


def test_the_errors_of_the_page_are_the_exit_codes() -> None:
    rows = re.findall(
        r"^\| ([\d/ ]+) \| ([A-Z_/ ,]+?)(?: \(.*?\))?(?: / ([A-Z_]+))? \|", PAGE, re.M
    )
    found = {}
    for codes, names, last in rows:
        listed = [name.strip() for name in [*names.split("/"), last] if name.strip()]
        found |= dict(zip(listed, (int(code) for code in codes.split("/")), strict=True))
    assert found == {code.name: int(code) for code in ExitCode}


@pytest.mark.parametrize(
    ("module", "never"),
    [
        ("yarnam", ["grpc", "click", "pydantic", "cattrs", "yarnam.client"]),
        ("yarnam.train", ["grpc", "click", "json.tool", "numpy", "jax", "pathlib"]),
        ("yarnam.cli", ["click", "grpc", "pydantic", "yarnam.client", "yarnam.spec"]),
        (
            "yarnam.cli.containers.agent_process",
            ["click", "rich", "pydantic", "yarnam.spec", "skein"],
        ),
        (
            "yarnam.cli.containers.am_process",
            ["click", "rich", "pydantic", "yarnam.spec", "yarnam.client"],
        ),
    ],
)
def test_an_entry_loads_no_more_than_it_needs(module: str, never: list[str]) -> None:
    """What the import contracts cannot see: what is really loaded when it starts."""
    code = (
        f"import sys; before = set(sys.modules); import {module};"
        " print('\\n'.join(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert set(never) & set(done.stdout.split()) == set()


def test_every_benchmark_is_marked_as_one() -> None:
    """Else it runs with the unit tests, for minutes."""
    unmarked = [
        path.name
        for path in (ROOT / "tests" / "benchmarks").glob("test_*.py")
        if "pytest.mark.benchmark" not in path.read_text()
    ]
    assert unmarked == []
