"""The values of an allocation file (``fair-scheduler.xml``), with its defaults applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from yarnam.core.model.resources import Resources
from yarnam.core.queues.amounts import Limit


class Policy(Enum):
    """How a queue's share is divided among what is below it."""

    FAIR = "fair"
    FIFO = "fifo"
    DRF = "drf"


@dataclass(frozen=True, slots=True)
class Element:
    """One XML element. ``text`` is the text before its first child. ``line`` counts from 1;
    ``end_line`` is that of its closing tag."""

    tag: str
    line: int
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    text: str = ""
    children: tuple[Element, ...] = ()
    end_line: int = 0

    def child(self, *tags: str) -> Element | None:
        """The last child with one of these tags: the one that counts for YARN."""
        return next((one for one in reversed(self.children) if one.tag in tags), None)


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """One queue. Timeouts and thresholds are those that hold after inheritance."""

    name: str
    """The full name, as in ``root.dl``."""
    element: Element
    weight: float = 1.0
    minimum: Resources = Resources()
    maximum: Limit = Limit()
    max_container: Limit = Limit()
    max_apps: int | None = None
    max_am_share: float = 0.5
    """The largest share of the queue's fair share for ApplicationMasters; -1 for no limit."""
    policy: Policy = Policy.FAIR
    min_share_timeout_s: int | None = None
    """``None`` if the queue never preempts for its minimum."""
    fair_share_timeout_s: int | None = None
    fair_share_threshold: float = 0.5
    is_preemptable: bool = True
    is_parent: bool = False
    children: tuple[QueueConfig, ...] = ()

    def walk(self) -> Iterator[QueueConfig]:
        """This queue and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def is_leaf(self) -> bool:
        return not self.is_parent

    def leaves(self) -> Iterator[QueueConfig]:
        """The queues that take jobs."""
        return (queue for queue in self.walk() if queue.is_leaf)


@dataclass(frozen=True, slots=True)
class Allocations:
    """A whole file."""

    document: Element
    root: QueueConfig
    default_policy: Policy = Policy.FAIR
    rules: tuple[Element, ...] = ()
    """The rules of the placement policy, in their order; empty for YARN's own."""

    def queue(self, name: str) -> QueueConfig | None:
        """Find a queue by its full name."""
        return next((queue for queue in self.root.walk() if queue.name == name), None)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the Fair Scheduler does not take the file. ``line`` counts from 1."""

    line: int
    message: str
