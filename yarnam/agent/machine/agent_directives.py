"""The directives of the ApplicationMaster. They are desired states: a late or repeated
one changes nothing. The mailbox decodes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Union


class Park(NamedTuple):
    """Wait for another directive."""


class ProcessLaunch(NamedTuple):
    """One process to start. ``env``: the rendezvous; the job's own is in its record."""

    rank: int = 0
    local_rank: int = 0
    env: Mapping[str, str] = {}
    gpu_ids: tuple[str, ...] = ()


class Launch(NamedTuple):
    """Start these processes, in the order of their local ranks."""

    attempt: int
    role: str = ""
    task_index: int = 0
    processes: tuple[ProcessLaunch, ...] = ()
    metrics_period_s: float = 0.0
    """Between two reports that bring only metrics; 0 keeps the agent's own."""
    members: tuple[str, ...] = ()
    """Who belongs to a gang that changes its size while its processes run; the first task of such a
    gang gets the same launch again when that has changed."""


class Stage(NamedTuple):
    """Bring to the node what these processes will read, and start nothing."""

    launch: Launch


class CheckPeer(NamedTuple):
    """Another node, and where its agent serves (host:port)."""

    node: str
    address: str


class Check(NamedTuple):
    """Measure the node, and the link to each peer."""

    attempt: int
    check: int
    """A number that is used once."""
    is_full: bool = False
    limit_s: float = 0.0
    """Until the AM must have the report."""
    peers: tuple[CheckPeer, ...] = ()


class Stop(NamedTuple):
    """End the processes. ``agree``: first report the step after which they can end, and wait for
    the order to stop after one. ``at_step``: end after this one, as all others do."""

    attempt: int
    grace_s: float = 0.0
    reason: str = ""
    idle_grace_s: float | None = None
    """For processes that write no checkpoint; ``None``: ``grace_s``."""
    agree: bool = False
    at_step: int | None = None


class Dump(NamedTuple):
    """Write the stacks of these processes into their logs."""

    attempt: int


class Leave(NamedTuple):
    """End, and what still runs with it."""

    reason: str = ""


Directive = Union[Park, Stage, Check, Launch, Stop, Dump, Leave]
