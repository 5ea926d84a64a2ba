"""What a packed environment adds to the second submit of a job: naming it by its content."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from yarnam.client.environments.packed_environment import recipe_of
from yarnam.client.site import cache_dir
from yarnam.core.model.job_spec import PackedFrom, PackSource

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

LIMIT_S = 0.5
RUNS = 9
FILES = 20_000
"""In the site-packages of a PyTorch with its tools."""


def test_the_second_submit_is_quick(tmp_path: Path) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("".join(f"package-{n}==1.0\n" for n in range(300)))
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    [site] = (venv / "lib").glob("python*/site-packages")
    for number in range(FILES // 100):
        folder = site / f"package{number}"
        folder.mkdir()
        for module in range(100):
            (folder / f"module{module}.py").write_text("")
    for kind, path in ((PackSource.REQUIREMENTS, requirements), (PackSource.VENV, venv)):
        took = []
        for _ in range(RUNS):
            began = time.perf_counter()
            recipe_of(PackedFrom(kind, str(path)), cache_dir(os.environ), os.environ)
            took.append(time.perf_counter() - began)
        median = statistics.median(took)
        print(f"\n  {kind.value}: {median:.3f} s of {LIMIT_S} s: ratio {median / LIMIT_S:.2f}")
