"""Damages block files on the disks of a cluster's DataNodes."""

from __future__ import annotations

import re
import urllib.request
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from yarnam.adapters.yarn.addresses import read_settings

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster


def web_address(cluster: EmbeddedCluster) -> str:
    """Of the NameNode."""
    return str(read_settings(cluster.conf_dir, "hdfs-site.xml")["dfs.namenode.http-address"])


def damage_one_replica(cluster: EmbeddedCluster, path: str, replicas: int = 1) -> str:
    """Change one byte of one replica of the file's only block; returns the block's name."""
    query = urlencode({"ugi": "root", "path": path, "files": 1, "blocks": 1})
    with urllib.request.urlopen(f"http://{web_address(cluster)}/fsck?{query}", timeout=10) as told:
        block = re.search(r"blk_\d+", told.read().decode())
    assert block
    stored = sorted(cluster.paths.data.glob(f"hdfs/**/current/**/{block[0]}"))
    assert len(stored) == replicas
    data = bytearray(stored[0].read_bytes())
    data[len(data) // 2] ^= 1
    stored[0].write_bytes(data)
    return block[0]
