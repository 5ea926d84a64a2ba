"""The pictures of the web pages: ``python -m tests.pictures.web_pages MODULES`` takes them anew,
with the browser in that folder of Node modules (tests/integration/test_browser_pages.py).

A unit test has no browser: it compares the pages with the digests of those that were taken."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from math import exp
from pathlib import Path

from tests.pictures.scenes import APPLICATION, NOW_S, RUNNING, WAITING
from tests.unit.accounting.records import many
from tests.unit.web.large_cluster import ALERTS, INFO, STRIKES, large_cluster, made_use
from yarnam.core.accounting.job_summary import summary_of
from yarnam.core.model.metrics import Measured
from yarnam.web.cluster_pages import JobFilter, JobsView, jobs_page, queues_page
from yarnam.web.job_page import JobView, job_page
from yarnam.web.log_page import LogChoice, LogsView, LogText, log_page
from yarnam.web.overview_pages import ClusterView, NodesView, nodes_page
from yarnam.web.training_series import Series

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
DIGESTS = FOLDER / "web-pages.json"
SCRIPT = Path(__file__).with_name("take_pages.mjs")
USAGE = {"cpu_cores": 3.25, "memory_bytes": 21.0 * 2**30, "gpu_percent": 96.0,
         "gpu_memory_bytes": 61.0 * 2**30}  # fmt: skip
LOG = "".join(
    f"[rank0] step {step:5}  loss {2.137 + 4 * exp(-step / 400):.4f}  1,234 images/s\n"
    for step in range(1600, 1750, 10)
)


def _busy() -> JobView:
    usage = tuple((name, Measured(value)) for name, value in USAGE.items())
    status = replace(RUNNING, tasks=tuple(replace(each, usage=usage) for each in RUNNING.tasks))
    steps = range(0, 1741, 20)
    losses = tuple((NOW_S - 3 * (1740 - step), 2.1 + 4 * exp(-step / 400)) for step in steps)
    return JobView(
        status, NOW_S,
        events=(
            (NOW_S - 2050, "attempt 2: all processes run; resumed from step 1040"),
            (NOW_S - 2088, "attempt 2: worker-2 asked for again, on another node"),
            (NOW_S - 2100, "gpu-07 was lost: worker-2 with it"),
        ),
        series=(Series("loss", losses),),
        step_times={rank: 0.41 + 0.01 * (rank % 3) for rank in range(16)},
        saved_step=1700, home="/", has_api=True,
    )  # fmt: skip


def html_pages() -> dict[str, bytes]:
    """The pages by the names of their pictures."""
    seen, ended = large_cluster(), [summary_of(each) for each in many(8)]
    cluster = ClusterView(INFO, seen, STRIKES, ALERTS)
    listed = JobsView(NOW_S, [RUNNING, WAITING], ended, JobFilter("", "", ""), [], cluster)
    chosen = LogChoice("processes", 0, None)
    logs = LogsView(
        APPLICATION, "resnet", True, chosen, "/", NOW_S, [LogText("rank 0 on gpu-03", LOG)],
        last_rank=15,
    )  # fmt: skip
    return {
        "job-page": job_page(_busy()),
        "ui": jobs_page(listed),
        "ui-nodes": nodes_page(NodesView(NOW_S, seen.nodes, seen, STRIKES)),
        "ui-queues": queues_page(seen, (), made_use()),
        "log-page": log_page(logs),
    }


def digests() -> dict[str, str]:
    return {name: hashlib.sha256(html).hexdigest() for name, html in html_pages().items()}


def take(modules: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, html in html_pages().items():
            path = Path(folder, f"{name}.html")
            path.write_bytes(html)
            paths.append(str(path))
        subprocess.run(["node", str(SCRIPT), modules, str(FOLDER), *paths], check=True)
    DIGESTS.write_text(json.dumps(digests(), indent=1) + "\n")


if __name__ == "__main__":
    take(sys.argv[1])
