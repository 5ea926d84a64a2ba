"""The Hadoop configuration that is written for a cluster."""

from __future__ import annotations

import os
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from yarnam.cluster.cluster_plan import ClusterPlan
from yarnam.cluster.hadoop.properties import properties_xml
from yarnam.cluster.hadoop.site_files import (
    client_files,
    container_path,
    core_site,
    daemon_files,
    datanode_site,
    hdfs_site,
    hosts_file,
    node_resources,
    nodemanager_site,
    topology_table,
    yarn_site,
    zookeeper_conf,
)
from yarnam.cluster.shape import ClusterShape, NodeOverride

MakePlan = Callable[..., ClusterPlan]


def parsed(xml: str) -> dict[str, str]:
    rows = {}
    for each in ET.fromstring(xml).iter("property"):
        rows[each.findtext("name") or ""] = each.findtext("value") or ""
    return rows


def every_property(plan: ClusterPlan) -> dict[str, str]:
    found = core_site(plan) | hdfs_site(plan) | yarn_site(plan)
    for name in plan.datanodes:
        found |= {f"{name} {key}": value for key, value in datanode_site(plan, name).items()}
    for node in plan.nodes:
        site = nodemanager_site(plan, node)
        found |= {f"{node.name} {key}": value for key, value in site.items()}
    return found


def test_properties_survive_xml() -> None:
    values = {"a": "<x> & 'y' \"z\"", "b": "", "c": "ü"}
    assert parsed(properties_xml(values)) == values


def test_every_server_listens_on_an_address_of_the_cluster_only(plan: ClusterPlan) -> None:
    ours = {plan.master, *(node.address for node in plan.nodes)}
    listening = re.compile(r"(address|hostname|bind-host)$")
    found = {key: value for key, value in every_property(plan).items() if listening.search(key)}
    assert len(found) > 40
    for key, value in found.items():
        if "ip-hostname-check" not in key:
            assert value.partition(":")[0] in ours, f"{key}={value}"
    assert f"clientPortAddress={plan.master}" in zookeeper_conf(plan)


def test_each_node_has_its_own_addresses_and_folders(plan: ClusterPlan) -> None:
    sites = [nodemanager_site(plan, node) for node in plan.nodes]
    for key in ("yarn.nodemanager.address", "yarn.nodemanager.local-dirs"):
        assert len({site[key] for site in sites}) == len(sites)


def test_gpus_are_registered_node_by_node(make_plan: MakePlan) -> None:
    shape = ClusterShape(node_overrides={"nm2": NodeOverride(gpus=3)})
    plan = make_plan(shape)
    counts = [
        node_resources(node)["yarn.nodemanager.resource-type.yarn.io/gpu"] for node in plan.nodes
    ]
    assert counts == ["8", "3", "8", "8"]
    assert "yarn.io/gpu" in client_files(plan, "")["resource-types.xml"]


def test_the_gpu_model_is_a_node_attribute(make_plan: MakePlan) -> None:
    plan = make_plan(ClusterShape(gpu_model="A100 80GB"))
    site = nodemanager_site(plan, plan.nodes[0])
    key = "yarn.nodemanager.node-attributes.provider.configured-node-attributes"
    # Words as YARN takes them in the value of an attribute.
    assert site[key] == "gpu-model,STRING,A100-80GB"


def test_the_resource_manager_keeps_its_state_in_zookeeper(plan: ClusterPlan) -> None:
    site = yarn_site(plan)
    assert site["yarn.resourcemanager.store.class"].endswith("ZKRMStateStore")
    assert site["hadoop.zk.address"] == "127.9.0.1:2181"


def test_without_zookeeper_it_keeps_its_state_in_files(make_plan: MakePlan) -> None:
    plan = make_plan(ClusterShape(zookeeper=False))
    site = yarn_site(plan)
    assert site["yarn.resourcemanager.store.class"].endswith("FileSystemRMStateStore")
    assert "hadoop.zk.address" not in site
    assert "zk" not in plan.daemons
    assert plan.zookeeper is None


def test_settings_of_the_user_win(make_plan: MakePlan) -> None:
    overrides = {
        "core-site": {"fs.trash.interval": "60"},
        "hdfs-site": {"dfs.replication": "1", "dfs.blocksize": "1048576"},
        "yarn-site": {"yarn.scheduler.fair.assignmultiple": "true"},
    }
    plan = make_plan(ClusterShape(overrides=overrides))
    files = client_files(plan, "")
    assert parsed(files["core-site.xml"])["fs.trash.interval"] == "60"
    assert parsed(files["hdfs-site.xml"])["dfs.blocksize"] == "1048576"
    node = daemon_files(plan, "nm1", "box", "")["yarn-site.xml"]
    assert parsed(node)["yarn.scheduler.fair.assignmultiple"] == "true"


def test_the_topology_knows_every_node(plan: ClusterPlan) -> None:
    assert topology_table(plan).splitlines() == [
        "127.9.1.1 /rack1",
        "127.9.1.2 /rack1",
        "127.9.2.1 /rack2",
        "127.9.2.2 /rack2",
    ]


def test_a_daemon_knows_the_machines_name_as_its_own_address(plan: ClusterPlan) -> None:
    rows = hosts_file(plan, "127.9.1.2", "box", "10.0.0.7 box other\n").splitlines()
    # Java takes the first row that matches: address to itself, name to the daemon's address.
    assert rows.index("127.9.1.2 127.9.1.2") < rows.index("127.9.1.2 box")
    assert rows.index("127.9.1.2 box") < rows.index("10.0.0.7 box other")


def test_containers_get_the_marker_and_the_devices(plan: ClusterPlan) -> None:
    site = nodemanager_site(plan, plan.nodes[0])
    assert site["yarn.nodemanager.admin-env.YARNAM_CLUSTER_ID"] == "test-123"
    passed = site["yarn.nodemanager.env-whitelist"].split(",")
    for name in ("JAVA_HOME", "HADOOP_CONF_DIR", "YARNAM_NODE_GPUS"):
        assert name in passed


def test_containers_run_the_python_that_brought_the_cluster_up(plan: ClusterPlan) -> None:
    path = nodemanager_site(plan, plan.nodes[0])["yarn.nodemanager.force.path"]
    assert path == container_path(os.environ)
    assert path.split(":")[0] == str(Path(sys.executable).parent)
    assert container_path({"PATH": "/a:/b"}).endswith(":/a:/b")


@pytest.mark.parametrize(
    ("daemon", "files"),
    [
        ("zk", {"zoo.cfg"}),
        ("dn1", {"hdfs-site.xml"}),
        ("nm1", {"yarn-site.xml", "node-resources.xml"}),
        ("rm", set()),
        ("nn", set()),
    ],
)
def test_a_daemon_gets_only_what_differs_from_the_client(
    plan: ClusterPlan, daemon: str, files: set[str]
) -> None:
    common = {"daemon-log4j.properties", "hosts"}
    assert set(daemon_files(plan, daemon, "box", "")) == common | files


def test_a_silent_node_expires_as_the_shape_says(make_plan: MakePlan) -> None:
    site = yarn_site(make_plan(ClusterShape(nm_expiry_s=7, heartbeat_ms=500)))
    assert site["yarn.nm.liveness-monitor.expiry-interval-ms"] == "7000"
    assert site["yarn.resourcemanager.nodemanagers.heartbeat-interval-ms"] == "500"
