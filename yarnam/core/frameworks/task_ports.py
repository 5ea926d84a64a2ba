"""Names of the ports that an agent holds for its task. Light: the agent loads it."""

from __future__ import annotations

from collections.abc import Sequence

COORDINATOR_PORT = "coordinator"
"""Every agent holds one, as ranks are unknown until launch; rank 0's task keeps its own."""

TASK_PORT = "task"
"""One per process: its address among the processes of its role."""


def port_key(name: str, local_rank: int) -> str:
    """Name under which an agent reports the port ``name`` of one process."""
    return f"{name}.{local_rank}"


def in_turn(names: Sequence[str], attempt: int) -> str:
    """The port that an attempt uses of several, so that what the one before has left there for a
    minute (TIME_WAIT) is not in its way."""
    return names[(attempt - 1) % len(names)]


def joined(host: str, port: int) -> str:
    """``host:port``, the host in brackets if it is an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
