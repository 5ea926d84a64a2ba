"""What a plan costs, against the size of the cluster and against reading the RM's own report of it.

The report is built row by row as Hadoop 3.4.1 writes it (2.3 KB a node), and parsed with orjson,
the fastest JSON parser there is: whoever plans has to read that much first, so a plan that costs
less is never what one waits for. All figures are CPU seconds of this process, the best of several
runs, so that what else the machine does counts little. The parser runs without the garbage
collector, which would more than double its time; the planner runs with it.
"""

from __future__ import annotations

import gc
import json
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest

from yarnam.adapters.yarn.rest_parse import nodes_of
from yarnam.core.model.job_spec import (
    JobSpec,
    PlacementSpec,
    RoleSpec,
    TopologyConstraint,
)
from yarnam.core.model.plans import NoFit, PlacementPlan
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, QueueView
from yarnam.core.placement import declared_targets, ladder_for_submit, plan

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(300)]

LIMIT_S = 0.050
SIZES = (100, 1_000, 10_000)
NODES_PER_RACK = 40
ROUNDS = 9
FULL = {"memory-mb": 512 * 1024, "vcores": 96, "yarn.io/gpu": 8}


def amounts(memory: int, vcores: int, gpus: int) -> dict[str, Any]:
    values = {"memory-mb": memory, "vcores": vcores, "yarn.io/gpu": gpus}
    rows = [
        {
            "attributes": {},
            "maximumAllocation": 9223372036854775807,
            "minimumAllocation": 0,
            "name": name,
            "resourceType": "COUNTABLE",
            "units": "Mi" if name == "memory-mb" else "",
            "value": value,
        }
        for name, value in values.items()
    ]
    return {
        "memory": memory,
        "vCores": vcores,
        "resourceInformations": {"resourceInformation": rows},
    }


def row(number: int, dice: random.Random) -> dict[str, Any]:
    """One node of 8 GPUs; two of five are idle, the others in use to some part."""
    used = dice.choice((0, 2, 4, 8, 8)) if dice.random() < 0.6 else 0
    name, rack = f"gpu{number:05}", f"/row{number // 800}/rack{number // NODES_PER_RACK:03}"
    return {
        "rack": rack, "state": "RUNNING", "id": f"{name}.example.org:8041",
        "nodeHostName": f"{name}.example.org", "nodeHTTPAddress": f"{name}.example.org:8042",
        "lastHealthUpdate": 1795238505624 + number, "version": "3.4.1", "healthReport": "",
        "numContainers": used, "usedMemoryMB": used * 16384,
        "availMemoryMB": FULL["memory-mb"] - used * 16384, "usedVirtualCores": used * 4,
        "availableVirtualCores": 96 - used * 4, "memUtilization": 43.298073,
        "cpuUtilization": 97.0, "numRunningOpportContainers": 0, "usedMemoryOpportGB": 0,
        "usedVirtualCoresOpport": 0, "numQueuedContainers": 0, "allocationTags": {},
        "resourceUtilization": {
            "nodePhysicalMemoryMB": 10437, "nodeVirtualMemoryMB": 10437,
            "nodeCPUUsage": 1.940000057220459, "aggregatedContainersPhysicalMemoryMB": 0,
            "aggregatedContainersVirtualMemoryMB": 0, "containersCPUUsage": 0.0,
        },
        "usedResource": amounts(used * 16384, used * 4, used),
        "availableResource": amounts(
            FULL["memory-mb"] - used * 16384, 96 - used * 4, 8 - used
        ),
        "nodeAttributesInfo": {},
        "totalResource": amounts(FULL["memory-mb"], 96, 8),
    }  # fmt: skip


def report(nodes: int) -> bytes:
    dice = random.Random(7)
    rows = [row(number, dice) for number in range(nodes)]
    return json.dumps({"nodes": {"node": rows}}, separators=(",", ":")).encode()


def cpu_s(work: Callable[[], object]) -> float:
    """The best of several runs."""
    work()
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def parse_cpu_s(text: bytes) -> float:
    gc.disable()
    try:
        return cpu_s(lambda: orjson.loads(text))
    finally:
        gc.enable()


def gang(gpus: int, ps: int = 0, **wish: Any) -> JobSpec:
    tasks = gpus // 8
    roles = [RoleSpec("worker", tasks, Resources(8 * 16384, 32, 8), ("train",), 8)]
    if ps:
        roles.append(RoleSpec("ps", ps, Resources(4096, 2, 0), ("serve",), 1))
    return JobSpec("big", "root.ml", "u", "command", tuple(roles), placement=PlacementSpec(**wish))


def show(what: str, seconds: float, parse_s: float) -> None:
    print(f"  {what:46s} {seconds * 1e3:7.2f} ms  {seconds / parse_s:6.2f} of the parser's time")


@pytest.mark.parametrize("nodes", SIZES)
def test_a_plan_costs_less_than_reading_the_report(nodes: int) -> None:
    text = report(nodes)
    parse_s = parse_cpu_s(text)
    snapshot = ClusterSnapshot(0.0, nodes_of(orjson.loads(text)), QueueView("root.ml"))
    job = gang(512 if nodes >= 1000 else 64)
    ladder = ladder_for_submit(snapshot, job)
    assert isinstance(ladder, PlacementPlan)
    targets = declared_targets(ladder)
    found = plan(snapshot, job, targets=targets)
    assert isinstance(found, PlacementPlan)
    print(f"\n{nodes} nodes, {nodes * 8} GPUs, a job of {job.gpus} GPUs; {len(targets)} services")
    show(f"orjson on the RM's report ({len(text) / 1e6:.1f} MB)", parse_s, parse_s)
    plan_s = cpu_s(lambda: plan(snapshot, job, targets=targets))
    show("plan, as the ApplicationMaster asks", plan_s, parse_s)
    seeded_s = cpu_s(lambda: plan(snapshot, job, targets=targets, seed="application_1_0001"))
    show("the same with the job's own order", seeded_s, parse_s)
    submit_s = cpu_s(lambda: plan(snapshot, job))
    show("ladder and plan, as submit asks", submit_s, parse_s)
    assert max(plan_s, seeded_s, submit_s) <= LIMIT_S
    if nodes == max(SIZES):
        assert max(plan_s, seeded_s, submit_s) <= parse_s


def test_other_questions_on_the_largest_cluster() -> None:
    """Not the promised one, but none may be out of proportion."""
    text = report(max(SIZES))
    parse_s = parse_cpu_s(text)
    snapshot = ClusterSnapshot(0.0, nodes_of(orjson.loads(text)), QueueView("root.ml"))
    print(f"\n{max(SIZES)} nodes, as submit asks:")
    flexible = replace(gang(8), flexible_shape=True)
    kinds = {
        "8 GPUs, shape open": flexible,
        "320 GPUs in one rack": gang(320, rack=TopologyConstraint.REQUIRED),
        "64 GPUs and 4 ps": gang(64, ps=4),
        "64 GPUs and 4 ps, apart": gang(64, ps=4, anti_affinity=(("ps", "ps"),)),
        "64 GPUs on at most 8 nodes": gang(64, max_nodes=8),
    }
    for what, job in kinds.items():
        plan(snapshot, job)
        seconds = cpu_s(lambda job=job: plan(snapshot, job))  # type: ignore[misc]
        show(what, seconds, parse_s)
        assert seconds < 20 * parse_s


def test_a_refusal_on_the_largest_cluster() -> None:
    """What does not fit now is looked at again and again while the job waits."""
    text = report(max(SIZES))
    parse_s = parse_cpu_s(text)
    nodes = tuple(
        replace(n, used=replace(n.used, gpus=max(1, n.used.gpus)))
        for n in nodes_of(orjson.loads(text))
    )
    snapshot = ClusterSnapshot(0.0, nodes, QueueView("root.ml"))
    job = gang(512)
    ladder = ladder_for_submit(snapshot, job)
    assert isinstance(ladder, PlacementPlan)
    targets = declared_targets(ladder)
    found = plan(snapshot, job, targets=targets)
    assert isinstance(found, NoFit)
    print(f"\n{found.message}: {found.hint}")
    seconds = cpu_s(lambda: plan(snapshot, job, targets=targets))
    show("the refusal, with the smallest change", seconds, parse_s)
    assert seconds < 5 * parse_s
