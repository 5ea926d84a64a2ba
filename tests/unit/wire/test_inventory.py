"""The inventory of GPU models, whoever has written what lies there."""

from __future__ import annotations

import json
import logging
import tracemalloc
import zlib
from collections.abc import Callable

import pytest

from tests.fakes.files import MemoryFiles
from yarnam.adapters.gpu_inventory import FileInventoryStore, GpuInventory
from yarnam.core.model.gpu_names import Inventory
from yarnam.core.model.ids import NodeId
from yarnam.errors import WireMismatch
from yarnam.wire.shared.inventory import MAX_NODES, decode_inventory, encode_inventory

A100 = "NVIDIA A100-SXM4-80GB"


def packed(plain: object) -> bytes:
    return zlib.compress(json.dumps(plain).encode())


def test_there_and_back() -> None:
    models = {NodeId(f"gpu-{number:05d}.example.org"): A100 for number in range(10_000)}
    data = encode_inventory(Inventory(models))
    assert decode_inventory(data) == Inventory(models)
    assert len(data) < 100_000


@pytest.mark.parametrize(
    "data",
    [
        b"nothing packed",
        zlib.compress(b"[" * 3000),
        zlib.compress(b'{"nodes":{"A100":[1e400]}}'),
        packed([]),
        packed({}),
        packed({"nodes": []}),
        packed({"nodes": {"A100": "gpu-1"}}),
        packed({"nodes": {"A100": [5]}}),
        packed({"nodes": {"A100": ["x" * 300]}}),
        packed({"nodes": {"A100": [f"{n}" for n in range(MAX_NODES + 1)]}}),
        packed({"nodes": {"A": [f"a{n}" for n in range(30_000)], "B": ["b" * 9] * 9,
                          "C": [f"c{n}" for n in range(30_000)]}}),
    ],
)  # fmt: skip
def test_what_is_no_inventory(data: bytes) -> None:
    with pytest.raises(WireMismatch):
        decode_inventory(data)


def test_a_bomb_in_a_node_of_zookeepers_takes_no_memory() -> None:
    """A megabyte became a gigabyte, in every ApplicationMaster and every submit."""
    bomb = zlib.compress(b'{"nodes":{"A100":["' + b"a" * (200 << 20) + b'"]}}')
    tracemalloc.start()
    try:
        with pytest.raises(WireMismatch):
            decode_inventory(bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20


class _Record:
    path = "ZooKeeper's gpu-models"

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self) -> bytes:
        return self.data

    def write(self, change: Callable[[bytes], bytes]) -> None:
        self.data = change(self.data)


def test_one_that_cannot_be_read_is_reported_and_learnt_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    record = _Record(zlib.compress(b"[" * 3000))
    inventory = GpuInventory(record)
    assert not inventory.known().models
    [message] = caplog.messages
    assert message.startswith("ZooKeeper's gpu-models is taken for empty")
    assert "yarnam docs zookeeper" in message
    inventory.learn(NodeId("gpu-1"), A100)
    assert decode_inventory(record.data).models == {"gpu-1": A100}


def test_a_file_that_is_too_long_is_replaced() -> None:
    files = MemoryFiles()
    files.write_bytes("/user/ada/.yarnam/gpu-models", bytes(2 << 20))
    store = FileInventoryStore(files, "/user/ada/.yarnam")
    inventory = GpuInventory(store)
    assert not inventory.known().models
    inventory.learn(NodeId("gpu-1"), A100)
    assert GpuInventory(store).known().models == {"gpu-1": A100}
