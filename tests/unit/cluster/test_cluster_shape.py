"""What shapes are accepted, and how they are laid out."""

from __future__ import annotations

from pathlib import Path

import pytest

from yarnam.cluster.shape import (
    ClusterShape,
    NodeOverride,
    PhysicalGpu,
    assign_nodes,
    datanode_hosts,
    read_shape,
    shape_from_mapping,
)
from yarnam.cluster.software.physical_gpus import parse_physical_gpus
from yarnam.errors import BadConfig

TWO_GPUS = (PhysicalGpu(0, "NVIDIA H200"), PhysicalGpu(1, "NVIDIA H200"))


def test_the_default_is_four_nodes_on_two_racks_with_eight_gpus_each() -> None:
    nodes = assign_nodes(ClusterShape(), slot=7, found=())
    assert [(node.name, node.address, node.rack) for node in nodes] == [
        ("nm1", "127.7.1.1", "/rack1"),
        ("nm2", "127.7.1.2", "/rack1"),
        ("nm3", "127.7.2.1", "/rack2"),
        ("nm4", "127.7.2.2", "/rack2"),
    ]
    assert {node.device_list for node in nodes} == {"sim:0,1,2,3,4,5,6,7"}


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ({"nodes": 0}, "nodes is 0"),
        ({"nodes": 257}, "nodes is 257"),
        ({"nodes": True}, "nodes is True"),
        ({"nodes": "four"}, "'four', not a whole number"),
        ({"nodes": 2, "racks": 3}, "leave a rack empty"),
        ({"racks": 0}, "racks is 0"),
        ({"nodes": 256, "racks": 1}, "no addresses"),
        ({"gpus_per_node": -1}, "gpus_per_node is -1"),
        ({"gpus": "some"}, "gpus is 'some'"),
        ({"gpu_model": "A100,B200"}, "gpu_model"),
        ({"gpu_model": ""}, "gpu_model"),
        ({"datanodes": 5}, "datanodes is 5"),
        ({"replication": 2}, "replication is 2"),
        ({"memory_mib": 10}, "memory_mib is 10"),
        ({"vcores": 0}, "vcores is 0"),
        ({"heartbeat_ms": 60000}, "cannot keep a node alive"),
        ({"node_overrides": {"nm9": {}}}, "names 'nm9'"),
        ({"node_overrides": {"nm1": {"gpus": -1}}}, "nm1.gpus is -1"),
        ({"node_overrides": {"nm1": {"gpu": 1}}}, "unknown key 'node_overrides.nm1.gpu'"),
        ({"node_overrides": {"nm1": 3}}, "node_overrides.nm1 must be a mapping"),
        ({"node_overrides": 3}, "node_overrides must map"),
        ({"overrides": {"mapred-site": {}}}, "names 'mapred-site'"),
        ({"overrides": {"yarn-site": 3}}, "overrides.yarn-site must map"),
        ({"nodes_": 3}, "unknown key 'nodes_'"),
    ],
)
def test_an_impossible_shape_is_refused_with_its_reason(
    shape: dict[str, object], says: str
) -> None:
    with pytest.raises(BadConfig) as refusal:
        shape_from_mapping(shape)
    assert says in refusal.value.message


def test_an_unknown_key_comes_with_a_suggestion() -> None:
    with pytest.raises(BadConfig) as refusal:
        shape_from_mapping({"gpu_per_node": 4})
    assert refusal.value.hint == "Did you mean 'gpus_per_node'?"


def test_a_file_is_read_and_names_its_neighbours_relative_to_itself(tmp_path: Path) -> None:
    file = tmp_path / "shape.yaml"
    file.write_text(
        "nodes: 3\nracks: 1\nqueues: queues.xml\nnode_overrides: {nm2: {gpus: 2}}\n"
        "overrides: {yarn-site: {yarn.scheduler.fair.assignmultiple: true}}\n"
    )
    shape = read_shape(file)
    assert shape.nodes == 3
    assert shape.queues == str(tmp_path / "queues.xml")
    assert shape.node_overrides["nm2"].gpus == 2
    assert shape.overrides["yarn-site"] == {"yarn.scheduler.fair.assignmultiple": "true"}


@pytest.mark.parametrize(
    ("content", "says"),
    [("nodes: [", "not valid YAML"), ("- 1", "mapping, not a list"), ("nodes: 0", "nodes is 0")],
)
def test_a_bad_file_is_named_in_the_error(tmp_path: Path, content: str, says: str) -> None:
    file = tmp_path / "shape.yaml"
    file.write_text(content)
    with pytest.raises(BadConfig) as refusal:
        read_shape(file)
    assert refusal.value.message.startswith(str(file))
    assert says in refusal.value.message


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="No such file"):
        read_shape(tmp_path / "none.yaml")


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    file = tmp_path / "shape.yaml"
    file.write_text("")
    assert read_shape(file) == ClusterShape()


def test_a_shape_survives_being_written_down() -> None:
    shape = ClusterShape(
        nodes=3,
        racks=2,
        gpu_model="A100",
        node_overrides={"nm1": NodeOverride(gpus=4, gpu_model="V100")},
        overrides={"hdfs-site": {"dfs.blocksize": "1048576"}},
    )
    assert shape_from_mapping(shape.to_json()) == shape


def test_uneven_nodes_fill_the_first_racks() -> None:
    nodes = assign_nodes(ClusterShape(nodes=5, racks=3), 1, ())
    assert [node.rack for node in nodes] == ["/rack1"] * 2 + ["/rack2"] * 2 + ["/rack3"]
    assert len({node.address for node in nodes}) == 5


def test_a_node_can_differ_from_the_others() -> None:
    override = NodeOverride(gpus=2, gpu_model="V100", memory_mib=2048, vcores=4)
    shape = ClusterShape(gpu_model="A100", node_overrides={"nm2": override})
    first, second, *_ = assign_nodes(shape, 1, ())
    assert (first.gpus, first.gpu_model, first.memory_mib) == (8, "A100", 65536)
    assert (second.gpus, second.gpu_model, second.memory_mib, second.vcores) == (2, "V100", 2048, 4)


def test_a_node_without_gpus_announces_no_model() -> None:
    (node,) = assign_nodes(ClusterShape(nodes=1, racks=1, gpus_per_node=0, gpu_model="A100"), 1, ())
    assert (node.device_list, node.gpu_model) == ("", None)


def test_real_gpus_are_divided_over_the_nodes() -> None:
    nodes = assign_nodes(ClusterShape(nodes=3, racks=1), 1, TWO_GPUS)
    assert [node.device_list for node in nodes] == ["0", "1", ""]
    assert [node.gpu_model for node in nodes] == ["NVIDIA H200", "NVIDIA H200", None]
    assert not any(node.simulated for node in nodes)


def test_a_number_that_was_asked_for_is_simulated_unless_real_ones_are_demanded() -> None:
    (node,) = assign_nodes(ClusterShape(nodes=1, racks=1, gpus_per_node=2), 1, TWO_GPUS)
    assert node.device_list == "sim:0,1"
    real = ClusterShape(nodes=1, racks=1, gpus="real", gpus_per_node=2)
    assert assign_nodes(real, 1, TWO_GPUS)[0].device_list == "0,1"


def test_more_real_gpus_than_there_are_is_an_error() -> None:
    shape = ClusterShape(nodes=3, racks=1, gpus="real", gpus_per_node=1)
    with pytest.raises(BadConfig, match="ask for 3 real GPUs, this machine has 2"):
        assign_nodes(shape, 1, TWO_GPUS)


def test_real_gpus_where_there_are_none_is_an_error() -> None:
    with pytest.raises(BadConfig, match="nvidia-smi finds none"):
        assign_nodes(ClusterShape(gpus="real"), 1, ())


def test_simulated_means_simulated_where_there_are_real_ones() -> None:
    nodes = assign_nodes(ClusterShape(gpus="simulated"), 1, TWO_GPUS)
    assert {node.gpus for node in nodes} == {8}
    assert all(node.simulated for node in nodes)


def test_what_nvidia_smi_says_is_understood() -> None:
    assert parse_physical_gpus("0, NVIDIA H200\n1, Tesla V100-SXM2-32GB\n") == (
        PhysicalGpu(0, "NVIDIA H200"),
        PhysicalGpu(1, "Tesla V100-SXM2-32GB"),
    )


def test_what_a_broken_driver_says_is_no_device() -> None:
    assert parse_physical_gpus("NVIDIA-SMI has failed because it couldn't communicate\n") == ()


def test_datanodes_go_to_different_racks_first() -> None:
    nodes = assign_nodes(ClusterShape(), 1, ())
    assert [node.name for node in datanode_hosts(nodes, 3)] == ["nm1", "nm3", "nm2"]
