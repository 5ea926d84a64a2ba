"""What a node keeps, beside the largest environment of a user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.client.world import World
from yarnam.client.doctor.finding import Health
from yarnam.client.doctor.node_cache_check import SETTING, check_node_cache
from yarnam.errors import Unavailable

DIGEST = "0" * 20


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.rm.nodes = tuple(replace(node, http_address="n:8042") for node in world.rm.nodes)
    folder = world.site.paths.environments
    sizes = {"layer-1a": 3 << 20, "key1.1a": 1 << 20, "key2": 2 << 20}
    for name, size in sizes.items():
        world.files.write_bytes(f"{folder}/{name}-{DIGEST}.tar.gz", b"x" * size)
    return world


def found(world: World, settings: Mapping[str, str]) -> tuple[Health, str]:
    world.site.node_settings = lambda _address, _scheme: settings
    finding = check_node_cache(world.site, world.site.rm.snapshot("root"))
    return finding.health, finding.message


def test_an_environment_counts_with_its_layers(world: World) -> None:
    health, message = found(world, {SETTING: "7"})
    assert health is Health.WARN
    assert "takes some 7 MiB unpacked, and a node keeps 7 MiB" in message
    assert found(world, {SETTING: "8"}) == (
        Health.OK,
        "8 MiB; your largest environment takes some 7",
    )


def test_a_site_that_sets_nothing_has_yarn_s_default(world: World) -> None:
    assert found(world, {})[1].startswith("10240 MiB")


def test_what_is_not_known_is_no_warning(world: World) -> None:
    def silent(_address: str, _scheme: str) -> Mapping[str, str]:
        raise Unavailable("no answer")

    world.site.node_settings = silent
    finding = check_node_cache(world.site, world.site.rm.snapshot("root"))
    assert (finding.health, finding.message.partition(":")[0]) == (Health.OK, "not known")
    assert found(world, {SETTING: "many"})[0] is Health.WARN
