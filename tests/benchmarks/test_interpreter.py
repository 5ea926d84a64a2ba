"""The interpreter that comes with a job, paired with one that is on the node: the time from the
start of a container's launch script to the first line of yarnam's own code. Pairs alternate in
order; the ratio is taken pair by pair."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from skein_specs import launch_script
from yarnam.client.environments.interpreter_archive import build_interpreter, own_interpreter
from yarnam.client.environments.runtime_archive import build_runtime, python_version, runtime_source
from yarnam.client.site import cache_dir

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

PAIRS = int(os.environ.get("YARNAM_BENCH_PAIRS", "21"))
PACKED_LIMIT_MB = 40.0
PROGRAM = "yarnam_bench_start"


def start_s(container: Path, **env: str) -> float:
    command = ["bash", "-c", launch_script(PROGRAM, python_version())]
    began = time.perf_counter()
    done = subprocess.run(
        command, cwd=container, env={"PATH": os.defpath, **env}, capture_output=True, check=False
    )
    took = time.perf_counter() - began
    assert done.returncode == 0, done.stderr
    return took


def test_it_starts_no_slower_and_stays_small(tmp_path: Path) -> None:
    cache = cache_dir(os.environ)
    python = build_interpreter(own_interpreter(), cache)
    runtime = build_runtime(runtime_source(), cache)
    bundled, today = tmp_path / "bundled", tmp_path / "today"
    for container in (bundled, today):
        lib = container / "yarnam-runtime"
        lib.mkdir(parents=True)
        with tarfile.open(runtime) as tar:
            tar.extractall(lib)
        # What an agent imports, without what it does.
        text = "import yarnam.cli.containers.agent_process\n"
        (lib / "lib" / f"{PROGRAM}.py").write_text(text)
    with tarfile.open(python) as tar:
        tar.extractall(bundled / "yarnam-python")
    own = os.path.realpath(sys.executable)
    pairs = []
    for index in range(PAIRS + 1):
        one, two = (
            (lambda: start_s(bundled)),
            (lambda: start_s(today, YARNAM_CLIENT_PYTHON=own)),
        )
        first, second = (one, two) if index % 2 else (two, one)
        a, b = first(), second()
        pairs.append((a, b) if index % 2 else (b, a))
    pairs = pairs[1:]  # the first reads the files from the disk
    ratios = [of_bundled / of_today for of_bundled, of_today in pairs]
    packed_mb = (python.stat().st_size + runtime.stat().st_size) / 1e6
    print(f"\n  start of an agent, bundled: {statistics.median(a for a, _ in pairs):.3f} s, "
          f"on the node: {statistics.median(b for _, b in pairs):.3f} s, "
          f"ratio {statistics.median(ratios):.2f} (median of {PAIRS} pairs)")  # fmt: skip
    print(f"  packed, with its packages: {packed_mb:.1f} MB of {PACKED_LIMIT_MB:g}: "
          f"ratio {packed_mb / PACKED_LIMIT_MB:.2f}")  # fmt: skip
    assert packed_mb <= PACKED_LIMIT_MB
