"""The shared cluster itself: real, whole, and idle when nobody uses it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.conftest import leftovers

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs]


def test_it_has_the_shape_that_tests_count_on(cluster: EmbeddedCluster) -> None:
    nodes = cluster.status().nodes
    assert [node.gpus for node in nodes] == [8, 8, 8, 8]
    assert len({node.rack for node in nodes}) == 2
    assert {node.state for node in nodes} == {"RUNNING"}


def test_hadoops_own_tools_work_against_it(cluster_env: dict[str, str]) -> None:
    done = subprocess.run(
        ["hdfs", "dfs", "-ls", "/"],
        env=cluster_env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "/user" in done.stdout


def test_a_stray_process_is_noticed(cluster: EmbeddedCluster) -> None:
    """The check at the end of all tests can fail."""
    stray = subprocess.Popen(
        ["sleep", "60"], env={"YARNAM_CLUSTER_ID": cluster.plan.cluster_id, "PATH": "/usr/bin:/bin"}
    )
    try:
        assert any(f"process {stray.pid}:" in line for line in leftovers(cluster))
    finally:
        stray.kill()
        stray.wait()
    assert not any(f"process {stray.pid}:" in line for line in leftovers(cluster))
