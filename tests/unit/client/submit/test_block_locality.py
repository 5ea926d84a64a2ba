"""Where the blocks of inputs lie, and the file of GPU models."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.files import MemoryFiles
from tests.unit.client.world import World, job_spec
from yarnam.client.gpu_rules import read_rules, rules_from
from yarnam.client.planning.outlook import outlook
from yarnam.client.submit.block_locality import MAX_LOCATED_FILES, input_bytes_by_node
from yarnam.core.model.gpu_names import GpuModelRules
from yarnam.core.model.job_spec import DataInput, PlacementSpec
from yarnam.errors import BadConfig


class PlacedFiles(MemoryFiles):
    """Every file lies on the hosts of its folder's name: ``/data/n3+n4/part``."""

    asked = 0

    def block_locations(self, path: str):  # type: ignore[no-untyped-def]
        from dataclasses import replace

        self.asked += 1
        hosts = tuple(path.split("/")[-2].split("+"))
        return tuple(replace(block, hosts=hosts) for block in super().block_locations(path))


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.client.site.files = PlacedFiles()  # type: ignore[misc]
    return made


def put(world: World, path: str, size: int) -> None:
    files = world.client.site.files
    files.mkdirs(path.rpartition("/")[0])
    files.write_bytes(path, b"x" * size)


def spec(*paths: str, **wish: object):  # type: ignore[no-untyped-def]
    inputs = tuple(DataInput(f"i{number}", path) for number, path in enumerate(paths))
    return job_spec(inputs=inputs, placement=PlacementSpec(**wish))  # type: ignore[arg-type]


def test_bytes_are_counted_by_node_and_rack(world: World) -> None:
    put(world, "/data/n3+n4/a", 300)
    put(world, "/data/n1.example.org/b", 100)
    site = world.client.site
    found = input_bytes_by_node(site, spec("/data"), site.snapshot("root.dl"))
    assert dict(found.nodes) == {"n3": 300, "n4": 300, "n1": 100}
    assert dict(found.racks) == {"/rack1": 100, "/rack2": 300}
    assert (found.total_bytes, found.is_sample) == (400, False)


def test_the_job_goes_where_its_input_lies(world: World) -> None:
    put(world, "/data/n4/a", 300)
    checked = world.client.plan(spec("/data/n4/a"))
    assert checked.data.total_bytes == 300
    found = outlook(checked, "nobody is asked")
    assert {task.node for task in found.tasks} == {"n4"}
    assert "100% of the input's bytes are on these nodes" in found.best.reason


def test_nothing_is_asked_without_the_wish_or_elsewhere(world: World) -> None:
    put(world, "/data/n4/a", 300)
    site = world.client.site
    snapshot = site.snapshot("root.dl")
    assert not input_bytes_by_node(site, spec("/data", near_data=False), snapshot)
    assert not input_bytes_by_node(site, spec("hdfs://elsewhere/data"), snapshot)
    assert not input_bytes_by_node(site, spec("/nowhere"), snapshot)
    assert site.files.asked == 0  # type: ignore[attr-defined]


def test_of_many_files_a_sample_is_asked_for(world: World) -> None:
    for number in range(MAX_LOCATED_FILES + 100):
        put(world, f"/data/n1/{number:04}", 1)
    site = world.client.site
    found = input_bytes_by_node(site, spec("/data"), site.snapshot("root.dl"))
    assert found.is_sample
    assert site.files.asked <= MAX_LOCATED_FILES  # type: ignore[attr-defined]


def test_a_file_of_gpu_models(tmp_path: Path) -> None:
    assert read_rules(tmp_path, {}) == GpuModelRules()
    (tmp_path / "gpu-models.yaml").write_text("nodes:\n  gpu-a*: A100\nlabels: {volta: V100}\n")
    expected = GpuModelRules(nodes=(("gpu-a*", "A100"),), labels=(("volta", "V100"),))
    assert read_rules(tmp_path, {}) == expected
    elsewhere = {"YARNAM_GPU_MODELS": str(tmp_path / "none.yaml")}
    with pytest.raises(BadConfig, match="which does not exist"):
        read_rules(tmp_path, elsewhere)


@pytest.mark.parametrize(
    "text", ["[]", "nodes: [a]", "nodes: {a: 1}", "nodes: {a: ''}", "other: {}", "a: b: c"]
)
def test_a_wrong_file_of_gpu_models(text: str) -> None:
    with pytest.raises(BadConfig, match=r"^f\.yaml"):
        rules_from(text, "f.yaml")
