"""What the job page costs: the time of each resource for a gang of 256 tasks, every time with a new
status, as a ratio to that for 4 tasks; and what the first request adds to the process's memory."""

from __future__ import annotations

import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.benchmarks.test_footprint import show
from tests.unit.web.job_values import NOW_S, running
from tests.unit.web.test_job_server import Am
from yarnam.core.model.events import JobStarted
from yarnam.core.model.ids import AskId
from yarnam.core.model.metrics import AgentMetrics, Measured
from yarnam.web.http.http_messages import Request
from yarnam.web.http.http_server import HttpServer, listen
from yarnam.web.job_server import JobServer, ProxyOnly

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

REQUESTS = 200
LIMIT_MS = 100.0
LIMIT_MIB = 10.0
DAY_TASKS = 64
PAGE_LOADS = 20
LOAD_LIMIT_MS = 1000.0
SIZE_LIMIT_KIB = 1024.0
"""A tenth of the second at 100 Mbit/s."""
PATHS = ("/", "/api/v1/job", "/api/v1/series", "/metrics")
MEMORY = """
import resource, sys
sys.path.insert(0, {root!r})
from yarnam.web import job_server
from tests.unit.web.job_values import running
from tests.unit.web.test_job_server import Am
from yarnam.wire.codec import decode_event
from yarnam.web.http.http_messages import Request
am = Am(); am.show(running(256))
server = job_server.JobServer(am.source)
def rss():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 2**20
before = rss()
server.respond(Request("/metrics"))
plain = rss()
server.respond(Request("/"))
print(before, plain, rss())
"""


def quantiles_ms(tasks: int) -> dict[str, tuple[float, float, float]]:
    """Of each path: the median and the 99th percentile of the CPU time of both ends, which other
    programs on the machine do not change much, and the latter of the wall time."""
    am = Am()
    am.add(*(JobStarted(NOW_S) for _ in range(100)))
    am.measured = [
        AgentMetrics(AskId(1, "worker", rank), rank, NOW_S, 5, 10, (("loss", Measured(1.0)),))
        for rank in range(2 * tasks)
    ]
    server = JobServer(am.source)
    http = HttpServer(listen("127.0.0.1"), server.respond, ProxyOnly([]), server.sample)
    http.start()
    found = {}
    for path in PATHS:
        took = []
        for number in range(REQUESTS):
            am.show(running(tasks, step=number))
            began, began_cpu = time.perf_counter(), time.process_time()
            connection = HTTPConnection("127.0.0.1", http.port, timeout=30)
            connection.request("GET", path)
            assert connection.getresponse().read()
            connection.close()
            took.append((time.perf_counter() - began, time.process_time() - began_cpu))
        wall, cpu = (sorted(1000 * one[n] for one in took) for n in (0, 1))
        found[path] = (cpu[REQUESTS // 2], cpu[-2], wall[-2])
    http.close()
    return found


def test_time_of_each_resource() -> None:
    small, large = quantiles_ms(4), quantiles_ms(256)
    for path in PATHS:
        times = large[path][0] / small[path][0]
        p50, p99, wall = large[path]
        show(f"{path}, 256 tasks, CPU p50 ({times:.1f} times 4 tasks')", p50, LIMIT_MS, "ms")
        show(f"{path}, 256 tasks, CPU p99", p99, LIMIT_MS, "ms")
        show(f"{path}, 256 tasks, p99", wall, LIMIT_MS, "ms")


def test_memory_of_the_first_request() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", MEMORY.format(root=str(root))],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    before, plain, page = map(float, done.stdout.split())
    show("the first /metrics adds", plain - before, LIMIT_MIB, "MiB")
    show("the first page adds", page - plain, LIMIT_MIB, "MiB")


def server_of_a_day() -> JobServer:
    """Of a job of ``DAY_TASKS`` tasks that has reported 16 metrics every 10 s for a day."""
    am = Am()
    am.add(*(JobStarted(NOW_S) for _ in range(100)))
    am.show(running(DAY_TASKS))
    server = JobServer(am.source)
    names = ("loss", "accuracy", "lr", "throughput", *(f"metric{n}" for n in range(12)))
    for second in range(0, 86_400, 10):
        values = tuple((name, Measured(second % 977 / 7.0)) for name in names)
        at_s = NOW_S - 86_400 + second
        server.series.sample([AgentMetrics(AskId(1, "worker", 0), 0, at_s, second, None, values)])
    return server


def test_a_day_of_samples_of_64_tasks() -> None:
    """What a browser waits for: the page's HTML, which brings all that it needs."""
    server = server_of_a_day()
    took_s, body = [], b""
    for _ in range(PAGE_LOADS):
        began_s = time.process_time()
        body = server.respond(Request("/")).body
        took_s.append(time.process_time() - began_s)
    points = sum(len(one.points) for one in server.series.series())
    print(f"\n{DAY_TASKS} tasks, {points} points, {len(body) / 1024:.0f} KiB of HTML")
    show("the page of a day, first load, CPU", 1000 * took_s[0], LOAD_LIMIT_MS, "ms")
    median_ms = 1000 * sorted(took_s)[PAGE_LOADS // 2]
    show("the page of a day, median, CPU", median_ms, LOAD_LIMIT_MS, "ms")
    show("the page of a day, size", len(body) / 1024, SIZE_LIMIT_KIB, "KiB")
