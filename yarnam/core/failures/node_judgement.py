"""Find the slow and broken nodes of a gang from what each measured before the barrier opened.

A node is compared with the median of its gang, so no table of hardware is needed; absolute limits
catch broken nodes even if all are alike. A link has two ends: in each of two rounds a node measures
a link to a different partner, which separates a node with only slow links from one that had a slow
partner.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from yarnam.core.model.outcomes import NodeMeasures

ROUNDS = 2

CPU_SHARE, GPU_SHARE = 0.5, 0.7
"""The least share of the gang's median. A throttled or crowded node has half of the others' CPU; a
GPU alone on its device varies by some percent, and NVIDIA's resiliency extension calls one slow
below 0.7."""
MEMORY_SHARE, LINK_SHARE, DISK_SHARE = 1 / 3, 1 / 3, 0.1
"""Other jobs use these too, so they vary more."""
NCCL_SHARE = 1 / 3
"""Two GPUs of a node may be joined by NVLink on one node and by PCIe on another, which is not a
fault; one that fell back to copies through the host has less than a third."""

CPU_MIB_S, MEMORY_MIB_S, DISK_MIB_S, LINK_MIB_S = 10.0, 100.0, 0.5, 1.0
"""At least, whatever the others have: a tenth and less of what a core of 2010 does, a disk that
fails, a link that fell back to 10 Mbit/s."""

MAX_TEXT = 300
"""The most characters of an agent's text."""


@dataclass(frozen=True, slots=True)
class BadNode:
    """A node that is not to be used, and why."""

    node: str
    why: str


@dataclass(frozen=True, slots=True)
class _Kind:
    """One thing that is measured, of one node."""

    name: str
    value: Callable[[NodeMeasures], float | None]
    share: float
    least: float
    unit: str = "MiB/s"


KINDS = (
    _Kind("CPU (SHA-256, one core)", lambda one: one.cpu_mib_s, CPU_SHARE, CPU_MIB_S),
    _Kind("memory (copy)", lambda one: one.memory_mib_s, MEMORY_SHARE, MEMORY_MIB_S),
    _Kind("disk (write)", lambda one: one.disk_mib_s, DISK_SHARE, DISK_MIB_S),
    _Kind("GPU (matrix product)", lambda one: one.gpu_tflops, GPU_SHARE, 0.0, "TFLOP/s"),
    _Kind("NCCL (all-reduce)", lambda one: one.nccl_gib_s, NCCL_SHARE, 0.0, "GiB/s"),
)


def partners(count: int) -> list[list[int]]:
    """For each of ``count`` nodes, the partner of its link measurement in each round; each node is
    measured by as many as it measures itself. Two nodes form one pair, a single node none."""
    return [
        [(node + distance) % count for distance in range(1, min(ROUNDS, count - 1) + 1)]
        for node in range(count)
    ]


def bad_nodes(measures: Mapping[str, NodeMeasures | None]) -> tuple[BadNode, ...]:
    """Find the slow and the broken nodes.

    Args:
        measures: the results of each checked node; ``None`` if it has not answered in time.
    """
    found: dict[str, list[str]] = {node: [] for node in measures}
    known = {node: one for node, one in measures.items() if one is not None}
    # If most are late, it is not they.
    if 2 * len(known) > len(measures):
        for node in measures.keys() - known.keys():
            found[node].append("it did not finish its check in time")
    for node, one in known.items():
        found[node] += [text[:MAX_TEXT] for text in one.trouble]
    for kind in KINDS:
        values = {node: value for node, one in known.items() if (value := kind.value(one))}
        for node, why in _slow(kind, values).items():
            found[node].append(why)
    for node, why in _badly_linked(known).items():
        found[node].append(why)
    return tuple(BadNode(node, "; ".join(whys)) for node, whys in found.items() if whys)


def _slow(kind: _Kind, values: Mapping[str, float]) -> dict[str, str]:
    if not values:
        return {}
    # The higher of two: of a pair the slower one is compared with the faster one.
    usual = statistics.median_high(values.values())
    return {
        node: f"{kind.name}: {value:.3g} {kind.unit}, usual is {usual:.3g}"
        for node, value in values.items()
        if value < max(kind.least, kind.share * usual)
    }


def _badly_linked(measures: Mapping[str, NodeMeasures]) -> dict[str, str]:
    """A node is as good as its best link; both ends are to blame for a link, until a good one
    clears them. With two nodes it is unknown which one is at fault."""
    best: dict[str, float] = {}
    trouble: dict[str, str] = {}
    for node, one in measures.items():
        for link in one.links:
            for end in {node, link.node} & measures.keys():
                best[end] = max(best.get(end, 0.0), link.mib_s)
                if link.failure:
                    trouble[end] = link.failure[:MAX_TEXT]
    if len(best) <= ROUNDS:
        return {}
    usual = statistics.median_high(best.values())
    return {
        node: f"network: {rate:.3g} MiB/s at best, usual is {usual:.3g}"
        + (f" ({trouble[node]})" if node in trouble else "")
        for node, rate in best.items()
        if rate < max(LINK_MIB_S, LINK_SHARE * usual)
    }


def summary(measures: Sequence[NodeMeasures]) -> str:
    """Summarize good nodes in one line: the slowest value of each measure."""
    parts = [
        f"{kind.name} {min(values):.3g} {kind.unit}"
        for kind in KINDS
        if (values := [value for node in measures if (value := kind.value(node))])
    ]
    links = [link.mib_s for node in measures for link in node.links]
    parts += [f"network {min(links):.3g} MiB/s"] if links else []
    return ", ".join(parts)
