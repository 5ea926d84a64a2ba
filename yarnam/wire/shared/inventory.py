"""The learnt inventory of GPU models as bytes: one small record for a whole cluster."""

from __future__ import annotations

import json
import zlib

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import decode_record, decompress
from yarnam.core.model.gpu_names import Inventory
from yarnam.core.model.ids import NodeId
from yarnam.errors import WireMismatch

MAX_NODES = 50_000
"""YARN is said to carry some 10,000."""
MAX_NAME = 256
"""Characters of a host (DNS allows 253), and of a model."""
MAX_UNPACKED = 2 << 20
"""50,000 names of 40 characters."""


def encode_inventory(inventory: Inventory) -> bytes:
    """Nodes by model, compressed: 10,000 nodes are some 50 kB, and a node of ZooKeeper's holds a
    megabyte."""
    by_model: dict[str, list[str]] = {}
    for node, model in sorted(inventory.models.items()):
        by_model.setdefault(model, []).append(node)
    return zlib.compress(json.dumps({"nodes": by_model}, separators=(",", ":")).encode())


def decode_inventory(data: bytes) -> Inventory:
    """Inverse of ``encode_inventory``, for untrusted bytes. Raises WireMismatch."""
    try:
        text = decompress(data, max_bytes=MAX_UNPACKED)
        by_model = decode_record(text, max_bytes=MAX_UNPACKED).record("nodes")
        models = {
            NodeId(node): model
            for model in by_model
            if len(model) <= MAX_NAME
            for node in by_model.texts(model, max_count=MAX_NODES, max_length=MAX_NAME)
        }
    except MalformedData as error:
        raise WireMismatch(f"not an inventory of GPU models: {error.message}") from error
    if len(models) > MAX_NODES:
        raise WireMismatch(f"an inventory of {len(models)} nodes: at most {MAX_NODES} are read")
    return Inventory(models)
