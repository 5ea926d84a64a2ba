"""What Lightning is told of the job. ``tests/integration/test_agent_lightning.py`` asks the real
one; here its abstract class is the one of Lightning 2.6, by the names of its methods."""

from __future__ import annotations

import abc
import os
import sys
from types import ModuleType

import pytest

from yarnam import train

ABSTRACT = (
    *("creates_processes_externally", "main_address", "main_port", "detect", "world_size"),
    *("set_world_size", "global_rank", "set_global_rank", "local_rank", "node_rank"),
)
FABRICS = ("lightning.fabric.plugins.environments", "lightning_fabric.plugins.environments")


def abstract_class() -> type:
    methods = {name: abc.abstractmethod(lambda self: None) for name in ABSTRACT}
    return abc.ABCMeta("ClusterEnvironment", (), methods)


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("YARNAM_"):
            monkeypatch.delenv(name)
    for name in FABRICS:
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]


def install(monkeypatch: pytest.MonkeyPatch, name: str) -> type:
    module = ModuleType(name)
    found = module.ClusterEnvironment = abstract_class()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, module)
    return found


def put_into_job(monkeypatch: pytest.MonkeyPatch, **changes: str) -> None:
    """The second process of the third of four tasks."""
    env = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    env |= {"GROUP_RANK": "2", "GROUP_WORLD_SIZE": "4", "MASTER_ADDR": "h", "MASTER_PORT": "7"}
    for name, value in {"YARNAM_WORLD_SIZE": "8", **env, **changes}.items():
        monkeypatch.setenv(name, value)


def test_outside_a_job_lightning_decides() -> None:
    assert train.lightning_options() == {}


def test_alone_in_a_job_too(monkeypatch: pytest.MonkeyPatch) -> None:
    put_into_job(monkeypatch, WORLD_SIZE="1", LOCAL_WORLD_SIZE="1", GROUP_WORLD_SIZE="1")
    assert train.lightning_options() == {}


@pytest.mark.parametrize("package", FABRICS)
def test_a_node_is_a_task_and_a_device_a_process(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    put_into_job(monkeypatch)
    kind = install(monkeypatch, package)
    options = train.lightning_options()
    (found,) = options.pop("plugins")
    assert options == {"num_nodes": 4, "devices": 2}
    assert isinstance(found, kind)
    assert (found.node_rank(), found.local_rank(), found.global_rank()) == (2, 1, 5)
    assert (found.world_size(), found.main_address, found.main_port) == (8, "h", 7)
    assert found.creates_processes_externally
    assert found.detect()
    found.set_world_size(3)
    found.set_global_rank(3)
    assert (found.world_size(), found.global_rank()) == (8, 5)


def test_a_program_with_both_packages_may_use_either(monkeypatch: pytest.MonkeyPatch) -> None:
    put_into_job(monkeypatch)
    kinds = [install(monkeypatch, name) for name in FABRICS]
    (found,) = train.lightning_options()["plugins"]
    assert all(isinstance(found, kind) for kind in kinds)


def test_tasks_of_different_sizes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three tasks with 1, 2 and 3 processes: two of them say so."""
    install(monkeypatch, FABRICS[0])
    refused = []
    for size in ("1", "2", "3"):
        changes = {"WORLD_SIZE": "6", "GROUP_WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": size}
        put_into_job(monkeypatch, **changes)
        try:
            train.lightning_options()
        except ValueError as error:
            refused.append(str(error))
    assert len(refused) == 2
    assert "this task has 1 processes, and the 3 tasks of the gang have 6" in refused[0]


@pytest.mark.parametrize(("devices", "nodes"), [(1, 8), (8, 1), (2, 3), (4, 2)])
def test_a_trainer_of_another_shape_is_refused(
    monkeypatch: pytest.MonkeyPatch, devices: int, nodes: int
) -> None:
    put_into_job(monkeypatch)
    install(monkeypatch, FABRICS[0])
    (found,) = train.lightning_options()["plugins"]
    found.validate_settings(2, 4)
    with pytest.raises(ValueError, match=f"devices={devices} and num_nodes={nodes}, the gang has"):
        found.validate_settings(devices, nodes)


def test_another_framework_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    put_into_job(monkeypatch)
    for name in ("RANK", "GROUP_WORLD_SIZE"):
        monkeypatch.delenv(name)
    with pytest.raises(RuntimeError, match="needs RANK, GROUP_WORLD_SIZE: set 'framework: pyt"):
        train.lightning_options()


def test_without_lightning_the_import_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    put_into_job(monkeypatch)
    with pytest.raises(ImportError, match="lightning"):
        train.lightning_options()
