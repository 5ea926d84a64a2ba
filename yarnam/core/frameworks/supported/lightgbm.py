"""LightGBM: its machine list and ports, as parameters with ``LIGHTGBM_`` before their names.

It reads no environment: the program passes them on. A process finds itself in the list by an
address of an interface and its port, and its rank is its place there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarnam.core.frameworks.framework import Framework, RoleRules, Starter
from yarnam.core.frameworks.task_ports import port_key

if TYPE_CHECKING:
    from yarnam.core.frameworks.gang_table import GangTable

_PORT = "listen"


def _environment(table: GangTable, number: int, local: int) -> dict[str, str]:
    env = {
        "LIGHTGBM_MACHINES": table.once(_machines),
        "LIGHTGBM_NUM_MACHINES": str(table.world_size),
        "LIGHTGBM_LOCAL_LISTEN_PORT": str(table.port(number, port_key(_PORT, local))),
    }
    return env | table.defaults(number, {"OMP_NUM_THREADS": str(table.threads(number))})


def _machines(table: GangTable) -> str:
    return ",".join(table.process_addresses(_PORT))


FRAMEWORK = Framework(
    title="LightGBM",
    environment=_environment,
    variables=("LIGHTGBM_MACHINES", "LIGHTGBM_NUM_MACHINES", "LIGHTGBM_LOCAL_LISTEN_PORT"),
    ports=(_PORT,),
    bare_ports=(_PORT,),
    roles=RoleRules(one=True),
    starter=Starter(
        comment="""\
# One process per GPU; the program passes LIGHTGBM_MACHINES, LIGHTGBM_NUM_MACHINES and
# LIGHTGBM_LOCAL_LISTEN_PORT on as parameters.
""",
        command="[python3, code/train.py]",
    ),
)
