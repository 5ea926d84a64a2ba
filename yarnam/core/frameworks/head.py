"""Frameworks with a server beside the first process: the orders for ``programs/head_launch.py``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from yarnam.core.frameworks.task_ports import joined

if TYPE_CHECKING:
    from yarnam.core.frameworks.gang_table import GangTable

PROGRAM = "head_launch"


def head_variable(
    table: GangTable,
    number: int,
    local: int,
    *,
    server: Sequence[str],
    server_at: str,
    worker: Sequence[str] = (),
    linger_s: float = 0.0,
    scratch: str = "",
    asks: tuple[str, Sequence[str]] | None = None,
) -> dict[str, str]:
    """``server`` and ``worker``: commands, whose first word may be ``python`` (the job's) or
    ``yarnam:NAME`` (a program of the agent's). With a ``worker`` each task runs one, and only the
    first process the job's command. ``server_at``: ``host:port`` where it listens; ``linger_s``:
    for the server to end on its own once the command has succeeded; ``scratch``: a directory of
    theirs, which the keeper removes when the task's processes have ended; ``asks``: a path of the
    server's (HTTP), and the variables of the command that it gives the values of, comma separated:
    it answers when those are there that belong together."""
    is_head = table.rank(number, local) == 0
    head: dict[str, object] = {
        "is_head": is_head,
        "at": joined(*table.coordinator),
        "server": list(server) if is_head else [],
        "server_at": server_at,
        "worker": list(worker),
        "linger_s": linger_s,
    }
    if asks is not None:
        head["asks"] = {"at": server_at, "path": asks[0], "names": list(asks[1])}
    env = {"YARNAM_HEAD": json.dumps(head, separators=(",", ":"))}
    return env | ({"YARNAM_SCRATCH": scratch} if scratch else {})
