"""How DataNodes are reached. What they answer is tried on a real one, in the integration tests."""

from __future__ import annotations

import socket

import pytest

from hdfs_utils.errors import CorruptData, Unavailable
from hdfs_utils.protocols.datanode import of_blocks, of_replicas
from hdfs_utils.protocols.namenode import Block, DataNode, reaches_by_host_name


@pytest.mark.parametrize(("by_host_name", "reached"), [(True, "127.0.0.2"), (False, "127.0.0.3")])
def test_a_datanode_is_reached_by_its_name_where_the_site_says_so(
    by_host_name: bool, reached: str
) -> None:
    with socket.create_server((reached, 0)) as listener:
        listener.settimeout(5.0)
        node = DataNode("127.0.0.2", "127.0.0.3", listener.getsockname()[1], "/rack1")
        block = Block(0, 5, (node,), False, b"", b"")
        # The kernel accepts the connection; nobody answers on it.
        (found,) = of_replicas(node, [block], 0.1, by_host_name=by_host_name)
        listener.accept()[0].close()
    assert isinstance(found, Unavailable)


@pytest.mark.parametrize(("is_corrupt", "kind"), [(False, Unavailable), (True, CorruptData)])
def test_a_block_whose_datanodes_are_down_is_not_corrupt(
    is_corrupt: bool, kind: type[Exception]
) -> None:
    (found,) = of_blocks([Block(0, 5, (), is_corrupt, b"", b"")], 0.1)
    assert type(found) is kind


@pytest.mark.parametrize(
    ("value", "expected"), [("true", True), (" TRUE ", True), ("false", False), ("", False)]
)
def test_the_site_says_so_with_hadoops_own_property(value: str, expected: bool) -> None:
    assert reaches_by_host_name({"dfs.client.use.datanode.hostname": value}) is expected
    assert not reaches_by_host_name({})
