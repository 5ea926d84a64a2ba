"""Submit to all user processes running, paired with raw Skein on the same cluster.

Both sides are timed as a user's command: from the start of the submitting process to the moment
at which the last container's command began (each container stamps its own start; all nodes of the
embedded cluster share one clock). Pairs are interleaved, the order within a pair alternates, and
the ratio is taken pair by pair, so that a drift of the machine's speed hits both alike.
"""

from __future__ import annotations

import getpass
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pytest

from yarnam.adapters.yarn.addresses import rm_web_urls

pytestmark = [pytest.mark.benchmark, pytest.mark.yarn, pytest.mark.timeout(1800)]

HERE = Path(__file__).resolve().parent
QUEUE = "root.research"
PAIRS = int(os.environ.get("YARNAM_BENCH_PAIRS", "7"))
SETTLE_LIMIT_S = 60.0
START_LIMIT_S = 120.0

SPEC = """\
version: 1
name: {name}
queue: {queue}
framework: command
command:
  - /bin/sh
  - -c
  - date +%s.%N > {stamps}/$CONTAINER_ID.part && mv {stamps}/$CONTAINER_ID.part \
{stamps}/$CONTAINER_ID && exec sleep 600
roles:
  worker:
    tasks: {tasks}
    gpus: 1
    memory: 1GiB
    vcores: 1
"""


def rm_url(env: Mapping[str, str]) -> str:
    return rm_web_urls(env["HADOOP_CONF_DIR"])[0]


def rm_json(env: Mapping[str, str], path: str) -> dict[str, object]:
    with urllib.request.urlopen(f"{rm_url(env)}/ws/v1/cluster/{path}", timeout=10) as reply:
        loaded: dict[str, object] = json.load(reply)
    return loaded


def kill(env: Mapping[str, str], application: str) -> None:
    request = urllib.request.Request(
        f"{rm_url(env)}/ws/v1/cluster/apps/{application}/state"
        f"?user.name={env.get('HADOOP_USER_NAME') or getpass.getuser()}",
        data=b'{"state":"KILLED"}',
        method="PUT",
        headers={"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=10).read()


def wait_until_idle(env: Mapping[str, str]) -> None:
    """No container left anywhere: one side's end must not slow the other's start."""
    deadline = time.monotonic() + SETTLE_LIMIT_S
    while time.monotonic() < deadline:
        metrics = rm_json(env, "metrics")["clusterMetrics"]
        if not metrics["containersAllocated"]:  # type: ignore[index]
            time.sleep(1.0)
            return
        time.sleep(0.3)
    raise TimeoutError(f"containers still there after {SETTLE_LIMIT_S} s")


def measure(
    command: list[str], env: Mapping[str, str], stamps: Path, tasks: int
) -> tuple[float, float]:
    """(seconds from the command's start to the last process's, spread first to last)."""
    stamps.mkdir(parents=True)
    wait_until_idle(env)
    began = time.time()
    done = subprocess.run(
        command, env=dict(env), check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    application = next(
        word for word in done.stdout.replace('"', " ").split() if word.startswith("application_")
    )
    try:
        deadline = time.monotonic() + START_LIMIT_S
        while len(found := [p for p in stamps.iterdir() if not p.name.endswith(".part")]) < tasks:
            assert time.monotonic() < deadline, f"{len(found)} of {tasks} started"
            time.sleep(0.05)
        starts = sorted(float(path.read_text()) for path in found)
    finally:
        kill(env, application)
    return starts[-1] - began, starts[-1] - starts[0]


@pytest.fixture(scope="module")
def warm(cluster_env: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> None:
    """One task on each node: from then on every node has the runtime in its local cache, as on a
    cluster that has run a job of this version before. Raw Skein ships nothing of the kind."""
    folder = tmp_path_factory.mktemp("warm")
    nodes = rm_json(cluster_env, "metrics")["clusterMetrics"]["activeNodes"]  # type: ignore[index]
    spec = folder / "warm.yaml"
    text = SPEC.format(name="bench-warm", queue=QUEUE, stamps=folder / "stamps", tasks=nodes)
    spec.write_text(text + "placement:\n  strategy: spread\n")
    command = [sys.executable, "-m", "yarnam", "submit", str(spec), "--detach"]
    measure(command, cluster_env, folder / "stamps", nodes)


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("tasks", [4, 16])
def test_submit_to_running_against_raw_skein(
    tasks: int, cluster_env: Mapping[str, str], tmp_path: Path
) -> None:
    rows: dict[str, list[tuple[float, float]]] = {"raw skein": [], "yarnam": []}
    for pair in range(PAIRS + 1):
        order = ("raw skein", "yarnam") if pair % 2 else ("yarnam", "raw skein")
        for side in order:
            stamps = tmp_path / f"{side.replace(' ', '-')}-{pair}"
            name = f"bench-{tasks}-{pair}"
            if side == "yarnam":
                spec = tmp_path / f"{name}.yaml"
                spec.write_text(SPEC.format(name=name, queue=QUEUE, stamps=stamps, tasks=tasks))
                command = [sys.executable, "-m", "yarnam", "submit", str(spec), "--detach"]
            else:
                command = [
                    sys.executable, str(HERE / "raw_skein_submit.py"),
                    QUEUE, str(tasks), str(stamps), name,
                ]  # fmt: skip
            result = measure(command, cluster_env, stamps, tasks)
            if pair:  # the first pair warms what is left: the page cache, the daemons' code
                rows[side].append(result)
    ratios = [ours[0] / raw[0] for ours, raw in zip(rows["yarnam"], rows["raw skein"], strict=True)]
    print(f"\nsubmit to all {tasks} processes running, {PAIRS} interleaved pairs")
    for side, results in rows.items():
        times = [result[0] for result in results]
        spreads = [result[1] for result in results]
        print(
            f"  {side:10s} median {statistics.median(times):6.2f} s "
            f"(min {min(times):.2f}, max {max(times):.2f}); "
            f"first-to-last median {statistics.median(spreads):.2f} s, max {max(spreads):.2f} s"
        )
    print(
        f"  ratio yarnam / raw skein, pair by pair: median {statistics.median(ratios):.2f} "
        f"(min {min(ratios):.2f}, max {max(ratios):.2f})"
    )
