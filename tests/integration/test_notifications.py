"""Notifications of a real job: a webhook hears of its start and its end, once each, and no log has
the secret of its URL."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.integration.submit_world import SubmitWorld

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs]

SECRET = "T0K3N"


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Its URL, and what it has got."""
    got: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/{SECRET}", got
    server.shutdown()
    server.server_close()


@pytest.mark.long
def test_a_webhook_hears_of_start_and_end(
    submit_world: SubmitWorld, receiver: tuple[str, list[dict[str, Any]]], unique_name: Any
) -> None:
    url, got = receiver
    notify = [
        {"kind": "webhook", "url_from": "HOOK", "states": ["running", "failed"]},
        {"kind": "slack", "url_from": "HOOK"},
    ]
    spec = submit_world.spec(unique_name("notify"), "sleep 4; exit 3", notify=notify)
    done = submit_world.run("submit", spec, "--watch", HOOK=url)
    assert done.code == 90, done.err
    by_webhook = [one for one in got if "id" in one]
    assert [one["state"] for one in by_webhook] == ["RUNNING", "FAILED"]
    assert by_webhook[-1]["exit_code"] == 90
    (text,) = [one["text"] for one in got if "text" in one]
    application = by_webhook[0]["application"]
    assert f"({application}) FAILED" in text
    logs = submit_world.run("logs", application, "--am")
    assert "notification of FAILED by webhook at 127.0.0.1 sent" in logs.out
    assert SECRET not in logs.out + logs.err + done.out + done.err
