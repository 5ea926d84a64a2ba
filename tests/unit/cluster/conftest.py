"""Fixtures of the embedded cluster's unit tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.cluster.file_server import FileServer, make_server
from yarnam.cluster.cluster_paths import ClusterPaths
from yarnam.cluster.cluster_plan import ClusterPlan
from yarnam.cluster.daemons.loopback_addresses import MASTER_PORTS, NODE_PORTS
from yarnam.cluster.shape import ClusterShape, assign_nodes


@pytest.fixture
def file_server() -> Iterator[FileServer]:
    state = FileServer()
    server = make_server(state)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def make_plan(tmp_path: Path) -> Callable[..., ClusterPlan]:
    """A plan of any shape below ``tmp_path``, with a Java and jars that are not there."""

    def make(shape: ClusterShape | None = None, **changes: object) -> ClusterPlan:
        shape = shape or ClusterShape()
        plan = ClusterPlan(
            cluster_id="test-123",
            name="test",
            shape=shape,
            slot=9,
            ports={**MASTER_PORTS, **NODE_PORTS},
            nodes=assign_nodes(shape, 9, ()),
            paths=ClusterPaths(tmp_path / "clusters", "test"),
            user="ada",
            java_home=tmp_path / "java",
            jar_folder=tmp_path / "jars",
            hadoop_version="3.4.1",
        )
        return replace(plan, **changes)  # type: ignore[arg-type]

    return make


@pytest.fixture
def plan(make_plan: Callable[..., ClusterPlan]) -> ClusterPlan:
    return make_plan()
