"""The driver of Horovod's elastic mode, by what Horovod's workers send and understand.

The bytes of ``SERVICE`` are what Horovod 0.28.1 puts to ``/worker_addresses``
(``horovod/runner/elastic/worker.py``, with its own key); what goes back is read as
``horovod/runner/common/util/network.py`` reads it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import io
import os
import pickle
import queue
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from yarnam.agent.programs import gloo_rendezvous
from yarnam.agent.programs.gloo_rendezvous import Membership, Scopes

SERVICE = (
    "gAWVQgAAAAAAAAB9lIwCbG+UXZSMCTEyNy4wLjAuMZRNu5yGlGFzQyAAAQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRob"
    "HB0eH5SGlC4="
)
"""``({"lo": [("127.0.0.1", 40123)]}, bytes(range(32)))``."""
KEY, PORT_IN_IT = bytes(range(32)), 40123
LIMIT_S = 30.0
GONE = "-1,-1,-1,-1,-1,-1"


@pytest.fixture
def serving() -> Iterator[gloo_rendezvous.RendezvousServer]:
    with gloo_rendezvous.server("127.0.0.1", 0, is_elastic=True) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


@pytest.fixture
def port(serving: gloo_rendezvous.RendezvousServer) -> int:
    return int(serving.server_address[1])


@pytest.fixture
def membership(serving: gloo_rendezvous.RendezvousServer) -> Membership:
    assert serving.membership is not None
    return serving.membership


def ask(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, str]:
    talk = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    talk.request(method, path, body)
    answer = talk.getresponse()
    with answer:
        return answer.status, answer.read().decode()


class Asking:
    """A process that has asked for its rank."""

    def __init__(self, port: int, slot: str) -> None:
        self._found: queue.Queue[tuple[int, str]] = queue.Queue()
        threading.Thread(
            target=lambda: self._found.put(ask(port, "GET", f"/rank_and_size/{slot}")), daemon=True
        ).start()

    def answer(self) -> str:
        status, text = self._found.get(timeout=LIMIT_S)
        assert status == 200
        return text

    def code(self) -> int:
        return self._found.get(timeout=LIMIT_S)[0]

    @property
    def is_waiting(self) -> bool:
        return self._found.empty()


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


class Here(Asking):
    """One of which the driver knows."""

    def __init__(self, port: int, membership: Membership, host: str) -> None:
        super().__init__(port, f"{host}:0")
        until(lambda: (host, 0) in membership._here or not self.is_waiting)


@pytest.fixture
def told() -> Iterator[tuple[int, queue.Queue[Any]]]:
    """The port of a process's own service, and what it is told."""
    found: queue.Queue[Any] = queue.Queue()
    with socket.create_server(("127.0.0.1", 0)) as service:

        def serve() -> None:
            while True:
                try:
                    talk, _ = service.accept()
                except OSError:
                    return
                with talk, talk.makefile("rb") as stream:
                    mac = stream.read(32)
                    (size,) = struct.unpack("i", stream.read(4))
                    message = stream.read(size)
                    assert hmac.compare_digest(hmac.new(KEY, message, hashlib.sha256).digest(), mac)
                    found.put(AsHorovod(io.BytesIO(message)).load())
                    talk.sendall(b"\0")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield service.getsockname()[1], found
        service.shutdown(socket.SHUT_RDWR)
        thread.join(10)


class HostsUpdatedRequest:
    """As Horovod's: its fields are set by the pickle."""

    timestamp: int
    res: int


class AsHorovod(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        assert (module, name) == ("horovod.runner.elastic.worker", "HostsUpdatedRequest")
        return HostsUpdatedRequest


def listens(port: int, service_port: int, host: str = "a") -> None:
    """The process has a service, and has said where."""
    plain = base64.b64decode(SERVICE).replace(
        struct.pack("<H", PORT_IN_IT), struct.pack("<H", service_port)
    )
    body = base64.b64encode(plain)
    assert ask(port, "PUT", f"/worker_addresses/{host}:0", body) == (200, "")


def test_ranks_come_when_all_have_asked_in_the_order_of_the_list(
    port: int, membership: Membership
) -> None:
    membership.take_list({"a": 2, "b": 1})
    asking = {slot: Asking(port, slot) for slot in ("b:0", "a:1")}
    until(lambda: len(membership._here) == 2)
    assert all(one.is_waiting for one in asking.values())
    assert Asking(port, "a:0").answer() == "0,3,0,2,0,2"
    assert asking["a:1"].answer() == "1,3,1,2,0,1"
    assert asking["b:0"].answer() == "2,3,0,1,1,2"


def test_who_asks_before_it_is_listed_waits_for_the_list(port: int, membership: Membership) -> None:
    early = Here(port, membership, "a")
    membership.take_list({"a": 1})
    assert early.answer() == "0,1,0,1,0,1"


def test_the_others_form_a_round_when_the_lost_one_is_off_the_list(
    port: int, membership: Membership
) -> None:
    membership.take_list({"a": 1, "b": 1, "c": 1})
    for one in [Asking(port, f"{host}:0") for host in "abc"]:
        one.answer()
    ask(port, "PUT", "/global/0", b"of the last round")
    left = [Here(port, membership, host) for host in "ac"]
    assert all(one.is_waiting for one in left)
    membership.take_list({"a": 1, "c": 1})
    assert [one.answer() for one in left] == ["0,2,0,1,0,2", "1,2,0,1,1,2"]
    assert ask(port, "GET", "/global/0")[0] == 404, "a round begins with an empty store"
    assert Asking(port, "b:0").answer() == GONE


def test_one_that_waits_as_it_is_dropped_is_sent_away(port: int, membership: Membership) -> None:
    membership.take_list({"a": 1, "b": 1})
    waiting = Here(port, membership, "b")
    membership.take_list({"a": 1})
    assert waiting.answer() == GONE


def test_rank_0_is_told_of_one_that_comes_and_all_form_a_round(
    port: int, membership: Membership, told: tuple[int, queue.Queue[Any]]
) -> None:
    membership.take_list({"a": 1})
    Asking(port, "a:0").answer()
    listens(port, told[0])
    membership.take_list({"a": 1, "b": 1})
    new = Here(port, membership, "b")
    first = told[1].get(timeout=LIMIT_S)
    assert (first.res, first.timestamp > 0) == (3, True)
    assert new.is_waiting, "the one that trains comes at its next commit"
    assert Asking(port, "a:0").answer() == "0,2,0,1,0,2"
    assert new.answer() == "1,2,0,1,1,2"
    membership.take_list({"a": 1})
    second = told[1].get(timeout=LIMIT_S)
    assert second.res == 3, "after a mere removal Horovod leaves the state as it is"
    assert second.timestamp > first.timestamp, "Horovod drops what is no newer"


def test_rank_0_is_told_again_since_it_forgets_while_it_forms_a_group(
    port: int,
    membership: Membership,
    told: tuple[int, queue.Queue[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gloo_rendezvous, "NOTIFY_AGAIN_S", 0.05)
    membership.take_list({"a": 1, "b": 1})
    one, _ = Asking(port, "a:0"), Asking(port, "b:0").answer()
    one.answer()
    membership.take_list({"a": 1, "b": 1, "c": 1})
    new = Here(port, membership, "c")
    listens(port, told[0])  # after it was told for the first time
    stamps = [told[1].get(timeout=LIMIT_S).timestamp for _ in range(3)]
    assert stamps == sorted(set(stamps))
    membership.take_list({"a": 1, "b": 1})
    assert new.answer() == GONE


def test_rank_0_is_told_again_of_one_that_has_to_go(
    port: int,
    membership: Membership,
    told: tuple[int, queue.Queue[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gloo_rendezvous, "NOTIFY_AGAIN_S", 0.0)
    membership.take_list({"a": 1, "b": 1})
    one, _ = Asking(port, "a:0"), Asking(port, "b:0").answer()
    one.answer()
    listens(port, told[0])
    membership.remind()
    membership.take_list({"a": 1})
    stamps = [told[1].get(timeout=LIMIT_S).timestamp]
    for _ in range(2):
        membership.remind()
        stamps.append(told[1].get(timeout=LIMIT_S).timestamp)
    assert stamps == sorted(set(stamps))
    assert Asking(port, "b:0").answer() == GONE
    assert Asking(port, "a:0").answer() == "0,1,0,1,0,1"
    membership.remind()
    assert told[1].empty()


def ask_all(membership: Membership, *slots: tuple[str, int]) -> None:
    asking = [threading.Thread(target=membership.rank_of, args=(slot,)) for slot in slots]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(LIMIT_S)


def test_each_round_is_written_down(tmp_path: Path) -> None:
    """For the agent: its number, and of how many hosts it is."""
    path = tmp_path / "group"
    membership = Membership(Scopes(), path)
    membership.take_list({"a": 2, "b": 1})
    assert not path.exists()
    ask_all(membership, ("a", 0), ("a", 1), ("b", 0))
    assert path.read_text() == "1 2\n"
    membership.take_list({"a": 2})
    ask_all(membership, ("a", 0), ("a", 1))
    assert path.read_text() == "2 1\n"


def test_one_that_is_not_there_yet_is_not_waited_for(port: int, membership: Membership) -> None:
    membership.take_list({"a": 1, "b": 1})
    for one in [Asking(port, f"{host}:0") for host in "ab"]:
        one.answer()
    membership.take_list({"a": 1, "b": 1, "c": 1})
    membership.take_list({"a": 1, "c": 1})
    assert Asking(port, "a:0").answer() == "0,1,0,1,0,1"


def test_a_round_that_does_not_come_is_given_up(
    port: int, membership: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gloo_rendezvous, "ROUND_S", 0.05)
    membership.take_list({"a": 1, "b": 1})
    assert ask(port, "GET", "/rank_and_size/a:0")[0] == 503


def test_a_process_waits_for_its_rank_once(port: int, membership: Membership) -> None:
    """Threads would wait for ten minutes each."""
    membership.take_list({"a": 1, "b": 1})
    first = Here(port, membership, "a")
    second = Asking(port, "a:0")
    assert first.code() == 503
    Here(port, membership, "b")
    assert second.answer() == "0,2,0,1,0,2"


def test_strangers_that_want_a_rank_are_few_at_a_time(
    port: int, membership: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gloo_rendezvous, "MAX_UNLISTED", 3)
    membership.take_list({"a": 1, "b": 1})
    mine = Here(port, membership, "a")
    strangers = [Here(port, membership, f"stranger-{number}") for number in range(6)]
    assert [stranger.code() for stranger in strangers[:3]] == [503] * 3
    Here(port, membership, "b")
    assert mine.answer() == "0,2,0,1,0,2"


class Harm:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch harmed",)


@pytest.mark.parametrize(
    "value",
    [
        b"no base64!",
        base64.b64encode(b"no pickle"),
        base64.b64encode(pickle.dumps(Harm())),
        base64.b64encode(pickle.dumps(({"lo": [("h", 1)]}, "no bytes"))),
        base64.b64encode(pickle.dumps(({"lo": [("h", 70000)]}, b"key"))),
        base64.b64encode(pickle.dumps(({"lo": [("h", 1)], "e": [("h", 2)]}, b"key"))),
        base64.b64encode(pickle.dumps(({}, b"key"))),
        base64.b64encode(bytes(gloo_rendezvous.MAX_SERVICE)),
    ],
)
def test_a_service_that_is_none_of_horovods_is_refused(
    port: int, membership: Membership, value: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    membership.take_list({"a": 1})
    assert ask(port, "PUT", "/worker_addresses/a:0", value)[0] == 400
    assert not membership._services
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("key", ["a", "a:", ":0", "a:x", "a:999999"])
def test_what_is_no_slot_is_refused(port: int, key: str) -> None:
    assert ask(port, "GET", f"/rank_and_size/{key}")[0] == 400
    assert ask(port, "PUT", f"/worker_addresses/{key}", SERVICE.encode())[0] == 400


def test_a_service_of_a_stranger_is_not_kept(membership: Membership, port: int) -> None:
    membership.take_list({"a": 1})
    assert ask(port, "PUT", "/worker_addresses/x:0", SERVICE.encode())[0] == 200
    assert not membership._services


def test_the_service_is_where_it_has_come_from() -> None:
    service = gloo_rendezvous.service_of(SERVICE.encode(), "10.0.0.7")
    assert service is not None
    assert (service._address, service._key) == (("10.0.0.7", PORT_IN_IT), KEY)


def test_the_store_of_other_gangs_knows_no_ranks() -> None:
    with gloo_rendezvous.server("127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        assert ask(int(server.server_address[1]), "GET", "/rank_and_size/a:0")[0] == 404
        server.shutdown()
        thread.join(10)


def test_ranks_of_hosts_of_unequal_sizes() -> None:
    membership = Membership(Scopes())
    membership.take_list({"a": 2, "b": 1, "c": 2})
    here = [("a", 0), ("a", 1), ("b", 0), ("c", 0), ("c", 1)]
    assert list(gloo_rendezvous.ranks_of(here).values()) == [
        "0,5,0,2,0,3", "1,5,1,2,0,2", "2,5,0,1,1,3", "3,5,0,2,2,3", "4,5,1,2,1,2",
    ]  # fmt: skip


def test_the_program_follows_the_agents_list(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    members = tmp_path / "members"
    words = [sys.executable, "-I", "-S", gloo_rendezvous.__file__, "127.0.0.1", str(port)]
    env = {**os.environ, "YARNAM_MEMBERS_FILE": str(members)}
    with subprocess.Popen([*words, "elastic"], env=env) as program:
        try:

            def listens_now() -> bool:
                try:
                    return ask(port, "GET", "/global/0")[0] == 404
                except OSError:
                    return False

            until(listens_now)
            asking = Asking(port, "a1.worker.0:0")
            members.write_text("a1.worker.0:1\n")
            assert asking.answer() == "0,1,0,1,0,1"
        finally:
            program.terminate()
