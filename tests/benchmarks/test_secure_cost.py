"""What Kerberos and the kind of cluster cost a user: submit to running on a secure cluster, paired
with an open one beside it, and `yarnam doctor` on each kind.

As in test_submit_latency.py: pairs are interleaved, the order within a pair alternates, and the
ratio is taken pair by pair.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from yarnam.cluster import EmbeddedCluster
from yarnam.cluster.shape import ClusterShape

pytestmark = [pytest.mark.benchmark, pytest.mark.secure, pytest.mark.timeout(1800)]

PAIRS = int(os.environ.get("YARNAM_BENCH_PAIRS", "5"))
START_LIMIT_S = 300.0
COMMAND_S = 120
DOCTOR_BAR_S = 5.0
SUBMIT_BAR = 1.5
SHAPES = {
    "open": ClusterShape(nodes=1, racks=1),
    "capacity": ClusterShape(nodes=1, racks=1, scheduler="capacity"),
    "secure": ClusterShape(nodes=1, racks=1, secure=True),
}
SPEC = """\
version: 1
name: cost
queue: root.dl
command: date +%s.%N > {stamp}.part && mv {stamp}.part {stamp} && exec sleep 600
roles:
  worker: {{tasks: 1, gpus: 1, memory: 512MiB, vcores: 1}}
"""

Up = Callable[[str], EmbeddedCluster]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """The cluster of each kind, started when it is asked for."""
    with ExitStack() as stack:

        @cache
        def start(kind: str) -> EmbeddedCluster:
            folder = tmp_path_factory.mktemp(kind)
            name = f"{kind}-{os.getpid()}"
            cluster = EmbeddedCluster(
                SHAPES[kind], name=name, state_root=folder, shared_machine=True
            )
            stack.callback(cluster.down)
            cluster.up()
            return cluster

        yield start


def yarnam(cluster: EmbeddedCluster, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "yarnam", *command],
        env={**os.environ, **cluster.environ()},
        capture_output=True, text=True, timeout=COMMAND_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


def submit_to_running(cluster: EmbeddedCluster, folder: Path) -> float:
    """Seconds from the start of the command to that of the job's process."""
    folder.mkdir()
    stamp, spec = folder / "stamp", folder / "job.yaml"
    spec.write_text(SPEC.format(stamp=stamp))
    began = time.time()
    application = yarnam(cluster, "submit", "--detach", str(spec)).split()[0]
    try:
        while not stamp.exists():
            assert time.time() < began + START_LIMIT_S, f"{application} has not started"
            time.sleep(0.05)
        return float(stamp.read_text()) - began
    finally:
        yarnam(cluster, "kill", application)


def test_submit_to_running_with_kerberos(up: Up, tmp_path: Path) -> None:
    kinds, rows = ("open", "secure"), []
    for pair in range(PAIRS + 1):
        order = kinds if pair % 2 else kinds[::-1]
        row = {kind: submit_to_running(up(kind), tmp_path / f"{kind}-{pair}") for kind in order}
        if pair:  # the first one stores and fetches what later jobs find in the caches
            rows.append(row)
    print(f"\nsubmit to the first process, one task, {PAIRS} interleaved pairs")
    for kind in kinds:
        times = [row[kind] for row in rows]
        print(
            f"  {kind:8s} median {statistics.median(times):5.2f} s "
            f"(min {min(times):.2f}, max {max(times):.2f})"
        )
    ratios = [row["secure"] / row["open"] for row in rows]
    print(
        f"  secure / open, pair by pair: median {statistics.median(ratios):.2f} "
        f"(min {min(ratios):.2f}, max {max(ratios):.2f}; bar {SUBMIT_BAR:g})"
    )


@pytest.mark.parametrize("kind", SHAPES)
def test_doctor(up: Up, kind: str) -> None:
    cluster, times = up(kind), []
    for _ in range(PAIRS):
        began = time.monotonic()
        yarnam(cluster, "doctor")
        times.append(time.monotonic() - began)
    median = statistics.median(times)
    print(
        f"\nyarnam doctor on the {kind} cluster: median {median:.2f} s (min {min(times):.2f}, "
        f"max {max(times):.2f}), {median / DOCTOR_BAR_S:.2f} of the bar of {DOCTOR_BAR_S:g} s"
    )
