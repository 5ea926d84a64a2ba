"""The shared snapshot of the cluster as bytes: one small record for thousands of nodes.

Columns, since equal values beside each other compress well: names, a letter for each state, and
for each node the index of what is in use there in a table of the different amounts.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import decompress
from yarnam.core.model.ids import NodeId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, ClusterSummary, NodeState, QueueView
from yarnam.errors import WireMismatch
from yarnam.wire.codec import decode, encode

MAX_BYTES = 512 << 10
"""Half of what a node of ZooKeeper's holds (jute.maxbuffer, 1 MiB)."""
MAX_UNPACKED = 2 << 20
"""20,000 names of 64 characters, and 5,000 different amounts."""

_LETTERS = {
    NodeState.RUNNING: "r", NodeState.UNHEALTHY: "u", NodeState.DECOMMISSIONING: "d",
    NodeState.LOST: "l", NodeState.CORDONED: "c",
}  # fmt: skip
_STATES = {letter: state for state, letter in _LETTERS.items()}


@dataclass(frozen=True, slots=True)
class _Columns:
    names: tuple[str, ...]
    states: str
    amounts: tuple[Resources, ...]
    used: tuple[int, ...]
    queues: tuple[QueueView, ...]


def encode_summary(snapshot: ClusterSnapshot) -> bytes:
    """Compressed; see ``MAX_BYTES`` for how much of it is read."""
    table: dict[Resources, int] = {}
    columns = _Columns(
        names=tuple(str(node.node_id) for node in snapshot.nodes),
        states="".join(_LETTERS[node.state] for node in snapshot.nodes),
        used=tuple(table.setdefault(node.used, len(table)) for node in snapshot.nodes),
        amounts=tuple(table),
        queues=snapshot.queues,
    )
    return zlib.compress(encode(columns))


def decode_summary(data: bytes) -> ClusterSummary:
    """Inverse of ``encode_summary``, for untrusted bytes. Raises WireMismatch."""
    if len(data) > MAX_BYTES:
        raise WireMismatch(f"a summary of {len(data)} bytes: at most {MAX_BYTES} are read")
    try:
        text = decompress(data, max_bytes=MAX_UNPACKED)
    except MalformedData as error:
        raise WireMismatch(f"not a summary of the cluster: {error.message}") from error
    columns = decode(text, _Columns, max_bytes=MAX_UNPACKED)
    if not len(columns.names) == len(columns.states) == len(columns.used):
        raise WireMismatch("not a summary of the cluster: its columns are not of one length")
    rows = zip(columns.names, columns.states, columns.used, strict=True)
    nodes: dict[NodeId, tuple[NodeState, Resources]] = {}
    for name, letter, index in rows:
        state = _STATES.get(letter)
        if state is None or not 0 <= index < len(columns.amounts):
            raise WireMismatch("not a summary of the cluster: an index is out of range")
        nodes[NodeId(name)] = state, columns.amounts[index]
    return ClusterSummary(nodes, columns.queues)
