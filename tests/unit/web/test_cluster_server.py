"""Which page ``yarnam ui`` sends, to whom, and how often it asks the cluster."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.cluster_view import cluster
from tests.unit.agent.test_held_ports import as_nobody, needs_root
from tests.unit.queues.test_waiting import now
from tests.unit.web.job_values import APPLICATION, NOW_S, running
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_status import JobStatus
from yarnam.core.model.snapshot import ClusterSnapshot, NodeStrike
from yarnam.core.queues.overview.alerts import Alert, AlertKind, AlertState
from yarnam.core.queues.overview.cluster_overview import ClusterInfo
from yarnam.core.queues.queues_now import QueuesNow
from yarnam.errors import Unavailable, UsageError
from yarnam.web.cluster_pages import UseView
from yarnam.web.cluster_server import ClusterServer, ClusterSource
from yarnam.web.http.http_messages import Request, Response
from yarnam.web.http.http_server import HttpServer, listen
from yarnam.web.http.local_peers import is_loopback_name, is_own_peer
from yarnam.web.http.url_token import UrlToken, behind_token, new_secret
from yarnam.web.job_page import JobView
from yarnam.web.log_page import LogsView, LogText

HOST = "127.0.0.1:8265"
LIMIT_S = 30.0
"""Of a page, on a busy machine."""


def source(**given: Callable[..., Any]) -> ClusterSource:
    sources = {
        "active": lambda: [running()],
        "ended": tuple,
        "queues": now,
        "job": lambda application: JobView(running(name=application), NOW_S, home="/"),
        "logs": lambda application, chosen: LogsView(
            application, "train", True, chosen, "/", NOW_S, [LogText("worker-0, rank 0", "step 1")]
        ),
        "info": lambda: ClusterInfo("gpu-cluster-a", "ACTIVE"),
        "nodes": cluster,
        "strikes": tuple,
        "use": lambda: UseView(900.0, {}),
        **given,
    }
    return ClusterSource(**sources)


def server(**given: Callable[..., Any]) -> ClusterServer:
    return ClusterServer(source(**given), lambda: NOW_S, limit_s=LIMIT_S)


def get(of: ClusterServer, path: str, host: str = HOST, **query: str) -> tuple[int, str]:
    found: Response = of.respond(Request(path, query, host))
    return found.status, found.body.decode()


def test_each_path_has_its_page() -> None:
    pages = server()
    for path, title in (("/", "gpu-cluster-a - yarnam"), ("/queues", "Queues - yarnam"),
                        ("/nodes", "Nodes - yarnam"),
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
    assert "The statuses of jobs cannot be read: the RM does not &lt;answer&gt;" in body
    assert get(pages, f"/jobs/{APPLICATION}")[0] == 404


def test_a_part_that_does_not_answer_is_named_and_keeps_no_reader_waiting() -> None:
    """It is asked once, and shown as soon as it has answered."""
    answers, asked = threading.Event(), []

    def slow() -> QueuesNow:
        asked.append(1)
        assert answers.wait(60)
        return now()

    pages = ClusterServer(source(queues=slow), lambda: NOW_S, limit_s=0.05)
    try:
        for path in ("/", "/nodes"):
            status, body = get(pages, path)
            assert status == 200
            assert "Queues, nodes and jobs cannot be read: no answer yet" in body
        assert get(pages, "/queues")[0] == 502
        assert len(asked) == 1
    finally:
        answers.set()
    patient = ClusterServer(source(queues=slow), lambda: NOW_S, limit_s=LIMIT_S)
    assert "cannot be read" not in get(patient, "/")[1]


def test_an_answer_that_cannot_be_renewed_is_shown_with_its_age(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("yarnam.web.cluster_server.ACTIVE_FOR_S", 0.0)
    failing: list[int] = []

    def queues() -> QueuesNow:
        if failing:
            raise Unavailable("no answer from the ResourceManager")
        return now()

    pages = server(queues=queues)
    assert "as of" not in get(pages, "/queues")[1]
    failing.append(1)
    status, body = get(pages, "/queues")
    assert status == 200
    text = "Queues, nodes and jobs: as of 0s ago: no answer from the ResourceManager"
    assert text in body
    assert text in get(pages, "/")[1]
    assert text in get(pages, "/nodes")[1]


def test_nodes_are_shown_without_their_models_while_these_are_not_known() -> None:
    def away() -> ClusterSnapshot:
        raise Unavailable("the inventory does not answer")

    status, body = get(server(nodes=away), "/nodes")
    assert status == 200
    assert "The nodes cannot be read: the inventory does not answer" in body
    assert body.count('<th scope="row"') == len(now().nodes)

    def all_away() -> QueuesNow:
        raise Unavailable("nor does YARN")

    assert get(server(nodes=away, queues=all_away), "/nodes")[0] == 502


def test_what_zookeeper_does_not_tell_is_said_on_each_page() -> None:
    seen = replace(now(), troubles=("cordons are not known: ZooKeeper does not <answer>",))
    pages = server(queues=lambda: seen)
    for path in ("/", "/nodes", "/queues"):
        assert (
            "Missing: cordons are not known: ZooKeeper does not &lt;answer&gt;"
            in get(pages, path)[1]
        )


def test_alerts_are_shown_with_those_that_were_known_before() -> None:
    before = AlertState(
        (Alert(AlertKind.NODE_STRUCK, "n1", 10.0, "node n1 was struck 3 times"),),
        tuple(NodeStrike(NodeId("n1"), f"application_1_{k}", 10.0 + k) for k in range(3)),
    )
    pages = ClusterServer(source(), lambda: NOW_S, before, limit_s=LIMIT_S)
    assert "node n1 was struck 3 times" in get(pages, "/")[1]

    def away() -> tuple[NodeStrike, ...]:
        raise Unavailable("ZooKeeper does not answer")

    pages = ClusterServer(source(strikes=away), lambda: NOW_S, before, limit_s=LIMIT_S)
    assert "node n1 was struck 3 times" in get(pages, "/")[1]
    assert "Alerts" not in get(server(), "/")[1]


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
    table = tmp_path / "tcp"
    with (
        closing(listen("127.0.0.1")) as listener,
        socket.create_connection(listener.getsockname()) as mine,
        closing(listener.accept()[0]) as accepted,
    ):
        peer, own_end = accepted.getpeername(), accepted.getsockname()
        assert peer == mine.getsockname()
        assert is_own_peer(peer, own_end)
        assert not is_own_peer(own_end, own_end)
        assert not is_own_peer((peer[0], peer[1] % 65535 + 1), own_end)
        rows = Path("/proc/net/tcp").read_text().splitlines()
        table.write_text("\n".join(_as_user(line, 4242) for line in rows))
        assert not is_own_peer(peer, own_end, table)
    assert not is_own_peer(("::1", 1), ("::1", 2))
    assert not is_own_peer(("127.0.0.1", 1), ("127.0.0.1", 2), tmp_path / "missing")


PEER, OWN = ("127.0.0.1", 4000), ("127.0.0.1", 8265)


def table_row(
    local: tuple[str, int], remote: tuple[str, int], state: str, uid: int, inode: int
) -> str:
    ends = [f"0100007F:{port:04X}" for _, port in (local, remote)]
    counters = "00000000:00000000 00:00000000 00000000"
    return f"   0: {ends[0]} {ends[1]} {state} {counters} {uid} 0 {inode} 1"


def test_only_the_established_socket_of_the_connection_itself_says_whose_it_is(
    tmp_path: Path,
) -> None:
    """A socket in TIME_WAIT belongs to nobody, which the kernel shows as root."""
    table = tmp_path / "tcp"
    own = table_row(PEER, OWN, "01", os.getuid(), 7)
    others = table_row(PEER, OWN, "01", 65534, 8)
    elsewhere = table_row(PEER, ("127.0.0.1", 5000), "06", 0, 0)
    for rows, is_own in (
        ([own], True),
        ([own, own], True),  # the kernel may show a row twice
        ([elsewhere, own], True),
        ([elsewhere, others], False),
        ([elsewhere], False),
        ([table_row(PEER, OWN, "06", 0, 0)], False),
        ([table_row(PEER, OWN, "05", 0, 0)], False),
        ([others, own], False),
    ):
        table.write_text("\n".join(["  sl  local_address", *rows]))
        assert is_own_peer(PEER, OWN, table) is is_own, rows


def get_from_a_port_in_time_wait(at: tuple[str, int], path: str) -> bytes:
    """As a program does that wants to pass for root: its port has a second socket in TIME_WAIT."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        first = socket.socket()
        first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        first.bind(("127.0.0.1", 0))
        first.connect(other.getsockname())
        mine = first.getsockname()
        accepted, _ = other.accept()
        first.close()
        accepted.recv(1)
        accepted.close()
    with socket.socket() as second:
        second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        second.settimeout(10)
        second.bind(mine)
        second.connect(at)
        with suppress(BrokenPipeError, ConnectionResetError):
            second.sendall(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
        return second.recv(4096)


@needs_root
def test_another_user_is_refused_whatever_his_port_was_before() -> None:
    token = UrlToken("s3cret", 1)
    http = HttpServer(listen("127.0.0.1"), behind_token(server().respond, token), is_own_peer)
    http.start()
    at, entry = ("127.0.0.1", http.port), "/?token=s3cret"
    try:
        assert b" 303 " in get_from_a_port_in_time_wait(at, entry)
        code = as_nobody(lambda: int(b" 403 " in get_from_a_port_in_time_wait(at, entry)))
        assert code == 1
    finally:
        http.close()


def test_the_printed_address_lets_one_browser_in() -> None:
    token = UrlToken("s3cret", 8265)
    respond = behind_token(server().respond, token)
    assert respond(Request("/", {}, HOST)).status == 403
    assert respond(Request("/", {"token": "other"}, HOST)).status == 403
    entered = respond(Request("//evil.example/x y", {"token": "s3cret", "user": "a&b"}, HOST))
    assert (entered.status, entered.location) == (303, "/evil.example/x%20y?user=a%26b")
    cookie, *attributes = entered.cookie.split("; ")
    assert {"HttpOnly", "SameSite=Strict"} <= set(attributes)
    assert respond(Request("/", {}, HOST, f"other=1; {cookie}")).status == 200
    assert respond(Request("/", {}, HOST, cookie.replace("8265", "8266"))).status == 403
    assert "s3cret" not in repr((token, entered))
    assert len(new_secret()) >= 32


def _as_user(line: str, uid: int) -> str:
    fields = line.split()
    if len(fields) > 7 and fields[7].isdecimal():
        fields[7] = str(uid)
    return " ".join(fields)
