"""Which page ``yarnam ui`` sends, to whom, and how often it asks the cluster."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.unit.queues.test_waiting import now
from tests.unit.web.job_values import APPLICATION, NOW_S, running
from yarnam.core.model.job_status import JobStatus
from yarnam.errors import Unavailable, UsageError
from yarnam.web.cluster_server import ClusterServer, ClusterSource
from yarnam.web.http.http_messages import Request, Response
from yarnam.web.http.http_server import listen
from yarnam.web.http.local_peers import is_loopback_name, is_own_peer
from yarnam.web.job_page import JobView
from yarnam.web.log_page import LogsView, LogText

HOST = "127.0.0.1:8265"


def server(**given: Callable[..., Any]) -> ClusterServer:
    source = {
        "active": lambda: [running()],
        "ended": tuple,
        "queues": now,
        "job": lambda application: JobView(running(name=application), NOW_S, home="/"),
        "logs": lambda application, chosen: LogsView(
            application, "train", True, chosen, "/", NOW_S, [LogText("worker-0, rank 0", "step 1")]
        ),
        **given,
    }
    return ClusterServer(ClusterSource(**source), lambda: NOW_S)


def get(of: ClusterServer, path: str, host: str = HOST, **query: str) -> tuple[int, str]:
    found: Response = of.respond(Request(path, query, host))
    return found.status, found.body.decode()


def test_each_path_has_its_page() -> None:
    pages = server()
    for path, title in (("/", "Jobs - yarnam"), ("/queues", "Queues - yarnam"),
                        (f"/jobs/{APPLICATION}", f"RUNNING {APPLICATION} - yarnam"),
                        (f"/jobs/{APPLICATION}/logs", "Logs of train - yarnam")):  # fmt: skip
        status, body = get(pages, path)
        assert status == 200
        assert f"<title>{title}</title>" in body
    assert "No active jobs pass the filters" in get(pages, "/", user="nobody")[1]


def test_an_address_of_logs_that_makes_no_sense_is_not_there() -> None:
    path = f"/jobs/{APPLICATION}/logs"
    for query in ({"rank": "-1"}, {"rank": "9" * 20}, {"source": "shadow"}, {"task": "t" * 999}):
        assert get(server(), path, **query)[0] == 404


@pytest.mark.parametrize(
    "path",
    [
        "/x",
        "/jobs",
        "/jobs/last/logs",
        f"/jobs/{APPLICATION}/logs/x",
        "/jobs/last",
        "/jobs/application_1_1/../..",
        "/jobs/application_\u0661_1",
    ],
)
def test_other_paths_are_not_there(path: str) -> None:
    assert get(server(), path)[0] == 404


def test_an_error_is_a_page_with_what_to_do() -> None:
    def fail(*_: object) -> Any:
        raise Unavailable("the RM does not <answer>", hint="Start it.")

    def none(*_: object) -> Any:
        raise UsageError("no such job")

    pages = server(queues=fail, active=fail, job=none)
    status, body = get(pages, "/queues")
    assert status == 502
    assert "the RM does not &lt;answer&gt;" in body
    assert "Start it." in body
    status, body = get(pages, "/")
    assert status == 200
    assert "The active jobs cannot be read: the RM does not &lt;answer&gt;" in body
    assert get(pages, f"/jobs/{APPLICATION}")[0] == 404


def test_many_readers_cost_the_cluster_one_request() -> None:
    asked: list[int] = []

    def active() -> Sequence[JobStatus]:
        asked.append(1)
        return [running()]

    pages = server(active=active)
    readers = [threading.Thread(target=get, args=(pages, "/")) for _ in range(8)]
    for one in readers:
        one.start()
    for one in readers:
        one.join()
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("127.0.0.1:8265", True), ("localhost:8265", True), ("LOCALHOST", True),
        ("127.9.9.9", True), ("evil.example:8265", False), ("evil.example", False), ("", False),
        ("10.0.0.1:8265", False), ("127.0.0.1.evil.example:1", False), ("localhost.evil:1", False),
    ],
)  # fmt: skip
def test_a_page_elsewhere_cannot_read_ours_by_a_name_that_leads_here(
    host: str, is_ours: bool
) -> None:
    assert is_loopback_name(host) is is_ours
    assert get(server(), "/", host=host)[0] == (200 if is_ours else 403)


def test_the_kernel_knows_whose_a_connection_is(tmp_path: Path) -> None:
    with (
        closing(listen("127.0.0.1")) as listener,
        socket.create_connection(listener.getsockname()) as mine,
    ):
        address, port = mine.getsockname()
        assert is_own_peer(address, port)
        assert not is_own_peer(address, port + 1 if port < 65535 else 1)
        rows = Path("/proc/net/tcp").read_text().splitlines()
        (tmp_path / "tcp").write_text("\n".join(_as_user(line, 4242) for line in rows))
        assert not is_own_peer(address, port, tmp_path / "tcp")
    assert not is_own_peer("::1", 1)
    assert not is_own_peer("127.0.0.1", 1, tmp_path / "missing")


def _as_user(line: str, uid: int) -> str:
    fields = line.split()
    if len(fields) > 7 and fields[7].isdecimal():
        fields[7] = str(uid)
    return " ".join(fields)
