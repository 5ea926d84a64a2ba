"""torchrun: one in each task, which starts the processes of that task.

Its options are its ``PET_`` variables, so that ``torchrun train.py`` is a whole command
(torch/distributed/argparse_util.py). The rendezvous is static, also in an elastic gang that yarnam
starts anew when it changes its size: torchrun would only guess what the gang already knows.

In an in-place elastic gang it is torchrun's own, c10d: the torchruns see by
their heartbeats, in a store that the first one serves, who is there, and start their workers anew
when that changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarnam.core.frameworks.framework import Framework, RoleRules, Starter
from yarnam.core.frameworks.task_ports import joined

if TYPE_CHECKING:
    from yarnam.core.frameworks.gang_table import GangTable


_LAST_CALL_S = 5
"""How long torchruns wait for more of them once the least number is there. Its own 30 s would pass
at each change: one that comes later can still join."""
_READ_S = 300
"""The time for the first torchrun to serve the store: importing torch takes a minute on a busy
node."""

_MAX_RESTARTS = 20
"""Restarts of a torchrun's workers: each loss in the gang costs every torchrun one. A fault of the
program is retried this often too, before the gang learns of it."""


def _static(table: GangTable, number: int) -> dict[str, str]:
    host, port = table.coordinator
    return {
        "PET_NNODES": str(len(table.members)),
        "PET_NODE_RANK": str(number),
        "PET_MASTER_ADDR": host,
        "PET_MASTER_PORT": str(port),
        "PET_RDZV_BACKEND": "static",
        "PET_RDZV_ID": table.application or table.job.name,
    }


def _in_place(table: GangTable, number: int) -> dict[str, str]:
    role = table.role(number)
    conf = {
        "is_host": int(number == 0),
        "last_call_timeout": _LAST_CALL_S,
        "read_timeout": _READ_S,
    }
    return {
        "PET_NNODES": f"{role.min_tasks}:{role.tasks}",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": joined(*table.coordinator),
        "PET_RDZV_ID": f"{table.application or table.job.name}.{table.attempt}",
        "PET_RDZV_CONF": ",".join(f"{name}={value}" for name, value in conf.items()),
        # Where its workers meet if it becomes the first: else by the host's name.
        "PET_LOCAL_ADDR": table.members[number].placed.address,
    }


def _in_place_defaults() -> dict[str, str]:
    return {
        "PET_MAX_RESTARTS": str(_MAX_RESTARTS),
        # Else the workers would meet at the torchrun that came first, also when that is gone.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }


def _environment(table: GangTable, number: int, _local: int) -> dict[str, str]:
    env = _in_place(table, number) if table.resizes_in_place else _static(table, number)
    size = table.role(number).resources
    processes = max(1, size.gpus)
    defaults = {
        "PET_NPROC_PER_NODE": str(processes),
        # Its own default is 1.
        "OMP_NUM_THREADS": str(max(1, size.vcores // processes)),
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        # The size of the flight recorder, which is read when the gang hangs.
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "512",
        **(_in_place_defaults() if table.resizes_in_place else {}),
    }
    return env | table.defaults(number, defaults)


FRAMEWORK = Framework(
    title="torchrun",
    environment=_environment,
    variables=(
        *("PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
        *("PET_RDZV_BACKEND", "PET_RDZV_ID"),
    ),
    in_place_variables=(
        *("PET_NNODES", "PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "PET_RDZV_ID", "PET_RDZV_CONF"),
        "PET_LOCAL_ADDR",
    ),
    one_process=True,
    is_launcher=True,
    forms_anew=True,
    roles=RoleRules(one=True),
    starter=Starter(
        comment="# One torchrun per task; it starts one process per GPU of the task.\n",
        command="[python3, -m, torch.distributed.run, code/train.py, --epochs, 10]",
        roles="  worker: {tasks: 2, gpus: 2}\n",
    ),
)
