"""The job's server over HTTP on loopback: what it answers, to whom, and how that is described."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection

import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.web.job_values import APPLICATION, NOW_S, everything, running, with_every_text
from yarnam.cli.rendering.event_text import event_text
from yarnam.core.model.events import CancelRequested, Event, JobStarted
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_status import JobStatus
from yarnam.core.model.metrics import AgentMetrics, Measured
from yarnam.web.http import http_requests
from yarnam.web.http.http_messages import Address, Request
from yarnam.web.http.http_requests import LIMIT_S
from yarnam.web.http.http_server import WORKERS, HttpServer, listen
from yarnam.web.job_server import (
    EVENTS_SHOWN,
    NOT_PUBLISHED,
    JobServer,
    JobSource,
    ProxyOnly,
    open_job_server,
)
from yarnam.web.page_access import PageAccess
from yarnam.wire.codec import encode, encode_event, from_plain

LOOPBACK = ProxyOnly([])
HOSTILE = 'a"b\\c\nd{}<script>'


class Am:
    """What an ApplicationMaster would have published."""

    def __init__(self) -> None:
        self.status = NOT_PUBLISHED
        self.events: list[bytes] = []
        self.measured: list[AgentMetrics] = []
        self.read = 0
        self.oldest = 0

    def show(self, status: JobStatus) -> None:
        self.status = encode(status)

    def add(self, *events: Event) -> None:
        self.events += [encode_event(event) for event in events]

    def events_json(self, first: int, count: int) -> tuple[int, Sequence[bytes]]:
        first = max(first, self.oldest)
        found = self.events[first : first + count]
        self.read += len(found)
        return first, found

    @property
    def source(self) -> JobSource:
        return JobSource(
            status_json=lambda: self.status,
            events_json=self.events_json,
            event_count=lambda: len(self.events),
            metrics=lambda: self.measured,
            event_text=event_text,
        )


@pytest.fixture
def am() -> Am:
    return Am()


@contextmanager
def served(
    am: Am, is_allowed: Callable[[Address, Address], bool] = LOOPBACK
) -> Iterator[HttpServer]:
    server = JobServer(am.source, lambda: NOW_S)
    http = HttpServer(listen("127.0.0.1"), server.respond, is_allowed, tick_s=0.05)
    http.start()
    yield http
    http.close()


def ask(http: HttpServer, path: str, method: str = "GET") -> tuple[int, dict[str, str], str]:
    connection = http_connection(http)
    connection.request(method, path)
    reply = connection.getresponse()
    found = reply.status, dict(reply.getheaders()), reply.read().decode()
    connection.close()
    return found


def http_connection(http: HttpServer) -> HTTPConnection:
    return HTTPConnection("127.0.0.1", http.port, timeout=10)


def test_the_page_the_api_and_the_metrics_come_from_what_was_published(am: Am) -> None:
    am.show(running())
    am.add(JobStarted(NOW_S), CancelRequested(NOW_S, "ada", "<b>enough</b>"))
    with served(am) as http:
        code, headers, page = ask(http, "/?x=1")
        assert code == 200
        assert "cancelled by ada: &lt;b&gt;enough" in page
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        job = json.loads(ask(http, "/api/v1/job")[2])
        assert from_plain(job, JobStatus) == running()
        events = json.loads(ask(http, "/api/v1/events?from=1")[2])
        assert (events["first"], events["next"]) == (1, 2)
        assert [one["by"] for one in events["events"]] == ["ada"]
        am.show(running(name="renamed"))
        assert "renamed" in ask(http, "/")[2]


def test_before_the_first_status_it_says_so(am: Am) -> None:
    with served(am) as http:
        assert ask(http, "/")[0] == ask(http, "/api/v1/job")[0] == 503


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/../etc/passwd", 404), ("/api/v1/", 404), ("/api/v1/nothing", 404),
        ("//evil.example/", 404),
        ("/api/v1/events?from=-1", 400), ("/api/v1/events?from=" + "9" * 99, 400),
        ("/api/v1/events?from=%D9%A3", 400), ("/?" + "&".join(f"a{n}=1" for n in range(99)), 400),
        ("/%ff%fe", 404),
    ],
)  # fmt: skip
def test_what_is_not_there_is_refused(am: Am, path: str, code: int) -> None:
    am.show(running())
    with served(am) as http:
        found, headers, _ = ask(http, path)
        assert found == code
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert ask(http, "/")[0] == 200


def test_it_is_only_read(am: Am) -> None:
    am.show(running())
    with served(am) as http:
        assert ask(http, "/", "POST")[0] == 501
        code, headers, body = ask(http, "/", "HEAD")
        assert (code, body) == (200, "")
        assert int(headers["Content-Length"]) > 1000


def test_others_than_the_proxy_are_sent_to_it(am: Am) -> None:
    am.show(running())
    with served(am, lambda peer, own_end: False) as http:
        code, _, body = ask(http, "/")
    assert code == 403
    assert "tracking URL" in body
    assert "train" not in body


@pytest.mark.parametrize("path", ["/", "/metrics", "/api/v1/job", "/api/v1/events", "/nothing"])
def test_where_yarn_checks_who_may_see_the_job_every_path_does(am: Am, path: str) -> None:
    am.show(running())
    server = JobServer(
        am.source, access=PageAccess("ada", (" ", "admin"), lambda _: (), is_checked=True)
    )
    for user in ("ada", "admin"):
        assert server.respond(Request(path, cookie=f"proxy-user={user}")).status != 403
    for cookie in ("", "proxy-user=eve"):
        refused = server.respond(Request(path, cookie=cookie))
        assert refused.status == 403
        assert b"train" not in refused.body
    assert server.is_access_checked
    assert not JobServer(am.source).is_access_checked


def test_programs_of_the_node_are_not_the_proxy_where_it_says_who_asks() -> None:
    here = ("127.0.0.1", 1)
    assert ProxyOnly([])(here, here)
    proxy = ProxyOnly(["rm"], lambda _: ["10.0.0.1"], is_strict=True)
    proxy.refresh()
    assert not proxy(here, here)
    assert proxy(("10.0.0.1", 1), here)
    beside = ProxyOnly(["rm"], lambda _: ["127.0.0.2"], is_strict=True)
    beside.refresh()
    assert beside(here, here), "the proxy runs on this machine"


def test_the_proxys_hosts_are_looked_up_again_after_a_while() -> None:
    known, now_s, asked = {"rm1": ["10.0.0.1"], "rm2": []}, 0.0, []

    def resolve(host: str) -> Sequence[str]:
        asked.append(host)
        return known[host]

    proxy = ProxyOnly(["rm1", "rm2", "rm1"], resolve, lambda: now_s)

    def is_allowed(address: str) -> bool:
        return proxy((address, 1), ("10.0.0.7", 80))

    assert is_allowed("127.0.1.5")
    assert is_allowed("::1")
    assert not is_allowed("10.0.0.1")
    assert not asked, "a judgement does not wait for names"
    proxy.refresh()
    assert is_allowed("10.0.0.1")
    assert is_allowed("::ffff:10.0.0.1")
    now_s = 61.0
    proxy.refresh()
    assert asked == ["rm1", "rm2"], "nobody has been refused"
    assert not is_allowed("10.0.0.2")
    known["rm2"] = ["10.0.0.2"]
    proxy.refresh()
    assert is_allowed("10.0.0.2")
    assert not is_allowed("10.0.0.3")
    proxy.refresh()
    assert asked == ["rm1", "rm2"] * 2


def test_strangers_who_keep_silent_cost_nobody_an_answer(am: Am) -> None:
    """They are as many as the threads, and would be allowed to stay for ten seconds each."""
    am.show(running())
    strangers: set[Address] = set()
    with served(am, lambda peer, own_end: peer not in strangers) as http:
        connections = []
        for _ in range(WORKERS):
            one = socket.socket()
            one.bind(("127.0.0.1", 0))
            strangers.add(one.getsockname())
            one.connect(("127.0.0.1", http.port))
            connections.append(one)
        began = time.monotonic()
        assert ask(http, "/")[0] == 200
        assert time.monotonic() - began < LIMIT_S / 2
        for one in connections:
            one.settimeout(10)
            assert b" 403 " in one.recv(4096)
            one.close()


def test_a_request_has_one_deadline_however_slowly_it_comes(
    am: Am, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_requests, "LIMIT_S", 0.5)
    am.show(running())
    with served(am) as http, socket.create_connection(("127.0.0.1", http.port)) as slow:
        began = time.monotonic()
        slow.settimeout(0.1)
        while time.monotonic() - began < 5:
            try:
                slow.sendall(b"x")
                if slow.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        assert time.monotonic() - began < 3


def test_a_request_may_come_in_pieces(am: Am) -> None:
    am.show(running())
    with served(am) as http, socket.create_connection(("127.0.0.1", http.port)) as slow:
        slow.settimeout(10)
        for piece in (b"GET /metrics HT", b"TP/1.1\r\nHost: x\r", b"\n\r", b"\n"):
            slow.sendall(piece)
            time.sleep(0.02)
        assert slow.recv(100).startswith(b"HTTP/1.0 200 OK")


def test_a_head_without_end_is_refused(am: Am) -> None:
    am.show(running())
    with served(am) as http, socket.create_connection(("127.0.0.1", http.port)) as slow:
        slow.settimeout(10)
        slow.sendall(b"GET / HTTP/1.1\r\n" + b"x: " + b"y" * http_requests.MAX_HEAD_BYTES)
        with suppress(ConnectionResetError):
            assert slow.recv(100) == b""


def test_a_slow_or_silent_peer_does_not_keep_others_waiting(am: Am) -> None:
    am.show(running())
    with served(am) as http:
        silent = [http_connection(http) for _ in range(3)]
        for one in silent:
            one.connect()
        assert ask(http, "/")[0] == 200
        for one in silent:
            one.close()


def test_the_document_describes_every_answer(am: Am) -> None:
    am.show(everything())
    am.add(JobStarted(NOW_S))
    am.measured = [AgentMetrics(AskId(1, "worker", 0), 0, NOW_S, 5, 10, (("loss", Measured(1.5)),))]
    server = JobServer(am.source, lambda: NOW_S)
    server.sample()
    http = HttpServer(listen("127.0.0.1"), server.respond, ProxyOnly([]))
    http.start()
    document = json.loads(ask(http, "/api/v1/openapi.json")[2])
    assert document["openapi"].startswith("3.1")
    assert set(document["paths"]) == {"/job", "/events", "/series", "/openapi.json"}
    for path, methods in document["paths"].items():
        content = methods["get"]["responses"]["200"]["content"]["application/json"]
        schema = {**content["schema"], "components": document["components"]}
        body = json.loads(ask(http, f"/api/v1{path}")[2])
        jsonschema.Draft202012Validator(schema).validate(body)
        assert set(body) <= properties(schema) or path == "/openapi.json"
    broken = {**json.loads(ask(http, "/api/v1/job")[2]), "state": "SOMEWHERE"}
    schema = {"$ref": "#/components/schemas/JobStatus", "components": document["components"]}
    assert not jsonschema.Draft202012Validator(schema).is_valid(broken)
    http.close()


def properties(schema: dict[str, object]) -> set[str]:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    found = schema["components"]["schemas"][name] if name else schema  # type: ignore[index]
    return set(found.get("properties", ()))


def test_prometheus_reads_the_metrics(am: Am) -> None:
    am.show(with_every_text(everything(), HOSTILE))
    am.measured = []
    with served(am) as http:
        code, headers, text = ask(http, "/metrics")
    assert code == 200
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    found = {one.name: one.samples for one in text_string_to_metric_families(text)}
    assert found["yarnam_job_step"][0].value == 420
    states = {one.labels["state"]: one.value for one in found["yarnam_job_state"]}
    assert states["RUNNING"] == 1.0
    assert sum(states.values()) == 1.0
    assert found["yarnam_job_held_gpus"][0].value == 8
    uses = {one.labels["use"]: one.value for one in found["yarnam_job_time_seconds"]}
    assert uses["training-kept"] == 900.0
    assert found["yarnam_job_info"][0].labels["name"] == 'a"b\\c\\nd{}<script>'


def test_an_event_is_read_once_however_often_the_page_is(am: Am) -> None:
    am.show(running())
    am.add(*(JobStarted(NOW_S + number) for number in range(EVENTS_SHOWN + 40)))
    server = JobServer(am.source, lambda: NOW_S)
    assert len(server.view().events) == EVENTS_SHOWN
    am.add(CancelRequested(NOW_S + 500, "ada", ""))
    newest = server.view().events
    assert newest[0] == (NOW_S + 500, "cancelled by ada")
    assert len(newest) == EVENTS_SHOWN
    assert am.read == EVENTS_SHOWN + 1


def test_the_api_says_where_the_kept_events_begin(am: Am) -> None:
    am.show(running())
    am.add(*(JobStarted(NOW_S + number) for number in range(5)))
    am.oldest = 3
    with served(am) as http:
        events = json.loads(ask(http, "/api/v1/events?from=1")[2])
    assert (events["first"], events["next"], len(events["events"])) == (3, 5, 2)
    assert [at_s for at_s, _ in JobServer(am.source).view().events] == [NOW_S + 4, NOW_S + 3]


def test_the_page_is_announced_once_and_the_agents_are_sampled(am: Am) -> None:
    announced: list[int] = []
    am.show(running())
    am.measured = [AgentMetrics(AskId(1, "worker", 0), 0, NOW_S, 5, 10, ())]
    server = JobServer(am.source)
    http = open_job_server(server, listen("127.0.0.1"), [], announced.append)
    assert ask(http, "/")[0] == ask(http, "/")[0] == 200
    deadline = time.monotonic() + 10
    while not (announced and json.loads(ask(http, "/api/v1/series")[2])["series"]):
        assert time.monotonic() < deadline
    assert announced == [http.port]
    assert APPLICATION in ask(http, "/metrics")[2]
    http.close()
