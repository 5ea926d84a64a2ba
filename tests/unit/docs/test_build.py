"""The documentation builds, with warnings as errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.docs.pages import ROOT


@pytest.mark.long
def test_it_builds_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"),
            *("-d", str(tmp_path / "doctrees"), str(ROOT / "docs"), str(tmp_path / "html")),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "html" / "explanation" / "lost-tasks.html").read_text()
    # The first use of a glossary word leads to its row, and only the first.
    assert page.count('href="../reference/glossary.html#word-gang"') == 1
    assert 'id="word-gang"' in (tmp_path / "html" / "reference" / "glossary.html").read_text()
