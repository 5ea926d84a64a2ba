"""How the answers of daemons are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.cluster.file_server import FileServer, status
from yarnam.cluster.cluster_plan import ClusterPlan
from yarnam.cluster.daemons import daemon_probes
from yarnam.cluster.daemons.daemon_probes import NotReady


def row(address: str, **changes: Any) -> dict[str, Any]:
    gpu = {"resourceInformations": {"resourceInformation": [{"name": "yarn.io/gpu", "value": 8}]}}
    return {
        "nodeHostName": address,
        "state": "RUNNING",
        "rack": "/rack1",
        "numContainers": 2,
        "lastHealthUpdate": 100_000,
        "healthReport": "",
        "availableResource": {"memory": 64512, "vCores": 63, **gpu},
        "usedResource": {"memory": 1024, "vCores": 1, "resourceInformations": {}},
    } | changes


def answer(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"nodes": {"node": list(rows)}}


def test_nodes_are_read() -> None:
    (node,) = daemon_probes.parse_nodes(answer(row("127.9.1.1")))
    assert (node.gpus, node.gpus_used, node.containers) == (8, 0, 2)


@pytest.mark.parametrize("nothing", [{}, {"nodes": None}, {"nodes": {}}])
def test_no_nodes_are_no_error(nothing: dict[str, Any]) -> None:
    assert daemon_probes.parse_nodes(nothing) == []


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], "nm1 is not registered"),
        ([row("127.9.1.1", state="UNHEALTHY", healthReport="disk full")], "UNHEALTHY disk full"),
        ([row("127.9.1.1", state="LOST")], "nm1 is LOST"),
        ([row("127.9.1.1", lastHealthUpdate=99_000)], "not registered"),
        ([row("127.9.1.1", availableResource={})], "0 GPUs instead of 8"),
        ([row("127.9.1.1", rack="/default-rack")], "/default-rack instead of /rack1"),
    ],
)
def test_a_node_counts_only_as_planned_and_in_its_new_life(
    plan: ClusterPlan, rows: list[dict[str, Any]], says: str
) -> None:
    with pytest.raises(NotReady, match=says):
        daemon_probes.node_is_running(
            plan, "nm1", daemon_probes.parse_nodes(answer(*rows)), born=100.0
        )


def test_a_lost_life_beside_the_new_one_does_no_harm(plan: ClusterPlan) -> None:
    rows = answer(row("127.9.1.1", state="LOST"), row("127.9.1.1"))
    daemon_probes.node_is_running(plan, "nm1", daemon_probes.parse_nodes(rows), born=100.0)


@pytest.fixture
def served_plan(make_plan: Callable[..., ClusterPlan], file_server: FileServer) -> ClusterPlan:
    """A plan whose web addresses are the test's server."""

    class Served(ClusterPlan):
        @property
        def rm_urls(self) -> dict[str, str]:
            return {"rm": file_server.url}

        @property
        def namenode_web(self) -> str:
            return file_server.url

    plan = make_plan()
    return Served(**{name: getattr(plan, name) for name in ClusterPlan.__slots__})


INFO = "/ws/v1/cluster/info"


def test_a_resource_manager_is_ready_when_it_is_active(
    served_plan: ClusterPlan, file_server: FileServer
) -> None:
    file_server.files[INFO] = json.dumps({"clusterInfo": {"haState": "INITIALIZING"}}).encode()
    with pytest.raises(NotReady, match="INITIALIZING"):
        daemon_probes.rm_answers(served_plan, "rm")
    file_server.files[INFO] = json.dumps({"clusterInfo": {"haState": "ACTIVE"}}).encode()
    daemon_probes.rm_answers(served_plan, "rm")


def test_an_error_or_nonsense_is_not_ready(
    served_plan: ClusterPlan, file_server: FileServer
) -> None:
    file_server.files[INFO] = b"<html>starting</html>"
    with pytest.raises(NotReady):
        daemon_probes.rm_answers(served_plan, "rm")
    file_server.faults[INFO] = [status(503)]
    with pytest.raises(NotReady, match="503"):
        daemon_probes.rm_answers(served_plan, "rm")


def test_hdfs_in_safe_mode_is_not_writable(
    served_plan: ClusterPlan, file_server: FileServer
) -> None:
    base = "/jmx?qry=Hadoop%3Aservice%3DNameNode%2Cname%3D"
    figures = {"NumLiveDataNodes": 1, "CapacityTotal": 10, "CapacityUsed": 1}
    file_server.files[f"{base}FSNamesystemState"] = json.dumps({"beans": [figures]}).encode()
    safe = {"Safemode": "Safe mode is ON."}
    file_server.files[f"{base}NameNodeInfo"] = json.dumps({"beans": [safe]}).encode()
    with pytest.raises(NotReady, match="safe mode"):
        daemon_probes.hdfs_is_writable(served_plan)
    file_server.files[f"{base}NameNodeInfo"] = json.dumps({"beans": [{"Safemode": ""}]}).encode()
    daemon_probes.hdfs_is_writable(served_plan)
    file_server.files[f"{base}NameNodeInfo"] = b'{"beans": [{}]}'
    with pytest.raises(NotReady, match="does not report Safemode yet"):
        daemon_probes.hdfs_is_writable(served_plan)
