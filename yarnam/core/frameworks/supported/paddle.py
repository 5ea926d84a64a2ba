"""PaddlePaddle: the variables that ``paddle.distributed.init_parallel_env()`` reads, as its
launcher sets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarnam.core.frameworks.framework import Framework, RoleRules, Starter
from yarnam.core.frameworks.task_ports import joined

if TYPE_CHECKING:
    from yarnam.core.frameworks.gang_table import GangTable

_PORT = "task"


def _environment(table: GangTable, number: int, local: int) -> dict[str, str]:
    env = {
        "PADDLE_MASTER": joined(*table.coordinator),
        "PADDLE_TRAINER_ID": str(table.rank(number, local)),
        "PADDLE_TRAINERS_NUM": str(table.world_size),
        "PADDLE_TRAINER_ENDPOINTS": table.once(_endpoints),
        "PADDLE_CURRENT_ENDPOINT": table.address(number, _PORT, local),
        "PADDLE_RANK_IN_NODE": str(local),
        "PADDLE_LOCAL_SIZE": str(table.members[number].placed.processes),
    }
    defaults = {"OMP_NUM_THREADS": str(table.threads(number))}
    if table.role(number).resources.gpus:
        # A process sees its own GPUs alone, so that its first one is number 0.
        defaults["FLAGS_selected_gpus"] = "0"
    else:
        defaults["PADDLE_DISTRI_BACKEND"] = "gloo"
    return env | table.defaults(number, defaults)


def _endpoints(table: GangTable) -> str:
    return ",".join(table.process_addresses(_PORT))


FRAMEWORK = Framework(
    title="Paddle",
    environment=_environment,
    variables=(
        *("PADDLE_MASTER", "PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM", "PADDLE_TRAINER_ENDPOINTS"),
        *("PADDLE_CURRENT_ENDPOINT", "PADDLE_RANK_IN_NODE", "PADDLE_LOCAL_SIZE"),
    ),
    ports=(_PORT,),
    roles=RoleRules(one=True),
    starter=Starter(
        comment="# One process per GPU; paddle.distributed.init_parallel_env() reads PADDLE_*.\n",
    ),
)
