"""The store of Horovod's rendezvous, by the requests that Horovod makes (gloo/http_store.cc)."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.unit.agent.doors import take_descriptors, until
from yarnam.agent.programs import gloo_rendezvous, strangers


@pytest.fixture
def port() -> Iterator[int]:
    with gloo_rendezvous.server("127.0.0.1", 0) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        yield server.server_address[1]
        server.shutdown()
        serving.join(10)


def ask(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    talk = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    talk.request(method, path, body)
    answer = talk.getresponse()
    with answer:
        return answer.status, answer.read()


def test_values_are_there_for_the_others(port: int) -> None:
    assert ask(port, "GET", "/global/0") == (404, b"")
    assert ask(port, "PUT", "/global/0", b"\0\xffhere") == (200, b"")
    assert ask(port, "GET", "/global/0") == (200, b"\0\xffhere")
    assert ask(port, "GET", "/local_worker-0/0") == (404, b"")


def test_a_scope_is_over_when_all_have_left_it(port: int) -> None:
    for rank in ("0", "1"):
        ask(port, "PUT", f"/global/{rank}", b"address")
    assert ask(port, "DELETE", "/global/0") == (200, b"")
    assert ask(port, "GET", "/global/0") == (200, b"address"), "rank 1 may not have read it yet"
    assert ask(port, "DELETE", "/global/1") == (200, b"")
    assert ask(port, "GET", "/global/0") == (404, b"")
    # The next hvd.init() of the same processes.
    ask(port, "PUT", "/global/0", b"new")
    assert ask(port, "GET", "/global/0") == (200, b"new")


def test_what_is_no_request_of_horovods_is_refused(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gloo_rendezvous, "MAX_VALUE", 100)
    monkeypatch.setattr(gloo_rendezvous, "MAX_BYTES", 150)
    monkeypatch.setattr(gloo_rendezvous, "ENTRY_BYTES", 0)
    for path in ("/global", "/a/b/c", "global/0"):
        assert ask(port, "GET", path)[0] == 400
        assert ask(port, "DELETE", path)[0] == 400
    assert ask(port, "PUT", "/global/0", bytes(101))[0] == 400
    assert ask(port, "PUT", "/global/0", bytes(100))[0] == 200
    assert ask(port, "PUT", "/global/1", bytes(100))[0] == 507
    assert ask(port, "PUT", "/global/0", bytes(90))[0] == 200, "in place of the 100 before"
    assert ask(port, "PUT", f"/global/{'k' * 100}", b"")[0] == 507, "keys take room too"
    for key in range(100):
        assert ask(port, "DELETE", f"/global/unknown-{key}")[0] == 200
    assert ask(port, "GET", "/global/0")[0] == 200


def test_strangers_keep_nobody_out(
    port: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Idle connections take descriptors and threads, and requests are still answered."""
    take_descriptors(monkeypatch)
    before = threading.active_count()
    with ExitStack() as stack:
        for _ in range(2 * gloo_rendezvous.MAX_CALLERS):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert ask(port, "PUT", "/global/0", b"value")[0] == 200
        until(lambda: threading.active_count() <= before + gloo_rendezvous.MAX_CALLERS)
        assert ask(port, "GET", "/global/0") == (200, b"value")
    assert len(capfd.readouterr().err.splitlines()) <= strangers.MAX_WARNINGS
