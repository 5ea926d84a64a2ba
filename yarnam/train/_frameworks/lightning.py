"""Lightning's view of the job: one of its nodes is a task, one of its devices a process of it."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Any

_MODULES = ("lightning.fabric.plugins.environments", "lightning_fabric.plugins.environments")
"""The modules of the packages ``lightning`` and ``pytorch-lightning``, which do not know each
other's classes: a program may have both."""

_NEEDED = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    *("GROUP_RANK", "GROUP_WORLD_SIZE"),
)


def lightning_options() -> dict[str, Any]:
    """``num_nodes``, ``devices`` and ``plugins`` for Lightning's ``Trainer`` or ``Fabric``::

        trainer = Trainer(strategy="ddp", **train.lightning_options())

    Empty in a process that is alone, so outside a job too: Lightning then decides as always. Raises
    RuntimeError where the framework is not ``pytorch`` or ``torchrun``, and ValueError where the
    tasks have different numbers of processes: Lightning counts on the same number everywhere.
    ImportError without Lightning.
    """
    if "YARNAM_WORLD_SIZE" not in os.environ:
        return {}
    missing = [name for name in _NEEDED if name not in os.environ]
    if missing:
        raise RuntimeError(
            f"Lightning needs {', '.join(missing)}: set 'framework: pytorch' in the job's spec"
        )
    if _number("WORLD_SIZE") <= 1:
        return {}
    environment = _environment_class()()
    environment.validate_settings(_number("LOCAL_WORLD_SIZE"), _tasks())
    return {
        "num_nodes": _tasks(),
        "devices": _number("LOCAL_WORLD_SIZE"),
        "plugins": [environment],
    }


class _Environment:
    """The methods of Lightning's ``ClusterEnvironment``. The agents start the processes."""

    creates_processes_externally = True

    @property
    def main_address(self) -> str:
        return os.environ["MASTER_ADDR"]

    @property
    def main_port(self) -> int:
        return _number("MASTER_PORT")

    @staticmethod
    def detect() -> bool:
        return "YARNAM_WORLD_SIZE" in os.environ and all(name in os.environ for name in _NEEDED)

    def world_size(self) -> int:
        return _number("WORLD_SIZE")

    def set_world_size(self, size: int) -> None:
        """Lightning's own reckoning, which has to agree."""

    def global_rank(self) -> int:
        return _number("RANK")

    def set_global_rank(self, rank: int) -> None:
        """As ``set_world_size``."""

    def local_rank(self) -> int:
        return _number("LOCAL_RANK")

    def node_rank(self) -> int:
        return _number("GROUP_RANK")

    def validate_settings(self, num_devices: int, num_nodes: int) -> None:
        """Raises ValueError. If tasks differ in size, at least one is not of the mean size, so that
        at least one process reports it."""
        mine, tasks = _number("LOCAL_WORLD_SIZE"), _tasks()
        if mine * tasks != self.world_size():
            raise ValueError(
                f"this task has {mine} processes, and the {tasks} tasks of the gang have"
                f" {self.world_size()}: Lightning needs the same number in each. Give every task of"
                " the spec the same number of GPUs."
            )
        if (num_devices, num_nodes) != (mine, tasks):
            raise ValueError(
                f"Lightning has devices={num_devices} and num_nodes={num_nodes}, the gang has"
                f" {tasks} tasks with {mine} processes each: pass on train.lightning_options()."
            )

    def teardown(self) -> None:
        """Nothing was changed."""


def _environment_class() -> Any:
    """The modules of every Lightning that the program has loaded: each looks for its own class."""
    bases = tuple(module.ClusterEnvironment for module in _loaded())
    return type("YarnamEnvironment", (_Environment, *bases), {})


def _loaded() -> list[ModuleType]:
    """Raises ImportError if there is none."""
    found = [module for name in _MODULES if (module := sys.modules.get(name)) is not None]
    if found:
        return found
    try:
        return [importlib.import_module(_MODULES[0])]
    except ImportError:
        return [importlib.import_module(_MODULES[1])]


def _tasks() -> int:
    """The number of tasks in the world: torch calls a task a group."""
    return _number("GROUP_WORLD_SIZE")


def _number(name: str) -> int:
    return int(os.environ[name])
