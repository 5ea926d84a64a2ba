"""Names of the ports that an agent holds for its task. Plain values only: agents stay light."""

from __future__ import annotations

from collections.abc import Sequence

COORDINATOR_PORT = "coordinator"
"""Every agent holds one, as ranks are unknown until launch; rank 0's task keeps its own."""

TASK_PORT = "task"
"""One per process: its address in TF_CONFIG."""

_NEED_TASK_PORT = frozenset({"tensorflow"})


def port_key(name: str, local_rank: int) -> str:
    """Name under which an agent reports the port ``name`` of one process."""
    return f"{name}.{local_rank}"


def port_names(framework: str, role_ports: Sequence[str], processes: int) -> tuple[str, ...]:
    """Names of all ports that a task holds; ``framework`` is the value of ``model.Framework``."""
    wanted = [TASK_PORT] if framework in _NEED_TASK_PORT else []
    wanted += [name for name in role_ports if name not in wanted]
    ranks = range(processes)
    return (COORDINATOR_PORT, *(port_key(name, rank) for rank in ranks for name in wanted))
