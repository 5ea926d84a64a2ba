"""The learnt inventory of GPU models as bytes: one small record for a whole cluster."""

from __future__ import annotations

import json
import zlib

from yarnam.core.model.gpu_names import Inventory
from yarnam.core.model.ids import NodeId


def encode_inventory(inventory: Inventory) -> bytes:
    """Nodes by model, compressed: 10,000 nodes are some 50 kB, and a node of ZooKeeper's holds a
    megabyte."""
    by_model: dict[str, list[str]] = {}
    for node, model in sorted(inventory.models.items()):
        by_model.setdefault(model, []).append(node)
    return zlib.compress(json.dumps({"nodes": by_model}, separators=(",", ":")).encode())


def decode_inventory(data: bytes) -> Inventory:
    """Nothing learnt where it cannot be read: it is learnt again."""
    try:
        by_model = json.loads(zlib.decompress(data))["nodes"]
        models = {
            NodeId(str(node)): str(model) for model, nodes in by_model.items() for node in nodes
        }
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError):
        models = {}
    return Inventory(models)
