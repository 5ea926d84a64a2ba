"""A contributor's first page in a fresh clone, from its first command to its last."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.setup.test_fresh_clone import Newcomer, newcomer
from tests.unit.docs.pages import ROOT, blocks

__all__ = ["newcomer"]

LIMIT_S = 2400

pytestmark = [pytest.mark.setup, pytest.mark.timeout(LIMIT_S + 300)]

PAGE = ROOT / "docs" / "start" / "first-change.md"
ELSEWHERE = "make test"
"""Continuous integration runs it on each change."""


def test_a_contributor_gets_from_the_first_command_to_the_last(
    newcomer: Newcomer, tmp_path: Path
) -> None:
    lines = [line for block in blocks("sh", pages=[PAGE]) for line in block.text.splitlines()]
    assert (lines[0], lines[-1]) == ("make demo", ELSEWHERE)
    script = tmp_path / "page.sh"
    script.write_text("\n".join(["set -ex", *lines[:-1]]))
    done = subprocess.run(
        ["bash", str(script)],
        cwd=newcomer.clone,
        env=newcomer.environ,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-4000:]}"
    assert "SUCCEEDED" in done.stdout
    assert newcomer.processes() == []
