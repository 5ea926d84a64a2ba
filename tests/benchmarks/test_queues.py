"""What `yarnam queues` costs on a large site: 500 queues, 5,000 nodes, 200 jobs.

The replies are built row by row as Hadoop 3.4.1 writes them. CPU seconds of this process, the best
of several runs; beside them the time that orjson takes for the JSON alone, the fastest
parser there is: who shows all nodes has to read them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any
from xml.etree import ElementTree as ET

import orjson
import pytest

from tests.benchmarks.test_planner import amounts
from tests.unit.queues.test_lint import GOOD, GOOD_SITE, VISION_MIN
from tests.unit.queues.test_lint import NODES as LINT_NODES
from yarnam.adapters.yarn.allocation_xml import parse_xml
from yarnam.adapters.yarn.rest import ResourceManager
from yarnam.cli.rendering.queue_text import queue_lines
from yarnam.core.queues.allocation_reading import read_allocations
from yarnam.core.queues.lint import LintInput, lint
from yarnam.core.queues.queues_now import QueueJob, QueuesNow, Stage
from yarnam.wire.http_request import HttpReply

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(300)]

QUEUES, NODES, JOBS = 500, 5_000, 200
LIMIT_S = 1.0
LINT_LIMIT_S = 0.5
ROUNDS = 5


def best_s(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)


def scheduler_reply() -> bytes:
    keys = ("minResources", "maxResources", "usedResources", "demandResources", "amUsedResources",
            "amMaxResources", "steadyFairResources", "fairResources", "clusterResources",
            "reservedResources", "maxContainerAllocation")  # fmt: skip

    def row(name: str, **more: Any) -> dict[str, Any]:
        shares = {key: amounts(512 * 1024, 96, 8) for key in keys}
        return {
            "queueName": name,
            "schedulingPolicy": "DRF",
            "maxApps": 2147483647,
            **shares,
            **more,
        }

    teams = []
    for team in range(20):
        below = [
            row(f"root.t{team}.q{number}", type="fairSchedulerLeafQueueInfo", numActiveApps=2)
            for number in range(QUEUES // 20 - 1)
        ]
        teams.append(row(f"root.t{team}", childQueues={"queue": below}))
    root = row("root", childQueues={"queue": teams})
    return json.dumps(
        {"scheduler": {"schedulerInfo": {"type": "fairScheduler", "rootQueue": root}}}
    ).encode()


def nodes_reply() -> bytes:
    rows = [
        {"id": f"n{number}:8041", "nodeHostName": f"n{number}",
         "nodeHTTPAddress": f"n{number}:8042",
         "rack": f"/rack{number // 40}", "state": "RUNNING", "lastHealthUpdate": 1795225944283,
         "healthReport": "", "numContainers": 4, "version": "3.4.1", "nodeLabels": [],
         "totalResource": amounts(512 * 1024, 96, 8), "usedResource": amounts(1024, 4, number % 9),
         "availableResource": amounts(1024, 4, 8 - number % 9)}
        for number in range(NODES)
    ]  # fmt: skip
    return json.dumps({"nodes": {"node": rows}}).encode()


class Recorded(ResourceManager):
    def __init__(self, replies: Mapping[str, bytes]) -> None:
        super().__init__(["http://rm:8088"])
        self._replies = replies

    def _get(self, path: str, *_: Any, **__: Any) -> Mapping[str, Any]:
        return HttpReply(self._replies[path], None).json()  # type: ignore[arg-type]


def test_queues_show() -> None:
    replies = {
        "/ws/v1/cluster/scheduler": scheduler_reply(),
        "/ws/v1/cluster/nodes": nodes_reply(),
        "/conf": b'{"properties": []}',
    }
    rm = Recorded(replies)
    jobs = tuple(
        QueueJob(f"application_1_{number:04}", "train", "ada",
                 f"root.t{number % 20}.q{number % 24}", Stage.WAITS_FOR_AM, 1.0)
        for number in range(JOBS)
    )  # fmt: skip

    def show() -> int:
        report = rm.queue_report()
        assert report is not None
        now = QueuesNow(2.0, report.root, report.nodes, jobs)
        return sum(1 for _ in queue_lines(now, report.root))

    assert show() > QUEUES
    ours, parsed = best_s(show), best_s(lambda: [orjson.loads(one) for one in replies.values()])
    size = sum(len(one) for one in replies.values()) / 1e6
    print(f"\nqueues show, {QUEUES} queues, {NODES} nodes ({size:.1f} MB): {ours:.2f} s CPU, "
          f"{ours / parsed:.1f} times what orjson needs to parse the replies")  # fmt: skip
    assert ours <= LIMIT_S


def test_queues_lint() -> None:
    begin, end = GOOD.index('    <queue name="vision">'), GOOD.index('    <queue name="speech"')
    queue = GOOD[begin:end].replace(VISION_MIN, "")
    many = "".join(queue.replace("vision", f"v{number}", 1) for number in range(QUEUES))
    data = (GOOD[:begin] + many + GOOD[end:]).encode()

    def check() -> int:
        given, refusals = read_allocations(parse_xml(data))
        return len(lint(LintInput(given, GOOD_SITE, LINT_NODES), refusals))

    assert check() < QUEUES
    ours, parsed = best_s(check), best_s(lambda: ET.fromstring(data))
    print(f"\nqueues lint, {QUEUES} queues ({len(data) / 1e6:.2f} MB): {ours:.2f} s CPU, "
          f"{ours / parsed:.0f} times what ElementTree needs to parse the file")  # fmt: skip
    assert ours <= LINT_LIMIT_S
