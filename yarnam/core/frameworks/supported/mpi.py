"""MPI: the command is mpirun's, in the first task; the agents of the others start its daemons.

``yarnam/agent/programs/mpi_launch.py`` runs the command, and sets what makes mpirun use it in place
of ssh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarnam.core.frameworks.framework import Framework, RoleRules, Starter

if TYPE_CHECKING:
    from yarnam.core.frameworks.gang_table import GangTable

_PORT = "launch"


def _environment(table: GangTable, _number: int, _local: int) -> dict[str, str]:
    return table.once(_of_all)


def _of_all(table: GangTable) -> dict[str, str]:
    hosts: list[str] = []
    addresses: list[str] = []
    for number, member in enumerate(table.members):
        size = table.role(number).resources
        hosts.append(f"{member.task}:{size.gpus or size.vcores}")
        addresses.append(table.address(number, _PORT))
    return {"YARNAM_MPI_HOSTS": ",".join(hosts), "YARNAM_MPI_DAEMONS": ",".join(addresses)}


FRAMEWORK = Framework(
    title="MPI",
    environment=_environment,
    ports=(_PORT,),
    interface_variables=("OMPI_MCA_btl_tcp_if_include", "PRTE_MCA_prte_if_include", "HYDRA_IFACE"),
    one_process=True,
    is_launcher=True,
    program="mpi_launch",
    roles=RoleRules(one=True),
    starter=Starter(
        comment="""\
# mpirun starts one process per GPU in all tasks, without ssh; tasks without GPUs get one per vcore.
# `-m mpi4py` ends all of them when one raises an exception.
""",
        command="[mpirun, python3, -m, mpi4py, code/train.py]",
        roles="  worker: {tasks: 2, gpus: 2}\n",
    ),
)
