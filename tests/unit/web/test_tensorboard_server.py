"""TensorBoard behind the door of ``yarnam ui``."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from yarnam.web.http.tensorboard_server import for_own_user


def board(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("200 OK", [])
    return [b"curves"]


def answer(host: str, peer: tuple[str, int]) -> tuple[str, bytes]:
    begun: list[str] = []
    environ = {"HTTP_HOST": host, "REMOTE_ADDR": peer[0], "REMOTE_PORT": peer[1]}
    body = for_own_user(board)(environ, lambda status, _: begun.append(status))
    return begun[0], b"".join(body)


@pytest.fixture
def peer() -> Any:
    """The end of a connection of this process's own."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        yield client.getsockname()


@pytest.mark.parametrize("host", ["127.0.0.1:6006", "localhost:6006"])
def test_an_own_program_is_answered(host: str, peer: tuple[str, int]) -> None:
    assert answer(host, peer) == ("200 OK", b"curves")


def test_who_is_no_process_of_this_user_is_refused(peer: tuple[str, int]) -> None:
    status, body = answer("127.0.0.1:6006", ("127.0.0.9", peer[1]))
    assert status == "403 Forbidden"
    assert b"curves" not in body


@pytest.mark.parametrize("host", ["evil.example", "evil.example:6006", ""])
def test_a_page_elsewhere_whose_name_leads_here_is_refused(
    host: str, peer: tuple[str, int]
) -> None:
    assert answer(host, peer)[0] == "403 Forbidden"
