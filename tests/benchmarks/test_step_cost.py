"""What agent and SDK cost a training step.

One process in a real container computes the same step again and again. Blocks with a report and the
question whether to stop in each step take turns with blocks without both, so whatever else the
machine does, it does to both; two blocks without either show what such a comparison is worth there.
On a machine that others use it is worth little, so what the calls take where they stand, with cold
caches after a step, is measured as well, and counts. The agent works beside it; all of its CPU
time counts, its keeper's too, as if each of its seconds had been taken from a step.
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
"""Of a step."""

PROGRAM = """
import json, time
from yarnam import train

def compute():
    total = 0
    for number in range(400_000):
        total += number * number
    return total

def block(has_sdk, first):
    began, calls = time.process_time(), 0.0
    for step in range(first, first + STEPS):
        compute()
        if has_sdk:
            called = time.thread_time()
            train.report(step=step, total_steps=10**6, loss=1.0 / step)
            train.should_stop()
            calls += time.thread_time() - called
    return (time.process_time() - began) / STEPS, calls / STEPS

STEPS, found = 20, []
compute(), train.should_stop(), train.report(step=1)
began = time.time()
for number in range(40):
    kinds, times = ["with", "without", "again"], {}
    for at in range(3):
        kind = kinds[(number + at) % 3]
        times[kind] = block(kind == "with", 2 + number * STEPS)
    found.append(times)
open(OUT, "w").write(json.dumps([found, time.time() - began]))
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
    blocks, took_s = json.loads(found.read_text())

    def compared(kind: str, other: str) -> float:
        return statistics.median(one[kind][0] / one[other][0] for one in blocks) - 1.0

    step_s = statistics.median(one["without"][0] for one in blocks)
    calls = sum(one["with"][1] for one in blocks) / sum(one["without"][0] for one in blocks)
    agent = agents_s / took_s
    print(
        f"\nstep of {step_s * 1e3:.1f} ms: calls of the SDK {calls:.2%} "
        f"({calls * step_s * 1e6:.0f} us), agent {agent:.2%} of a core: "
        f"ratio {1 + calls + agent:.4f}, aim {1 + AIM:g}\n"
        f"blocks of steps: with the SDK {compared('with', 'without'):+.2%} of those without, "
        f"which differ by {compared('again', 'without'):+.2%} among themselves"
    )
    assert calls + agent <= AIM
