"""JAX: ``jax.distributed.initialize()``, and the contract of Kubeflow's JAXJob."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarnam.core.frameworks.framework import Framework, RoleRules, Starter
from yarnam.core.frameworks.task_ports import joined

if TYPE_CHECKING:
    from yarnam.core.frameworks.gang_table import GangTable


def _environment(table: GangTable, number: int, local: int) -> dict[str, str]:
    host, port = table.coordinator
    rank = table.rank(number, local)
    env = {
        # The only one of these that jax.distributed.initialize() reads on its own.
        "JAX_COORDINATOR_ADDRESS": joined(host, port),
        "JAX_NUM_PROCESSES": str(table.world_size),
        "JAX_PROCESS_ID": str(rank),
        "COORDINATOR_ADDRESS": host,
        "COORDINATOR_PORT": str(port),
        "NUM_PROCESSES": str(table.world_size),
        "PROCESS_ID": str(rank),
    }
    if rank == 0:
        # Its default is all interfaces, where nodes that share a machine would meet.
        env["JAX_COORDINATOR_BIND_ADDRESS"] = joined(host, port)
    return env


FRAMEWORK = Framework(
    title="JAX",
    environment=_environment,
    variables=(
        *("COORDINATOR_ADDRESS", "COORDINATOR_PORT", "NUM_PROCESSES", "PROCESS_ID"),
        *("JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_BIND_ADDRESS"),
        *("JAX_NUM_PROCESSES", "JAX_PROCESS_ID"),
    ),
    grpc_ports=("coordinator",),
    roles=RoleRules(one=True),
    starter=Starter(
        comment="""\
# One process per GPU; jax.distributed.initialize() gets COORDINATOR_ADDRESS, COORDINATOR_PORT,
# NUM_PROCESSES and PROCESS_ID from the environment.
"""
    ),
)
