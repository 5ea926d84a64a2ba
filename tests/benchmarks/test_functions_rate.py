"""A hundred calls of a function: from ``map_array`` until all results are here.

The cluster runs on the machine of the client, so that the starts of all its JVMs and Pythons are in
the figures. The goal: 20 s for a hundred.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Any

import pytest

from yarnam import Client

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.yarn,
    pytest.mark.hdfs,
    pytest.mark.timeout(900),
]

CALLS = 100
GOAL_S = 20.0
SPEC: dict[str, Any] = {
    "name": "rate",
    "queue": "root.research",
    "gpus": 1,
    "memory_per_gpu": "512 MiB",
    "vcores_per_gpu": 1,
    "environment": {"python": sys.executable},
}


def test_a_hundred_calls(cluster_env: Mapping[str, str]) -> None:
    def squared(number: int) -> int:
        return number * number

    took: dict[int, float] = {}
    with Client(cluster_env["HADOOP_CONF_DIR"]) as client:
        run = client.executor(SPEC)
        assert run.submit(squared, 3).result(120) == 9  # brings the runtime to a node
        for calls_per_job in (100, 25):
            began = time.monotonic()
            found = run.map_array(squared, range(CALLS), calls_per_job=calls_per_job)
            assert found.results(300) == [number * number for number in range(CALLS)]
            took[calls_per_job] = time.monotonic() - began
    print(f"\n{CALLS} calls until their results are here, load {os.getloadavg()[0]:.1f}")
    for calls_per_job, seconds in took.items():
        jobs = -(-CALLS // calls_per_job)
        print(f"  {calls_per_job:3d} calls per job, {jobs} jobs: {seconds:6.1f} s")
    print(f"  goal {GOAL_S:g} s: {'met' if min(took.values()) <= GOAL_S else 'missed'}")
