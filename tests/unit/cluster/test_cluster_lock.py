"""Locks of files, which die with their holder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from yarnam.cluster.cluster_lock import exclusive, holder
from yarnam.errors import Unavailable


def test_the_second_waits_and_then_says_who_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "x.lock"
    with exclusive(path, 1, "it"):
        assert holder(path) == os.getpid()
        with (
            pytest.raises(Unavailable, match=f"it is in use by process {os.getpid()}"),
            exclusive(path, 0.2, "it"),
        ):
            pass
    assert holder(path) is None
    with exclusive(path, 0.2, "it"):
        pass


def test_a_lock_dies_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    script = (
        "import os, sys; from pathlib import Path\n"
        "from yarnam.cluster.cluster_lock import exclusive\n"
        "with exclusive(Path(sys.argv[1]), 1, 'it'): os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(path)], check=False).returncode == 9
    with exclusive(path, 0, "it"):
        pass


def test_nobody_holds_a_lock_that_never_was(tmp_path: Path) -> None:
    assert holder(tmp_path / "x.lock") is None
