"""How long a browser takes to show the page of a job of 64 tasks with a day of samples: first and
later, beside the plainest page there is.

Needs what tests/integration/test_browser_pages.py needs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from statistics import median

import pytest

from tests.benchmarks.test_footprint import show
from tests.benchmarks.test_job_page import LOAD_LIMIT_MS, server_of_a_day
from yarnam.web.http.http_messages import Request, Response
from yarnam.web.http.http_server import HttpServer, listen
from yarnam.web.job_server import ProxyOnly

MODULES = os.environ.get("YARNAM_BROWSER_MODULES", "")
LOADS = 10

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.browser,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not (MODULES and shutil.which("node")), reason="needs node and YARNAM_BROWSER_MODULES"
    ),
]


def plainest(request: Request) -> Response:
    return Response(b"<!DOCTYPE html><title>plain</title><p>plain")


def test_load_of_a_day() -> None:
    servers = [
        HttpServer(listen("127.0.0.1"), respond, ProxyOnly([]))
        for respond in (plainest, server_of_a_day().respond)
    ]
    for http in servers:
        http.start()
    done = subprocess.run(
        ["node", str(Path(__file__).with_name("page_load.mjs")), MODULES, str(LOADS),
         *(f"http://127.0.0.1:{http.port}/" for http in servers)],
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    for http in servers:
        http.close()
    assert done.returncode == 0, done.stderr
    plain_ms, page_ms = json.loads(done.stdout.splitlines()[-1])
    ratio = median(page_ms) / median(plain_ms)
    print(f"\nthe plainest page: median {median(plain_ms):.0f} ms, slowest {max(plain_ms):.0f} ms")
    show("the page of a day, first load", page_ms[0], LOAD_LIMIT_MS, "ms")
    show(
        f"the page of a day, median ({ratio:.1f} plain pages)", median(page_ms), LOAD_LIMIT_MS, "ms"
    )
