"""Checks of nodes as messages: what an agent is asked for, and what is believed of its answer."""

from __future__ import annotations

from math import isfinite

from yarnam.core.model.actions import CheckedNode, CheckNodes
from yarnam.core.model.outcomes import LinkMeasure, NodeMeasures
from yarnam.core.model.printable import printable
from yarnam.wire.pb import yarnam_pb2 as pb

MAX_LINKS, MAX_TEXTS, MAX_TEXT = 8, 8, 300
MAX_VALUE = 1e12
"""Of any measure: beyond this it is none."""


def check_order(action: CheckNodes, node: CheckedNode) -> pb.Check:
    """For the agent of one node."""
    return pb.Check(
        attempt=action.attempt,
        check=action.check,
        full=action.is_full,
        limit_s=action.limit_s,
        peers=[pb.CheckPeer(node=peer.node, address=peer.address) for peer in node.peers],
    )


def node_measures(report: pb.CheckReport) -> NodeMeasures:
    """What cannot be counts as not measured; text is made printable, and cut."""
    return NodeMeasures(
        cpu_mib_s=_measure(report.cpu_mib_s),
        memory_mib_s=_measure(report.memory_mib_s),
        disk_mib_s=_measure(report.disk_mib_s),
        gpu_tflops=_measure(report.gpu_tflops),
        nccl_gib_s=_measure(report.nccl_gib_s),
        links=tuple(
            LinkMeasure(
                _text(link.node), _measure(link.mib_s), _measure(link.rtt_ms), _text(link.failure)
            )
            for link in report.links[:MAX_LINKS]
        ),
        trouble=tuple(_text(text) for text in report.trouble[:MAX_TEXTS]),
        not_run=tuple(_text(text) for text in report.not_run[:MAX_TEXTS]),
    )


def _measure(value: float) -> float:
    return value if isfinite(value) and 0 <= value <= MAX_VALUE else 0.0


def _text(text: str) -> str:
    return printable(text, max_length=MAX_TEXT)
