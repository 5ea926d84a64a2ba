"""LightGBM: its machine list and ports, as parameters with ``LIGHTGBM_`` before their names.

It reads no environment: the program passes them on. A process finds itself in the list by an
address of an interface and its port, and its rank is its place there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarnam.core.frameworks.framework import Framework, RoleRules, Starter
from yarnam.core.frameworks.task_ports import in_turn, port_key

if TYPE_CHECKING:
    from yarnam.core.frameworks.gang_table import GangTable

_PORTS = ("listen-0", "listen-1", "listen-2")


def _environment(table: GangTable, number: int, local: int) -> dict[str, str]:
    port = port_key(in_turn(_PORTS, table.attempt), local)
    env = {
        "LIGHTGBM_MACHINES": table.once(_machines),
        "LIGHTGBM_NUM_MACHINES": str(table.world_size),
        "LIGHTGBM_LOCAL_LISTEN_PORT": str(table.port(number, port)),
    }
    return env | table.defaults(number, {"OMP_NUM_THREADS": str(table.threads(number))})


def _machines(table: GangTable) -> str:
    addresses = table.process_addresses(in_turn(_PORTS, table.attempt))
    if all(address.startswith("127.") for address in addresses):
        # Nodes of an embedded cluster: all are this machine, whose interface has one address.
        addresses = [f"127.0.0.1:{address.rpartition(':')[2]}" for address in addresses]
    return ",".join(addresses)


FRAMEWORK = Framework(
    title="LightGBM",
    environment=_environment,
    variables=("LIGHTGBM_MACHINES", "LIGHTGBM_NUM_MACHINES", "LIGHTGBM_LOCAL_LISTEN_PORT"),
    ports=_PORTS,
    bare_ports=_PORTS,
    roles=RoleRules(one=True),
    starter=Starter(
        comment="""\
# One process per GPU; the program passes LIGHTGBM_MACHINES, LIGHTGBM_NUM_MACHINES and
# LIGHTGBM_LOCAL_LISTEN_PORT on as parameters.
""",
        command="[python3, code/train.py]",
    ),
)
