"""What daemons send packed is unpacked within limits; who asks is told to one server alone."""

from __future__ import annotations

import gzip
import io
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.fakes.dripping import Dripping
from yarnam.wire.http_request import HttpError, _Redirects, request


class Packing:
    """A daemon that packs all it sends."""

    def __init__(self) -> None:
        self.status, self.body = 200, b""
        daemon = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                daemon.accepted = self.headers["Accept-Encoding"]
                daemon.wanted = self.headers["Accept"]
                self.send_response(daemon.status)
                self.send_header("Content-Encoding", "gzip")
                self.send_header("Content-Length", str(len(daemon.body)))
                self.end_headers()
                self.wfile.write(daemon.body)

            def log_message(self, *_: object) -> None:
                pass

        self.accepted = self.wanted = ""
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()


@pytest.fixture
def daemon() -> Iterator[Packing]:
    made = Packing()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_a_packed_answer(daemon: Packing) -> None:
    daemon.body = gzip.compress(b'{"a": 1}')
    assert request(daemon.url, timeout_s=5.0).json() == {"a": 1}
    assert daemon.accepted == "gzip"
    # A NodeManager refuses its logs, which are text, to who wants nothing but JSON.
    assert daemon.wanted == "application/json, */*;q=0.5"


def test_an_answer_that_unpacks_to_too_much(daemon: Packing) -> None:
    daemon.body = gzip.compress(b"x" * 100_000)
    with pytest.raises(HttpError, match="unpacks to more than 1000 bytes"):
        request(daemon.url, timeout_s=5.0, max_bytes=1000)


def test_an_answer_that_is_not_packed_as_it_says(daemon: Packing) -> None:
    daemon.body = b'{"a": 1}'
    with pytest.raises(HttpError, match="cannot be unpacked"):
        request(daemon.url, timeout_s=5.0)


def test_the_text_of_a_packed_error(daemon: Packing) -> None:
    daemon.status, daemon.body = 500, gzip.compress(b'{"RemoteException": {"message": "away"}}')
    with pytest.raises(HttpError, match="HTTP 500: away"):
        request(daemon.url, timeout_s=5.0)
    daemon.body = b"\x1f\x8b torn"
    with pytest.raises(HttpError, match="HTTP 500"):
        request(daemon.url, timeout_s=5.0)


class Redirecting:
    """A daemon that sends all requests to one address, and notes who asked."""

    def __init__(self) -> None:
        self.location, self.asked = "", list[str]()
        daemon = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                daemon.asked.append(self.headers["Authorization"] or "")
                is_sent = daemon.location and daemon.location != daemon.url + self.path
                self.send_response(307 if is_sent else 200)
                if is_sent:
                    self.send_header("Location", daemon.location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()


@pytest.fixture
def pair() -> Iterator[tuple[Redirecting, Redirecting]]:
    made = Redirecting(), Redirecting()
    yield made
    for each in made:
        each.server.shutdown()
        each.server.server_close()


def test_who_asks_is_told_to_no_other_server(pair: tuple[Redirecting, Redirecting]) -> None:
    """A ResourceManager that stands by sends clients to the active one."""
    standby, active = pair
    standby.location = f"{active.url}/page"
    with pytest.raises(HttpError, match=f"HTTP 307: sent to {active.url}") as refused:
        request(f"{standby.url}/page", timeout_s=5.0, who={"Authorization": "Negotiate mine"})
    assert refused.value.location == standby.location
    assert (standby.asked, active.asked) == (["Negotiate mine"], [])


def test_the_same_server_may_send_it_on(pair: tuple[Redirecting, Redirecting]) -> None:
    server, other = pair
    server.location = f"{server.url}/there"
    request(f"{server.url}/here", timeout_s=5.0, who={"Authorization": "Negotiate mine"})
    assert server.asked == ["Negotiate mine"] * 2
    # Without anything to tell it goes anywhere.
    other.location = f"{server.url}/there"
    request(f"{other.url}/here", timeout_s=5.0)
    assert server.asked[2:] == [""]


@pytest.mark.parametrize("first", [b"", b"HTTP/1.0 200 OK\r\nX: ", b"HTTP/1.0 200 OK\r\n\r\n"])
def test_a_server_that_sends_byte_after_byte_is_left_at_the_deadline(first: bytes) -> None:
    with closing(Dripping(first)) as server, pytest.raises(HttpError, match=r"within 0\.3 s"):
        request(f"http://127.0.0.1:{server.port}/", timeout_s=10, limit_s=0.3)


def test_a_redirection_that_is_not_followed_is_an_error(
    pair: tuple[Redirecting, Redirecting],
) -> None:
    first, second = pair
    first.location = f"{second.url}/there"
    with pytest.raises(HttpError, match="HTTP 30") as caught:
        request(f"{first.url}/here", timeout_s=5, follows=False)
    assert caught.value.status == 307
    assert not second.asked


def test_no_redirection_leads_from_https_to_http() -> None:
    asked = urllib.request.Request("https://rm.example/page")
    for has_credentials in (True, False):
        redirects = _Redirects(has_credentials=has_credentials, follows=True)
        found = redirects.redirect_request(
            asked, io.BytesIO(), 302, "", HTTPMessage(), "http://rm.example/page"
        )
        assert found is None, "urllib raises the 302 itself"
