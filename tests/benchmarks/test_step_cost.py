"""What agent and SDK cost a training step.

One process in a real container computes the same step again and again, in blocks that take turns:
with a report and the question whether to stop in each step, and without both. So whatever else
the machine does, it does to both. The agent works beside it; all of its CPU time counts, its
keeper's too, as if each of its seconds had been taken from a step.
``make bench ARGS="tests/benchmarks/test_step_cost.py -s"``
"""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.fault_world import AGENT, MARKS, FaultWorld
from yarnam.core.model.outcomes import VerdictKind

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

pytestmark = [*MARKS, pytest.mark.benchmark, pytest.mark.timeout(900)]

AIM = 0.01
"""Of a step. The test allows twice as much: what else the machine does costs caches, too."""

PROGRAM = """
import json, time
from yarnam import train

def compute():
    total = 0
    for number in range(400_000):
        total += number * number
    return total

def block(has_sdk, first):
    began = time.process_time()
    for step in range(first, first + STEPS):
        compute()
        if has_sdk:
            train.report(step=step, total_steps=10**6, loss=1.0 / step)
            train.should_stop()
    return (time.process_time() - began) / STEPS

STEPS, with_sdk, without = 20, [], []
compute(), train.should_stop(), train.report(step=1)
began = time.time()
for number in range(40):
    first = 2 + number * STEPS
    if number % 2:
        without.append(block(False, first)), with_sdk.append(block(True, first))
    else:
        with_sdk.append(block(True, first)), without.append(block(False, first))
open(OUT, "w").write(json.dumps([with_sdk, without, time.time() - began]))
time.sleep(3600)
"""


def cpu_s(pid: int) -> float:
    """Of a process, with the children that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def test_a_step_costs_little_more(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    world = FaultWorld(cluster, tmp_path)
    found = tmp_path / "times.json"
    program = PROGRAM.replace("OUT", repr(str(found)))
    try:
        job = world.submit("step-cost", ["python3", "-c", program], worker={"tasks": 1})
        status = world.until(job, lambda s: (s.step or 0) > 1, "first step")
        assert status.verdict is None
        agents = world.pids(job, AGENT)
        before = {pid: cpu_s(pid) for pid in agents}
        world.until(job, lambda _: found.exists() and bool(found.read_text()), "all steps")
        agents_s = sum(cpu_s(pid) - used_s for pid, used_s in before.items())
        job.kill("measured")
        assert job.wait(60).kind is VerdictKind.CANCELLED
    finally:
        world.end_all()
        world.close()
    with_sdk, without, took_s = json.loads(found.read_text())
    ratios = [one / other for one, other in zip(with_sdk, without, strict=True)]
    sdk = statistics.median(ratios) - 1.0
    agent = agents_s / took_s
    step_s = statistics.median(without)
    print(
        f"\nstep of {step_s * 1e3:.1f} ms: SDK {sdk:+.2%} ({sdk * step_s * 1e6:.0f} us), agent "
        f"{agent:.2%} of a core: ratio {1 + sdk + agent:.4f}, aim {1 + AIM:g}"
    )
    assert sdk + agent <= 2 * AIM
