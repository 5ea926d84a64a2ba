"""Where the AM sends datagrams: to single hosts that an agent named with sense. It never fails."""

from __future__ import annotations

import pytest

from yarnam.adapters.grpc.wake_sender import WakePoint, WakeSender, wake_point
from yarnam.wire.pb import yarnam_pb2 as pb

KEY = b"k" * 16


@pytest.mark.parametrize("address", ["10.1.2.3", "127.0.0.1", "fe80::1", "2001:db8::1"])
def test_an_address_with_a_port_and_a_key(address: str) -> None:
    found = wake_point(pb.WakePort(address=address, port=4000, key=KEY))
    assert found == WakePoint(address, 4000, KEY)


@pytest.mark.parametrize(
    ("address", "port", "key"),
    [
        ("", 4000, KEY), ("node-1", 4000, KEY), ("10.1.2.3:5", 4000, KEY), ("0.0.0.0", 4000, KEY),
        ("224.0.0.1", 4000, KEY), ("::", 4000, KEY), ("ff02::1", 4000, KEY), ("10.1.2.3", 0, KEY),
        ("10.1.2.3", 65536, KEY), ("10.1.2.3", 4000, b""), ("10.1.2.3", 4000, KEY + b"k"),
    ],
)  # fmt: skip
def test_nonsense_is_no_place_to_send_to(address: str, port: int, key: bytes) -> None:
    assert wake_point(pb.WakePort(address=address, port=port, key=key)) is None


@pytest.mark.parametrize("address", ["255.255.255.255", "fe80::1"])
def test_what_cannot_be_sent_is_left_to_the_agents_next_poll(address: str) -> None:
    sender = WakeSender()
    sender.send(WakePoint(address, 9, KEY), 2)
    sender.close()
