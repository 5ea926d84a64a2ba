"""Horovod on gloo, without horovodrun: its variables, and the store for its rendezvous beside
rank 0.

*Local* is within the task, as everywhere: HOROVOD_HOSTNAME is the task's name, by which Horovod
distinguishes groups of local ranks.

In an in-place elastic gang the store is the driver of Horovod's elastic mode too: it knows the
gang's members, and gives the ranks, at the start and whenever that changes. HOROVOD_HOSTNAME is the
name of the task's container then, which no other one ever gets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarnam.core.frameworks.framework import Framework, RoleRules, Starter
from yarnam.core.frameworks.head import PROGRAM, head_variable
from yarnam.core.frameworks.task_ports import port_key

if TYPE_CHECKING:
    from yarnam.core.frameworks.gang_table import GangTable

_PORT = "rendezvous"
_GLOO_S = 300
"""The time for all processes to be there, and for one operation. Horovod's own 30 s
(GetTimeoutFromEnv in gloo_context.cc) are short for imports on a busy node."""
_IN_PLACE_GLOO_S = 120
"""The same in an in-place elastic gang. When a task is lost in the middle of an operation, only its
neighbours notice: the others wait for these until this time is over. It has to be well within
``elastic.reform_timeout``, and above the time that a task that joins needs for its imports."""


_RANKS = (
    *("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"),
    *("HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE"),
)
"""In the order of the store's answer."""


def _ranks(table: GangTable, number: int, local: int) -> dict[str, str]:
    member = table.members[number]
    # Those with the same local rank, one in each task that has this many processes.
    across = [n for n, m in enumerate(table.members) if m.placed.processes > local]
    ranks = (table.rank(number, local), table.world_size, local, member.placed.processes)
    return dict(zip(_RANKS, map(str, (*ranks, across.index(number), len(across))), strict=True))


def _environment(table: GangTable, number: int, local: int) -> dict[str, str]:
    member = table.members[number]
    host = table.members[0].placed.address
    port = str(table.port(0, port_key(_PORT, 0)))
    env = {
        "HOROVOD_HOSTNAME": str(member.ask if table.resizes_in_place else member.task),
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": host,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": port,
    }
    env |= {"HOROVOD_ELASTIC": "1"} if table.resizes_in_place else _ranks(table, number, local)
    env |= head_variable(
        table,
        number,
        local,
        server=("yarnam:gloo_rendezvous", host, port, *(("elastic",) * table.resizes_in_place)),
        server_at=table.address(0, _PORT),
        asks=(f"/rank_and_size/{member.ask}:{local}", _RANKS) if table.resizes_in_place else None,
    )
    gloo_s = min(_IN_PLACE_GLOO_S, int(table.job.elastic.reform_timeout_s / 2))
    defaults = {
        # NCCL's operations are taken for tensors on GPUs all the same, where Horovod has them.
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(max(1, gloo_s) if table.resizes_in_place else _GLOO_S),
        "OMP_NUM_THREADS": str(table.threads(number)),
    }
    return env | table.defaults(number, defaults)


FRAMEWORK = Framework(
    title="Horovod",
    environment=_environment,
    variables=(
        *("HOROVOD_HOSTNAME", "HOROVOD_CONTROLLER", *_RANKS),
        *("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT"),
    ),
    in_place_variables=("HOROVOD_ELASTIC",),
    ports=(_PORT,),
    device_by_local_rank=True,
    forms_anew=True,
    leaves_on_notice=True,
    interface_variables=("HOROVOD_GLOO_IFACE",),
    program=PROGRAM,
    roles=RoleRules(one=True),
    starter=Starter(
        comment="""\
# One process per GPU; hvd.init() finds the others through gloo. horovodrun is not needed.
"""
    ),
)
