"""A program that ends without waiting still has its last checkpoint."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from hdfs_utils import checkpoints

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "raise RuntimeError('training failed')"])
def test_the_last_save_is_there(tmp_path: Path, end: str) -> None:
    code = f"""
        import sys
        from hdfs_utils.checkpoints import Checkpointer

        one = Checkpointer(sys.argv[1], background=True)
        one.save(1, {{"w": b"x" * (32 << 20)}})
        assert one.behind
        {end}
    """
    home = f"file://{tmp_path}/c"
    command = [sys.executable, "-c", textwrap.dedent(code), home]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == {"": 0, "sys.exit(3)": 3}.get(end, 1), done.stderr
    found = checkpoints.latest(home)
    assert found is not None
    assert found.step == 1


def test_with_other_processes_of_the_same_program(tmp_path: Path) -> None:
    """A forked child (a data loader) neither saves nor waits for what its parent saves."""
    code = """
        import os, sys
        from hdfs_utils.checkpoints import Checkpointer

        one = Checkpointer(sys.argv[1], background=True)
        one.save(1, {"w": b"x" * (32 << 20)})
        child = os.fork()
        if child == 0:
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
    """
    home = f"file://{tmp_path}/c"
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code), home]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert checkpoints.latest(home) is not None
