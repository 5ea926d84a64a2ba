"""Command lines and environments of the daemons."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from yarnam.cluster.cluster_plan import ClusterPlan
from yarnam.cluster.hadoop.daemon_commands import daemon_command, format_command, kind
from yarnam.cluster.shape import ClusterShape


@pytest.mark.parametrize(("daemon", "what"), [("nm12", "nm"), ("rm", "rm"), ("dn1", "dn")])
def test_a_number_is_no_part_of_the_kind(daemon: str, what: str) -> None:
    assert kind(daemon) == what


@pytest.mark.parametrize("daemon", ["nn", "dn1", "rm", "nm1", "zk", "relay"])
def test_every_daemon_carries_the_marker_and_little_else(plan: ClusterPlan, daemon: str) -> None:
    environ = {"PATH": "/bin", "HOME": "/home/ada", "AWS_SECRET": "x", "JAVA_TOOL_OPTIONS": "-Xint"}
    environment = daemon_command(plan, daemon, environ).environment
    assert environment["YARNAM_CLUSTER_ID"] == "test-123"
    assert environment["PATH"] == "/bin"
    assert "AWS_SECRET" not in environment
    assert "JAVA_TOOL_OPTIONS" not in environment


def test_only_node_managers_have_devices(make_plan: Callable[..., ClusterPlan]) -> None:
    plan = make_plan(ClusterShape(gpus_per_node=2, gpu_model="A100"))
    node = daemon_command(plan, "nm1", {}).environment
    assert node["YARNAM_NODE_GPUS"] == "sim:0,1"
    assert node["YARNAM_NODE_GPU_MODEL"] == "A100"
    assert "YARNAM_NODE_GPUS" not in daemon_command(plan, "rm", {}).environment


def test_containers_inherit_the_clients_configuration(plan: ClusterPlan) -> None:
    command = daemon_command(plan, "nm1", {})
    assert command.environment["HADOOP_CONF_DIR"] == str(plan.paths.conf)
    # The NodeManager itself reads its own first.
    first = command.environment["CLASSPATH"].split(":")[0]
    assert first == str(plan.paths.daemon_conf("nm1"))


def test_formatting_asks_nothing(plan: ClusterPlan) -> None:
    assert format_command(plan).argv[-2:] == ("-format", "-nonInteractive")


def test_the_relay_listens_once_per_datanode(make_plan: Callable[..., ClusterPlan]) -> None:
    plan = make_plan(ClusterShape(datanodes=2))
    argv = daemon_command(plan, "relay", {}).argv
    assert argv[-3:] == ("127.9.0.1:8020", "127.9.1.1:8020", "127.9.2.1:8020")
