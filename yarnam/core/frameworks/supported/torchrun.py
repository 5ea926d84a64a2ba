"""torchrun: one in each task, which starts the processes of that task.

Its options are its ``PET_`` variables, so that ``torchrun train.py`` is a whole command
(torch/distributed/argparse_util.py). The rendezvous is static, also in an elastic gang: yarnam
starts all tasks anew when the gang changes its size, and torchrun would only guess what the gang
already knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarnam.core.frameworks.framework import Framework, RoleRules, Starter

if TYPE_CHECKING:
    from yarnam.core.frameworks.gang_table import GangTable


def _environment(table: GangTable, number: int, _local: int) -> dict[str, str]:
    host, port = table.coordinator
    env = {
        "PET_NNODES": str(len(table.members)),
        "PET_NODE_RANK": str(number),
        "PET_MASTER_ADDR": host,
        "PET_MASTER_PORT": str(port),
        "PET_RDZV_BACKEND": "static",
        "PET_RDZV_ID": table.application or table.job.name,
    }
    size = table.role(number).resources
    processes = max(1, size.gpus)
    defaults = {
        "PET_NPROC_PER_NODE": str(processes),
        # Its own default is 1.
        "OMP_NUM_THREADS": str(max(1, size.vcores // processes)),
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        # Of the flight recorder, which is read when the gang hangs.
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "512",
    }
    return env | table.defaults(number, defaults)


FRAMEWORK = Framework(
    title="torchrun",
    environment=_environment,
    variables=(
        *("PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
        *("PET_RDZV_BACKEND", "PET_RDZV_ID"),
    ),
    one_process=True,
    is_launcher=True,
    roles=RoleRules(one=True),
    starter=Starter(
        comment="# One torchrun per task; it starts one process per GPU of the task.\n",
        command="[python3, -m, torch.distributed.run, code/train.py, --epochs, 10]",
        roles="  worker: {tasks: 2, gpus: 2}\n",
    ),
)
