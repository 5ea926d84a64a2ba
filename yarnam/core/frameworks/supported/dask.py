"""Dask: a scheduler beside the command in the first task, a worker in every task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarnam.core.frameworks.framework import Framework, RoleRules, Starter
from yarnam.core.frameworks.head import PROGRAM, head_variable
from yarnam.core.frameworks.task_ports import port_key

if TYPE_CHECKING:
    from yarnam.core.frameworks.gang_table import GangTable

_PORT = "scheduler"
_MEMORY_SHARE = 0.8
"""The worker's share of a task's memory: the command, the nanny and the agent use the rest. The
worker itself begins to write to disk at 0.6 of its share (distributed.worker.memory.target)."""
_DEATH_S = 60
"""A worker ends after this long without a scheduler, whatever has happened to the head."""


def _environment(table: GangTable, number: int, local: int) -> dict[str, str]:
    scheduler = f"tcp://{table.address(0, _PORT)}"
    host = table.members[0].placed.address
    port = str(table.port(0, port_key(_PORT, 0)))
    env = {"DASK_SCHEDULER_ADDRESS": scheduler}
    return env | head_variable(
        table,
        number,
        local,
        server=("python", "-m", "dask", "scheduler", "--host", host, "--port", port, *_QUIET),
        server_at=table.address(0, _PORT),
        worker=("python", "-m", "dask", "worker", scheduler, *_options(table, number)),
    )


_QUIET = ("--no-dashboard",)
"""It would need a port of its own, and shows the job's activity to everyone on the network."""


def _options(table: GangTable, number: int) -> tuple[str, ...]:
    member = table.members[number]
    size = table.role(number).resources
    memory_mib = int(size.memory_mib * _MEMORY_SHARE)
    options = [
        *("--host", member.placed.address),
        *("--name", str(member.task)),
        *("--nthreads", str(size.vcores)),
        *("--memory-limit", f"{memory_mib}MiB"),
        *("--death-timeout", str(_DEATH_S)),
        *_QUIET,
    ]
    return (*options, "--resources", f"GPU={size.gpus}") if size.gpus else tuple(options)


FRAMEWORK = Framework(
    title="Dask",
    environment=_environment,
    variables=("DASK_SCHEDULER_ADDRESS",),
    ports=(_PORT,),
    one_process=True,
    is_launcher=True,
    program=PROGRAM,
    roles=RoleRules(one=True),
    starter=Starter(
        comment="""\
# The command runs once, beside the scheduler; dask.distributed.Client() finds it. Each task is a
# worker.
""",
        command="[python3, code/train.py]",
        roles="  worker: {tasks: 4, gpus: 1, memory: 8GiB, vcores: 2}\n",
    ),
)
