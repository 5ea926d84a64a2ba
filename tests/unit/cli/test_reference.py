"""The pages on commands and exit codes are those of the code."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    path = ROOT / "tools" / "generate_cli_reference.py"
    spec = importlib.util.spec_from_file_location("generate_cli_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_on_commands_is_current(generator: ModuleType) -> None:
    page = ROOT / "docs" / "reference" / "cli.md"
    assert page.read_text() == generator.cli_page(), "run python tools/generate_cli_reference.py"


def test_the_page_on_exit_codes_is_current(generator: ModuleType) -> None:
    page = ROOT / "docs" / "reference" / "exit-codes.md"
    assert page.read_text() == generator.exit_codes_page(), (
        "run python tools/generate_cli_reference.py"
    )
