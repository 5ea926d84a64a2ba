"""The requests of applications to the model, and their containers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from yarnam.core.model.ids import AskId
from yarnam.core.model.outcomes import ContainerEnd
from yarnam.core.model.plans import Target
from yarnam.core.model.resources import Resources


@dataclass(slots=True)
class Container:
    """A grant, from its first to its last moment at the RM. Times in virtual seconds."""

    number: int
    job: int
    ask: AskId
    node: int
    resources: Resources
    granted_s: float
    freed_s: float | None = None
    """When its node could use the GPUs again, if yet."""
    released_s: float | None = None


class ContainerListener(Protocol):
    """An application's ear: called with the AM's heartbeat."""

    def granted(self, container: Container) -> None: ...

    def ended(self, container: Container, end: ContainerEnd) -> None:
        """Its node is lost, or YARN has taken it."""


@dataclass(slots=True)
class Ask:
    ask: AskId
    target: Target
