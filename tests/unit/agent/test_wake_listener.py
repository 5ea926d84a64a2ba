"""What an agent of a large gang hears of the AM: new directives, and nothing that others made."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from yarnam.agent.mailbox import wake_listener
from yarnam.agent.mailbox.wake_listener import WakeListener
from yarnam.wire.protocol import wake_datagram

pytestmark = pytest.mark.grpc


async def with_listener(act: Callable[[WakeListener, Callable[[bytes], None]], Any]) -> None:
    listener = WakeListener()
    listener.open("127.0.0.1")
    port = listener.port
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:

        def send(datagram: bytes) -> None:
            sender.sendto(datagram, (port.address, port.port))

        try:
            await act(listener, send)
        finally:
            listener.close()


def test_a_newer_directive_wakes_at_once() -> None:
    async def act(listener: WakeListener, send: Callable[[bytes], None]) -> None:
        asyncio.get_running_loop().call_later(
            0.05, send, wake_datagram(listener.port.key, number=3)
        )
        began = time.monotonic()
        await listener.wait(2, 20.0)
        assert time.monotonic() - began < 10.0
        assert listener.is_heard
        await listener.wait(2, 20.0)  # still newer than what was seen: no waiting

    asyncio.run(with_listener(act))


@pytest.mark.parametrize("kind", ["seen", "another key", "changed", "short", "long", "empty"])
def test_nothing_else_does(kind: str) -> None:
    async def act(listener: WakeListener, send: Callable[[bytes], None]) -> None:
        good = wake_datagram(listener.port.key, 9)
        send({
            "seen": wake_datagram(listener.port.key, 2),
            "another key": wake_datagram(bytes(16), 9),
            "changed": (10).to_bytes(8, "big") + good[8:],
            "short": good[:-1],
            "long": good + b"x",
            "empty": b"",
        }[kind])  # fmt: skip
        began = time.monotonic()
        await listener.wait(2, 0.2)
        assert time.monotonic() - began >= 0.19
        assert listener.is_heard == (kind == "seen")

    asyncio.run(with_listener(act))


def test_a_flood_lets_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake_listener, "MOST_AT_ONCE", 3)

    async def act(listener: WakeListener, send: Callable[[bytes], None]) -> None:
        for _ in range(5):
            send(b"x")
        send(wake_datagram(listener.port.key, 1))
        listener._receive()
        assert not listener.is_heard
        listener._receive()
        assert listener.is_heard

    asyncio.run(with_listener(act))


def test_a_directive_that_came_without_a_datagram_shows_that_none_arrive() -> None:
    async def act(listener: WakeListener, send: Callable[[bytes], None]) -> None:
        send(wake_datagram(listener.port.key, 4))
        await listener.wait(3, 20.0)
        listener.has_come(4)
        assert listener.is_heard
        listener.has_come(5)
        assert not listener.is_heard
        send(wake_datagram(listener.port.key, 5))
        await listener.wait(4, 20.0)
        assert listener.is_heard, "it was only late"

    asyncio.run(with_listener(act))


def test_a_datagram_that_is_not_read_yet_counts() -> None:
    async def act(listener: WakeListener, send: Callable[[bytes], None]) -> None:
        send(wake_datagram(listener.port.key, 4))
        await listener.wait(3, 20.0)
        send(wake_datagram(listener.port.key, 5))
        listener.has_come(5)
        assert listener.is_heard

    asyncio.run(with_listener(act))


def test_an_address_of_another_node_means_to_do_without() -> None:
    async def act() -> None:
        listener = WakeListener()
        listener.open("192.0.2.1")
        assert listener.port is None
        listener.close()

    asyncio.run(act())
