"""The input and the findings of a rule on the Capacity Scheduler's settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from yarnam.core.model.snapshot import Node
from yarnam.core.queues.capacity.capacity_file import (
    CAPACITY,
    CapacityConfig,
    CapacityQueue,
    Kind,
    Share,
)
from yarnam.core.queues.lint.lint_values import Finding, Severity, SiteFacts

REFUSED = "YARN refuses the file: it keeps the queues that it has, and does not start with it"

OF_THE_WHOLE_SINCE_3_4 = ("user-limit-factor", "minimum-user-limit-percent")
"""Settings that hold for all queues since Hadoop 3.4 (YARN-10928), and before for one each."""


@dataclass(frozen=True)
class CapacityInput(SiteFacts):
    """The settings and their site. ``hadoop``: major and minor version."""

    config: CapacityConfig
    settings: Mapping[str, str] | None = None
    nodes: tuple[Node, ...] = ()
    hadoop: tuple[int, int] = (3, 4)
    has_gpus: bool = True

    def queues(self) -> Iterator[CapacityQueue]:
        """All of them, root first."""
        return self.config.queues()

    def leaves(self) -> Iterator[CapacityQueue]:
        """The queues that take jobs."""
        return (queue for queue in self.queues() if queue.is_leaf)

    def scheduler(self, key: str, default: str = "") -> str:
        """A setting of the scheduler as a whole, from the file, else from the site's others."""
        return self.config.value(key) or self.setting(f"{CAPACITY}.{key}", default)

    @property
    def is_legacy(self) -> bool:
        """Whether capacities are read as before Hadoop 3.4, which is its default."""
        return self.scheduler("legacy-queue-mode.enabled", "true") != "false"

    def number_of(self, queue: CapacityQueue, key: str, default: float) -> float:
        """Read a queue's setting, or the scheduler's of the same name if this version reads it;
        ``default`` if there is neither, or if it is not a number."""
        found = queue.settings.get(key)
        is_read = self.hadoop >= (3, 4) or key not in OF_THE_WHOLE_SINCE_3_4
        whole = self.scheduler(key, "x") if is_read else "x"
        try:
            return float(found.value if found and found.value else whole)
        except ValueError:
            return default

    @cached_property
    def largest_node(self) -> int:
        """Its GPUs; 0 if unknown."""
        return max((node.total.gpus for node in self.nodes), default=0)

    @cached_property
    def gpus(self) -> Mapping[str, float]:
        """The guarantee of each queue on this cluster."""
        found: dict[str, float] = {"root": float(self.cluster.gpus)}
        for queue in self.queues():
            shares = {one.path: one.share() for one in queue.children}
            weights = sum(one.number for one in shares.values() if one and one.kind is Kind.WEIGHT)
            for path, share in shares.items():
                found[path] = _gpus(share, found[queue.path], weights)
        return found


def _gpus(share: Share | None, above: float, weights: float) -> float:
    if share is None:
        return 0.0
    if share.kind is Kind.ABSOLUTE:
        return float(share.gpus)
    if share.kind is Kind.WEIGHT:
        return above * share.number / weights if weights > 0 else 0.0
    return above * share.number / 100.0


def error(line: int, message: str, why: str, mended: str = "") -> Finding:
    """``line`` 0: the site's settings."""
    return Finding(Severity.ERROR, line, message, why, mended)


def warning(line: int, message: str, why: str, mended: str = "") -> Finding:
    """``line`` 0: the site's settings."""
    return Finding(Severity.WARNING, line, message, why, mended)
