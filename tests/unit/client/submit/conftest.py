"""What the tests of a room share."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.unit.client.world import World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """What submits leave on this machine lies in a folder of the test's own."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    return World(tmp_path / "world")
