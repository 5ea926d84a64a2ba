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
from hdfs_utils.protocols.webhdfs_rest import WebHdfsClient


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
