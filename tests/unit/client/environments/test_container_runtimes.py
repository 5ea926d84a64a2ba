"""An image is refused, with the site's facts, where NodeManagers have no runtime for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.client.world import World, job_spec
from yarnam.client.environments.container_runtimes import EXECUTOR, RUNTIMES
from yarnam.core.model.job_spec import ContainerImage, ContainerRuntime, EnvironmentSpec
from yarnam.errors import BadSpec, Unavailable

LINUX = "org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor"
DEFAULT = "org.apache.hadoop.yarn.server.nodemanager.DefaultContainerExecutor"
JOB = job_spec(environment=EnvironmentSpec(image=ContainerImage(ContainerRuntime.DOCKER, "x")))


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.rm.nodes = tuple(replace(node, http_address="n:8042") for node in world.rm.nodes)
    return world


def site_has(world: World, settings: Mapping[str, str]) -> None:
    world.site.node_settings = lambda _address, _scheme: settings


def test_where_the_runtime_is_the_job_is_submitted(world: World) -> None:
    site_has(world, {EXECUTOR: LINUX, RUNTIMES: "default, docker"})
    world.client.submit(JOB)
    [spec] = world.launcher.submitted
    assert all(s.env["YARN_CONTAINER_RUNTIME_TYPE"] == "docker" for s in spec.services.values())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({EXECUTOR: DEFAULT, RUNTIMES: "docker"}, "only LinuxContainerExecutor has runtimes"),
        ({EXECUTOR: LINUX, RUNTIMES: "default,runc"}, f"{RUNTIMES} is default,runc"),
        ({EXECUTOR: LINUX}, f"{RUNTIMES} is default"),
        ({}, f"{EXECUTOR} is not set"),
    ],
)
def test_where_it_is_not_the_reason_is_the_site_s(
    world: World, settings: Mapping[str, str], said: str
) -> None:
    site_has(world, settings)
    with pytest.raises(BadSpec, match=said):
        world.client.submit(JOB)
    assert world.launcher.submitted == []


def test_where_no_node_answers_nothing_is_submitted(world: World) -> None:
    def refused(address: str, _: str) -> Mapping[str, str]:
        raise Unavailable(f"cannot read {address}")

    world.site.node_settings = refused
    with pytest.raises(Unavailable, match="no NodeManager shows its configuration"):
        world.client.submit(JOB)
