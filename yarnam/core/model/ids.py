"""Identifiers. All of them come into the core from outside; the core makes none up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NewType

ApplicationId = NewType("ApplicationId", str)
"""YARN's, as in ``application_1700000000000_0001``."""

ContainerId = NewType("ContainerId", str)
"""YARN's, as in ``container_e01_1700000000000_0001_01_000002``."""

NodeId = NewType("NodeId", str)
"""Host name of a NodeManager as the ResourceManager reports it."""


def node_of_address(address: str) -> NodeId:
    """The node of ``host:port``, as YARN writes its id and its web address. An IPv6 address has
    brackets around it in the one, and none in what the ResourceManager calls the host."""
    return NodeId(address.rpartition(":")[0].strip("[]"))


RackId = NewType("RackId", str)
"""Rack path, as in ``/rack1``."""

RoleName = NewType("RoleName", str)

CHIEF_ROLE = "chief"
"""Takes rank 0, as TensorFlow's ``task_type chief`` does."""

PS_ROLE = "ps"
"""Parameter servers: a service, unless the spec says otherwise (OpenPAI's completion preset for
TensorFlow: ``worker minSucceeded = N, ps none``)."""

PRE_RUN_ROLE = "pre-run"
"""The role of a pre-run's only task. No role of a spec may be called so."""


def leading_role(names: Sequence[str]) -> str:
    """The role whose first process has rank 0, and which a pre-run tries: the chief, else the first
    one that trains."""
    if CHIEF_ROLE in names:
        return CHIEF_ROLE
    return next((name for name in names if name not in {PS_ROLE, "evaluator"}), names[0])


@dataclass(frozen=True, slots=True, order=True)
class AskId:
    """One container asked of YARN. Unique within a job: a released ask is never asked again."""

    attempt: int
    role: str
    number: int

    def __str__(self) -> str:
        return f"a{self.attempt}.{self.role}.{self.number}"

    @property
    def words(self) -> str:
        """``worker request 3 (attempt 1)``, for a container that is not a task yet."""
        return f"{self.role} request {self.number} (attempt {self.attempt})"


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """One member of the gang within an attempt, as in ``worker-0``."""

    role: str
    index: int

    def __str__(self) -> str:
        return f"{self.role}-{self.index}"


def distinct_names(names: Mapping[AskId, str]) -> dict[AskId, str]:
    """The tasks' names, with the attempt where several containers have been the same task."""
    counts = Counter(names.values())
    return {
        ask: name if counts[name] == 1 else f"{name} (attempt {ask.attempt})"
        for ask, name in names.items()
    }


def parse_ask_id(text: str) -> AskId:
    """Inverse of ``str(ask_id)``. Raises ValueError on anything else."""
    attempt, role, number = text.split(".")
    if not attempt.startswith("a"):
        raise ValueError(f"not an ask id: {text!r}")
    return AskId(int(attempt[1:]), role, int(number))
