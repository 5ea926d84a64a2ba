"""XGBoost: its tracker beside rank 0, and the arguments that find it.

``xgboost.collective.CommunicatorContext`` takes them as arguments, in lower case; it does not read
the environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarnam.core.frameworks.framework import Framework, RoleRules, Starter
from yarnam.core.frameworks.head import PROGRAM, head_variable
from yarnam.core.frameworks.task_ports import in_turn, port_key

if TYPE_CHECKING:
    from yarnam.core.frameworks.gang_table import GangTable

_PORTS = ("tracker-0", "tracker-1", "tracker-2")
_LEAVE_S = 10.0
"""The time for the other ranks to leave the tracker when rank 0 has ended; it ends with the last of
them."""
_TRACKER = """\
import sys
from xgboost.tracker import RabitTracker
host, port, count = sys.argv[1:]
tracker = RabitTracker(n_workers=int(count), host_ip=host, port=int(port), sortby="task")
tracker.start()
tracker.wait_for()
"""


def _environment(table: GangTable, number: int, local: int) -> dict[str, str]:
    host = table.members[0].placed.address
    name = in_turn(_PORTS, table.attempt)
    port = str(table.port(0, port_key(name, 0)))
    count = str(table.world_size)
    env = {
        "DMLC_TRACKER_URI": host,
        "DMLC_TRACKER_PORT": port,
        "DMLC_NUM_WORKER": count,
        # The tracker gives ranks in the order of these, as text.
        "DMLC_TASK_ID": str(table.rank(number, local)).zfill(len(count)),
    }
    env |= head_variable(
        table,
        number,
        local,
        server=("python", "-c", _TRACKER, host, port, count),
        server_at=table.address(0, name),
        linger_s=_LEAVE_S,
    )
    return env | table.defaults(number, {"OMP_NUM_THREADS": str(table.threads(number))})


FRAMEWORK = Framework(
    title="XGBoost",
    environment=_environment,
    variables=("DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_NUM_WORKER", "DMLC_TASK_ID"),
    ports=_PORTS,
    bare_ports=_PORTS,
    program=PROGRAM,
    roles=RoleRules(one=True),
    starter=Starter(
        comment="""\
# One process per GPU; a tracker runs beside rank 0. The program gives DMLC_TRACKER_URI,
# DMLC_TRACKER_PORT and DMLC_TASK_ID to xgboost.collective.CommunicatorContext.
""",
        command="[python3, code/train.py]",
    ),
)
