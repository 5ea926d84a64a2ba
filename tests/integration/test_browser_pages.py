"""The pages in a real headless browser: no complaint, no request elsewhere, renewed in place,
readable on a phone and a laptop, in light and dark, by keyboard and without scripts.

Needs Node, and in a folder that YARNAM_BROWSER_MODULES names: npm install puppeteer-core
@sparticuz/chromium (which carries the browser in the package)."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.cluster_view import cluster
from tests.unit.accounting.records import many
from tests.unit.web.html_pages import HOSTILE
from tests.unit.web.job_values import APPLICATION, NOW_S, everything, running, with_every_text
from tests.unit.web.large_cluster import STRIKES, large_cluster, made_use
from tests.unit.web.test_job_server import Am
from yarnam.core.accounting.job_summary import summary_of
from yarnam.core.model.events import CancelRequested
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_status import JobStatus
from yarnam.core.model.metrics import AgentMetrics, Measured
from yarnam.core.queues.overview.cluster_overview import ClusterInfo
from yarnam.web.cluster_server import ClusterServer, ClusterSource
from yarnam.web.http.http_messages import Request, Response
from yarnam.web.http.http_server import HttpServer, listen
from yarnam.web.job_page import JobView
from yarnam.web.job_server import JobServer, ProxyOnly
from yarnam.web.log_page import LogsView, LogText

MODULES = os.environ.get("YARNAM_BROWSER_MODULES", "")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.skipif(
        not (MODULES and shutil.which("node")), reason="needs node and YARNAM_BROWSER_MODULES"
    ),
]

SCRIPT = Path(__file__).with_name("browser_pages.mjs")
LIMIT_S = 280.0


@contextmanager
def served(*servers: JobServer | ClusterServer) -> Iterator[list[str]]:
    found = [HttpServer(listen("127.0.0.1"), one.respond, ProxyOnly([])) for one in servers]
    for http in found:
        http.start()
    yield [f"http://127.0.0.1:{http.port}/" for http in found]
    for http in found:
        http.close()


def job_server(status: JobStatus, text: str) -> JobServer:
    """Of a job whose step is another one whenever somebody looks."""
    am, steps = Am(), itertools.count(420)
    am.show(status)
    am.add(CancelRequested(NOW_S, "ada", text))

    class Moving(JobServer):
        def respond(self, request: Request) -> Response:
            step = next(steps)
            am.show(running(64, step=step) if status.verdict is None else status)
            return super().respond(request)

    made = Moving(am.source)
    for number in range(50):
        values = (("loss", Measured(1.0 / (1 + number))), (text[:60], Measured(float(number))))
        am.measured = [AgentMetrics(AskId(1, "w", 0), 0, NOW_S + 10 * number, number, 99, values)]
        made.series.sample(am.measured)
    return made


def test_a_browser_shows_them_without_complaint(tmp_path: Path) -> None:
    hostile = with_every_text(everything(), HOSTILE)
    steps = itertools.count(1)
    pages = ClusterServer(
        ClusterSource(
            active=lambda: [running(name=HOSTILE, step=next(steps))],
            ended=lambda: [summary_of(one) for one in many(30)],
            queues=lambda: replace(large_cluster(), taken_at_s=NOW_S + next(steps)),
            info=lambda: ClusterInfo(HOSTILE, "ACTIVE"),
            nodes=lambda: replace(cluster(), nodes=large_cluster().all_nodes),
            use=made_use,
            strikes=lambda: tuple(replace(one, why=HOSTILE) for one in STRIKES),
            job=lambda application: JobView(hostile, NOW_S, home="/"),
            logs=lambda application, chosen: LogsView(
                application,
                HOSTILE,
                True,
                chosen,
                "/",
                NOW_S,
                [LogText(HOSTILE, f"{HOSTILE} {next(steps)}\n" * 300)],
            ),
        )
    )
    with served(job_server(running(64), HOSTILE), pages) as (page, home):
        done = subprocess.run(
            ["node", str(SCRIPT), MODULES, str(tmp_path), page, home,
             f"{home}jobs/{APPLICATION}/logs?task=worker-0", f"{home}nodes", f"{home}queues"],
            capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout.splitlines()[-1])
    assert len(found["pages"]) == 15
    for one in found["pages"]:
        assert one["complaints"] == [], one
        assert [one["url"].startswith(f"{origin}/") for origin in one["requested"]] == [True], one
        assert one["belowLogs"] <= 8, "the end of a log stays in sight"
        assert one["overflow"] <= 0, one
        assert one["hidden"] == 0 or one["url"] == page, f"a column is beyond an edge: {one}"
        assert one["times"] == one["localTimes"] > 0
        assert one["isSamePage"], "it was loaded anew"
        assert one["skip"] == "Skip to the content"
        assert one["pause"] == "Resume updates"
    light, dark = (one["background"] for one in found["pages"][:2])
    assert light != dark
    assert found["withoutScripts"] > 1000
    assert len(list(tmp_path.glob("*.png"))) == 15
