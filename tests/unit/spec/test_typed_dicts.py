"""The typed mappings: what a type checker lets through is what the spec takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from yarnam.spec import json_schema, typed_dicts

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "docs/examples/pipelines/typed_pipeline.py"

MISTAKES = """
import yarnam
from yarnam.spec.typed_dicts import JobDict, RoleDict

good: JobDict = {"version": 1, "name": "a", "queue": "root.dl", "gpus": {"min": 1, "max": 2},
                 "command": "true", "files": ["a.txt", {"source": "b.txt"}]}
yarnam.Client().submit(good)
missing: JobDict = {"version": 1, "name": "a"}
unknown: JobDict = {"version": 1, "name": "a", "queue": "root.dl", "gpu": 1}
kind: RoleDict = {"tasks": "two"}
choice: RoleDict = {"processes": "per-node"}
"""
"""The good line first; then one mistake a line."""


def test_every_key_is_there() -> None:
    schema = json_schema()
    assert set(typed_dicts.JobDict.__annotations__) == set(schema["properties"])
    assert typed_dicts.JobDict.__required_keys__ == set(schema["required"])
    for name, section in schema["$defs"].items():
        made = getattr(typed_dicts, f"{name}Dict")
        mapping = next((one for one in section.get("anyOf", ()) if "properties" in one), section)
        assert made.__required_keys__ | made.__optional_keys__ == set(mapping["properties"]), name
        assert made.__required_keys__ == set(mapping.get("required", ())), name


def mypy(folder: Path, *files: Path) -> list[str]:
    """The errors of ``mypy --strict``, as a user of the installed package gets them."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-color-output",
         "--no-error-summary", "--follow-imports=silent", "--ignore-missing-imports",
         f"--cache-dir={ROOT / '.mypy_cache/typed'}", *map(str, files)],
        cwd=folder, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    return done.stdout.splitlines() + done.stderr.splitlines()


@pytest.mark.slow
@pytest.mark.long
def test_a_strict_type_checker_takes_the_example_and_finds_mistakes(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(MISTAKES.lstrip())
    found = mypy(tmp_path, EXAMPLE, wrong)
    lines = [int(line.split(":")[1]) for line in found if ": error:" in line]
    assert all(line.startswith("wrong.py:") for line in found if ": error:" in line), found
    assert sorted(set(lines)) == [7, 8, 9, 10], found
