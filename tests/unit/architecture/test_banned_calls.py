"""ruff's banned-api rules keep clock, environment, dice and files out of the core."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PURE_ROOMS = ("errors", "model", "gang", "placement", "failures", "queues", "policies")
RULES = "TID251,T20"


def ruff(tree: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "--select", RULES, "yarnam"],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def write(tree: Path, module: str, text: str) -> None:
    path = tree / module
    path.parent.mkdir(parents=True)
    path.write_text(text)


@pytest.mark.parametrize("room", PURE_ROOMS)
@pytest.mark.parametrize(
    "text",
    [
        "import time\n",
        "from time import monotonic\n",
        "import datetime\n\nNOW = datetime.datetime.now()\n",
        "import random\n",
        "import uuid\n",
        "import os\n",
        "from pathlib import Path\n",
        "import logging\n",
        "import subprocess\n",
        "import socket\n",
        "print('hello')\n",
    ],
)
def test_the_core_may_not(tree: Path, room: str, text: str) -> None:
    write(tree, f"yarnam/{room}/seeded.py", text)
    done = ruff(tree)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"yarnam/{room}/seeded.py" in done.stdout


@pytest.mark.parametrize("room", ["am", "agent", "adapters", "client", "cluster", "spec", "wire"])
def test_the_shell_may(tree: Path, room: str) -> None:
    """The other half: the rule speaks of the core alone, else someone would switch it off."""
    write(tree, f"yarnam/{room}/seeded.py", "import time\n")
    done = ruff(tree)
    assert done.returncode == 0, done.stdout
