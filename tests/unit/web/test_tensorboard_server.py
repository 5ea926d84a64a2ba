"""TensorBoard behind the door of ``yarnam ui``."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from yarnam.web.http import tensorboard_server
from yarnam.web.http.tensorboard_server import for_own_user
from yarnam.web.http.url_token import UrlToken


def board(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("200 OK", [])
    return [b"curves"]


TOKEN = UrlToken("s3cret", 6006)
COOKIE = "_xsrf=2|1; yarnam-6006=s3cret"
HERE = "127.0.0.1:6006"


def answer(
    host: str, peer: socket.socket | None, cookie: str = COOKIE, query: str = ""
) -> tuple[str, bytes, dict[str, str]]:
    begun: list[tuple[str, list[tuple[str, str]]]] = []
    environ = {"HTTP_HOST": host, "werkzeug.socket": peer, "QUERY_STRING": query}
    environ |= {"HTTP_COOKIE": cookie, "PATH_INFO": "/"}
    if peer is None:
        del environ["werkzeug.socket"]
    body = for_own_user(board, TOKEN)(environ, lambda *words: begun.append(words))
    return begun[0][0], b"".join(body), dict(begun[0][1])


@pytest.fixture
def peer() -> Any:
    """The server's end of a connection of this process's own."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        accepted, _ = server.accept()
        with accepted:
            yield accepted
            client.fileno()


@pytest.mark.parametrize("host", [HERE, "localhost:6006"])
def test_an_own_program_is_answered(host: str, peer: socket.socket) -> None:
    assert answer(host, peer)[:2] == ("200 OK", b"curves")


def test_a_program_of_another_user_is_refused(
    peer: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorboard_server, "is_own_peer", lambda peer, own_end: False)
    for query in ("", "token=s3cret"):
        status, body, _ = answer(HERE, peer, query=query)
        assert status == "403 Forbidden"
        assert b"curves" not in body
    assert answer(HERE, None)[0] == "403 Forbidden", "another server than Werkzeug's"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:6006", ""])
def test_a_page_elsewhere_whose_name_leads_here_is_refused(host: str, peer: socket.socket) -> None:
    assert answer(host, peer)[0] == "403 Forbidden"


def test_the_printed_address_gives_a_browser_its_cookie(peer: socket.socket) -> None:
    status, _, headers = answer(HERE, peer, "", "token=s3cret")
    assert (status, headers["Location"]) == ("303 See Other", "/")
    assert answer(HERE, peer, headers["Set-Cookie"].partition(";")[0])[0] == "200 OK"
    for cookie, query in (("", ""), ("yarnam-6007=s3cret", ""), ("yarnam-6006=", "token=no")):
        assert answer(HERE, peer, cookie, query)[0] == "403 Forbidden"
