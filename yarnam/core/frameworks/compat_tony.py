"""TonY's variables beside the standard ones, for programs written for it (``compat: tony``).

As TonY 0.5 sets them (``Constants.java``, ``TaskExecutor.java``, ``PyTorchRuntime.java``).
``TF_CONFIG`` is the framework's own. ``AM_HOST`` and ``AM_PORT`` lead to TonY's own server, and are
not set.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from yarnam.core.frameworks.task_ports import TASK_PORT, joined, port_key
from yarnam.core.model.ids import CHIEF_ROLE

if TYPE_CHECKING:
    from yarnam.core.frameworks.gang_table import GangTable

VARIABLES = (
    *("JOB_NAME", "TASK_INDEX", "TASK_NUM", "IS_CHIEF", "CLUSTER_SPEC", "SESSION_ID", "JOB_ID"),
    *("DISTRIBUTED_MODE", "TB_PORT", "INIT_METHOD", "RANK", "WORLD"),
)
"""A job with ``compat: tony`` may not set them itself."""


SIDECAR = "tensorboard"
"""TonY's role for a TensorBoard beside the job."""

_TENSORBOARD = "tony_tensorboard"

PORTS = (TASK_PORT, _TENSORBOARD)
"""Ports of each process, besides those of the spec."""


def tony_variables(table: GangTable, number: int, local: int, world_size: int) -> dict[str, str]:
    """The variables of one process, identified by the gang, the number of its member, and its local
    rank in it. ``world_size`` counts the processes that train together."""
    task = table.members[number].task
    spec = table.once(_cluster_spec)
    leader = CHIEF_ROLE if CHIEF_ROLE in table.by_role else "worker"
    is_chief = (task.role, task.index, local) == (leader, 0, 0)
    host, port = table.coordinator
    env = {
        "JOB_NAME": task.role,
        "TASK_INDEX": str(table.role_rank(number, local)),
        "TASK_NUM": str(table.role_world_size(number)),
        "IS_CHIEF": "true" if is_chief else "false",
        "CLUSTER_SPEC": spec,
        "SESSION_ID": str(table.attempt - 1),
        "JOB_ID": table.application,
        "DISTRIBUTED_MODE": "GANG",
    }
    # Programs start a TensorBoard where they find the variable.
    has_sidecar = SIDECAR in table.job.services
    if task.role == SIDECAR if has_sidecar else is_chief:
        env["TB_PORT"] = str(table.port(number, port_key(_TENSORBOARD, local)))
    if table.job.framework == "pytorch":
        env["INIT_METHOD"] = f"tcp://{joined(host, port)}"
        env["RANK"] = str(table.rank(number, local))
        env["WORLD"] = str(world_size)
    return env


def _cluster_spec(table: GangTable) -> str:
    found = {role.name: table.addresses(TASK_PORT, role.name) for role in table.job.roles}
    return json.dumps({role: addresses for role, addresses in found.items() if addresses})
