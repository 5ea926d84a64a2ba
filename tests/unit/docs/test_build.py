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
    assert (tmp_path / "html" / "tutorial" / "first-job.html").exists()
