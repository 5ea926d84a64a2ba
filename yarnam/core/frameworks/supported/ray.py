"""Ray: its head and the command in the first task, a raylet in every other.

Ray keeps its sockets and logs below one directory, the same on all nodes, ``/tmp/ray`` unless the
head says otherwise: two jobs on a node would meet there. The path of a socket may have 107 bytes,
fewer than a container's directory has: so it is one for each job below ``/tmp``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarnam.core.frameworks.framework import Framework, RoleRules, Starter
from yarnam.core.frameworks.head import PROGRAM, head_variable
from yarnam.core.frameworks.task_ports import port_key

if TYPE_CHECKING:
    from yarnam.core.frameworks.gang_table import GangTable

_PORT = "gcs"
_STORE_SHARE = 0.3
"""The object store's share of a task's memory: Ray's own share of a machine
(DEFAULT_OBJECT_STORE_MEMORY_PROPORTION)."""
_LEAST_STORE_MIB = 80
"""Ray refuses less than 75 MiB (OBJECT_STORE_MINIMUM_MEMORY_BYTES)."""


def _environment(table: GangTable, number: int, local: int) -> dict[str, str]:
    head_at = table.address(0, _PORT)
    scratch = f"/tmp/ray-{table.application.removeprefix('application_')}.{table.attempt}"  # noqa: S108
    start = ("python", "-m", "ray.scripts.scripts", "start", "--block")
    first = ("--head", f"--port={table.port(0, port_key(_PORT, 0))}", f"--temp-dir={scratch}")
    options = _options(table, number)
    env = {"RAY_ADDRESS": head_at} | head_variable(
        table,
        number,
        local,
        server=(*start, *first, "--include-dashboard=false", *options),
        server_at=head_at,
        # The head is a raylet too: its task needs no other.
        worker=(*start, f"--address={head_at}", *options) if number else (),
        scratch=scratch,
    )
    return env | table.defaults(number, {"RAY_USAGE_STATS_ENABLED": "0"})


def _options(table: GangTable, number: int) -> tuple[str, ...]:
    size = table.role(number).resources
    store_mib = max(_LEAST_STORE_MIB, int(size.memory_mib * _STORE_SHARE))
    return (
        f"--node-ip-address={table.members[number].placed.address}",
        f"--num-cpus={size.vcores}",
        f"--num-gpus={size.gpus}",
        f"--object-store-memory={store_mib << 20}",
        # Any free ones: its own range, from 10002 on, is the same for every raylet of a machine.
        *("--min-worker-port=0", "--max-worker-port=0"),
    )


FRAMEWORK = Framework(
    title="Ray",
    environment=_environment,
    variables=("RAY_ADDRESS",),
    ports=(_PORT,),
    one_process=True,
    is_launcher=True,
    program=PROGRAM,
    roles=RoleRules(one=True),
    starter=Starter(
        comment="""\
# The command runs once, beside Ray's head; ray.init() finds it. Each task is a node of Ray's.
""",
        command="[python3, code/train.py]",
        roles="  worker: {tasks: 4, gpus: 1, memory: 8GiB, vcores: 2}\n",
    ),
)
