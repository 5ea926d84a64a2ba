"""TensorFlow: ``TF_CONFIG``, which ``tf.distribute`` reads.

Its servers are gRPC too, but turn SO_REUSEPORT off (GRPC_ARG_ALLOW_REUSEPORT in TensorFlow's
grpc_server_lib.cc)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from yarnam.core.frameworks.framework import Framework, RoleRules, Starter

if TYPE_CHECKING:
    from yarnam.core.frameworks.gang_table import GangTable

_PORT = "task"
_NOT_IN_CLUSTER = frozenset({"evaluator"})
"""Roles that are not members of the training cluster."""


def _environment(table: GangTable, number: int, local: int) -> dict[str, str]:
    task = {"type": table.members[number].task.role, "index": table.role_rank(number, local)}
    config = {"cluster": table.once(_cluster), "task": task}
    return {"TF_CONFIG": json.dumps(config, separators=(",", ":"))}


def _cluster(table: GangTable) -> dict[str, list[str]]:
    names = [role.name for role in table.job.roles if role.name not in _NOT_IN_CLUSTER]
    cluster = {name: table.addresses(_PORT, name) for name in names}
    return {name: addresses for name, addresses in cluster.items() if addresses}


FRAMEWORK = Framework(
    title="TensorFlow",
    environment=_environment,
    variables=("TF_CONFIG",),
    ports=(_PORT,),
    one_process=True,
    roles=RoleRules(
        only=("chief", "worker", "ps", "evaluator"),
        needs=("chief or worker",),
        single=("chief", "evaluator"),
    ),
    starter=Starter(
        comment="# One process per task; tf.distribute reads TF_CONFIG.\n",
        roles="""\
  chief: {tasks: 1, gpus: 1}
  worker: {tasks: 1, gpus: 1}
  # ps: {tasks: 2, memory: 8GiB, vcores: 2}
""",
    ),
)
