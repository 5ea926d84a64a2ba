"""Redirects of WebHDFS: never from https to where anybody can listen."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from hdfs_utils.errors import NotSupported
from hdfs_utils.protocols import gssapi
from hdfs_utils.protocols.webhdfs_rest import (
    MAX_IDLE_REDIRECTED,
    MAX_IDLE_REDIRECTED_S,
    IdleConnections,
    WebHdfsClient,
)


class Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that has gone away."""


class Daemon(BaseHTTPRequestHandler):
    """Answers with its bytes, or with a redirect to where ``location`` says."""

    location = ""
    asked: list[str]
    authorized: list[str]

    def _answer(self) -> None:
        self.asked.append(self.path)
        self.authorized.append(self.headers.get("Authorization", ""))
        is_name_node = bool(self.location) and "datanode" not in self.path
        self.send_response(307 if is_name_node else 200)
        if is_name_node:
            self.send_header("Location", f"{self.location}/datanode?token=secret")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_GET = do_PUT = do_POST = _answer  # noqa: N815 - names of http.server

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Client(WebHdfsClient):
    """TLS is left out on the way: what is tested is where a request goes."""

    def connect(self, base: str) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(urlsplit(base).netloc, timeout=5)


@pytest.fixture
def daemon() -> Iterator[tuple[type[Daemon], str]]:
    class Own(Daemon):
        asked: list[str] = []  # noqa: RUF012 - of this one server
        authorized: list[str] = []  # noqa: RUF012

    with Server(("127.0.0.1", 0), Own) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Own, f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join(5)


@pytest.mark.parametrize("location", ["http://{at}", "//{at}", ""])
def test_a_redirect_never_leaves_tls(daemon: tuple[type[Daemon], str], location: str) -> None:
    seen, at = daemon
    seen.location = location.format(at=at) or "/"
    web = Client((f"https://{at}",), "me", 5.0)
    with pytest.raises(NotSupported, match="from https"):
        web.read("/a", 0)
    with pytest.raises(NotSupported, match="from https"):
        web.open_upload("PUT", "CREATE", "/a")
    assert len(seen.asked) == 2
    assert not any("datanode" in path for path in seen.asked)
    web.close()


@pytest.mark.parametrize(("first", "then"), [("https", "https"), ("http", "https"), ("http",) * 2])
def test_all_other_redirects_are_followed(
    daemon: tuple[type[Daemon], str], first: str, then: str
) -> None:
    seen, at = daemon
    seen.location = f"{then}://{at}"
    web = Client((f"{first}://{at}",), "me", 5.0)
    assert web.read("/a", 0) == b"ok"
    web.open_upload("PUT", "CREATE", "/a").close()
    assert "datanode" in seen.asked[1]
    web.close()


def test_with_kerberos_a_token_is_read_for_each_request(
    daemon: tuple[type[Daemon], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is replaced before the token ends; without one it is SPNEGO at the NameNode."""
    seen, at = daemon
    monkeypatch.setattr(gssapi, "negotiate_header", lambda host: f"Negotiate {host}")
    tokens = iter(("old", "new", "", ""))
    web = Client((f"http://{at}",), "me", 5.0, token=lambda: next(tokens))
    for _ in range(2):
        web.read("/a", 0)
    assert ["delegation=old" in seen.asked[0], "delegation=new" in seen.asked[1]] == [True, True]
    assert seen.authorized == ["", ""]
    web.read("/a", 0)
    seen.location = f"http://localhost:{at.rpartition(':')[2]}"
    web.read("/a", 0)
    host = at.partition(":")[0]
    assert seen.authorized[2:] == [f"Negotiate {host}", f"Negotiate {host}", ""]
    assert not any("user.name" in path for path in seen.asked)
    web.close()


class ManyDataNodes(WebHdfsClient):
    """All names lead to one server, which is each of them."""

    def __init__(self, at: str) -> None:
        super().__init__(("http://nn:9870",), "me", 5.0)
        self.at = at
        self.opened: list[tuple[str, http.client.HTTPConnection]] = []

    def connect(self, base: str) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(self.at, timeout=5)
        self.opened.append((base, connection))
        return connection

    def idle(self) -> list[str]:
        return [base for base, each in self.opened if each.sock is not None]


def test_connections_to_datanodes_do_not_grow_with_the_cluster(
    daemon: tuple[type[Daemon], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, at = daemon
    monkeypatch.setattr(seen, "protocol_version", "HTTP/1.1")  # keep-alive, as a DataNode
    web = ManyDataNodes(at)
    for number in range(4 * MAX_IDLE_REDIRECTED):
        seen.location = f"http://dn-{number}:9864"
        for _ in range(2):
            assert web.read("/a", 0) == b"ok"
    newest = [f"http://dn-{number}:9864" for number in range(4 * MAX_IDLE_REDIRECTED)]
    assert web.idle() == ["http://nn:9870", *newest[-MAX_IDLE_REDIRECTED:]]
    assert len(web.opened) == 1 + len(newest)  # the second read of each took the first one's
    web.close()
    assert web.idle() == []


def test_only_what_a_redirect_has_named_is_too_old_to_be_kept() -> None:
    now_s = [0.0]
    idle = IdleConnections({"http://nn:9870"}, lambda: now_s[0])
    origins = ["http://nn:9870", "http://dn-1:9864", "http://dn-2:9864"]
    connections = {origin: http.client.HTTPConnection("unused") for origin in origins}
    for origin in origins:
        idle.give(origin, connections[origin])
        now_s[0] += 0.75 * MAX_IDLE_REDIRECTED_S
    now_s[0] -= 0.25 * MAX_IDLE_REDIRECTED_S
    assert idle.take("http://dn-1:9864") is None
    assert idle.take("http://dn-2:9864") is connections["http://dn-2:9864"]
    assert idle.take("http://dn-2:9864") is None
    assert idle.take("http://nn:9870") is connections["http://nn:9870"]
