"""MXNet's parameter server (``dist_sync``): the variables of ps-lite. The project is retired."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarnam.core.frameworks.framework import Framework, RoleRules, Starter

if TYPE_CHECKING:
    from yarnam.core.frameworks.gang_table import GangTable

_PORT = "task"
_ROLES = ("scheduler", "server", "worker")


def _environment(table: GangTable, number: int, _local: int) -> dict[str, str]:
    if table.is_pre_run:
        return {}  # alone, without a parameter server
    task = table.members[number]
    host, _, port = table.addresses(_PORT, "scheduler")[0].rpartition(":")
    sizes = {name: len(table.addresses(_PORT, name)) for name in _ROLES}
    return {
        "DMLC_ROLE": task.task.role,
        "DMLC_PS_ROOT_URI": host.strip("[]"),
        "DMLC_PS_ROOT_PORT": port,
        "DMLC_NUM_SERVER": str(sizes["server"]),
        "DMLC_NUM_WORKER": str(sizes["worker"]),
        "DMLC_NODE_HOST": task.placed.address,
    }


FRAMEWORK = Framework(
    title="MXNet",
    environment=_environment,
    variables=(
        *("DMLC_ROLE", "DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_NUM_SERVER"),
        *("DMLC_NUM_WORKER", "DMLC_NODE_HOST"),
    ),
    ports=(_PORT,),
    one_process=True,
    roles=RoleRules(only=_ROLES, needs=_ROLES, single=("scheduler",)),
    starter=Starter(
        comment="""\
# One process per task; importing mxnet makes a scheduler or server of those roles' processes.
""",
        roles="""\
  scheduler: {tasks: 1, memory: 2GiB}
  server: {tasks: 1, memory: 4GiB}
  worker: {tasks: 2, gpus: 1}
""",
    ),
)
