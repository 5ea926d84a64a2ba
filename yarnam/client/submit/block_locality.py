"""Where the blocks of a job's inputs lie, asked of HDFS before the placement is chosen.

A hint, no more: whatever is not known in a few seconds is skipped, and no job is refused for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from urllib.parse import urlsplit

from hdfs_utils import FileSystem, HdfsError
from hdfs_utils.filesystem import BlockLocation
from yarnam._light_imports import on_first_use
from yarnam.client.site import Site
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.snapshot import NO_DATA, BytesByNode, ClusterSnapshot, bytes_by_node

with on_first_use():
    from yarnam.client.submit import input_files

LIMIT_S = 3.0
"""Limit for all requests together, in seconds. The NameNode answers in milliseconds per file; a
user at a prompt notices more."""
MAX_LISTED_FILES = 20_000
"""Files listed."""
MAX_LOCATED_FILES = 400
"""Files whose blocks are asked for; of more, every n-th, so that all parts of an input count."""
PARALLEL_REQUESTS = 16

Hosts = dict[str, tuple[NodeId, RackId]]


def input_bytes_by_node(site: Site, job: JobSpec, snapshot: ClusterSnapshot) -> BytesByNode:
    """Bytes of the job's inputs by node and rack; empty if the job does not want it, has no inputs
    on this cluster's HDFS, or HDFS does not report it."""
    if not job.placement.near_data or not job.inputs or len(snapshot.nodes) < 2:
        return NO_DATA
    deadline = time.monotonic() + LIMIT_S
    paths = [
        (path, item.pattern) for item in job.inputs if (path := _own_path(site.files, item.uri))
    ]
    files = list(islice(_files(site.files, paths, deadline), MAX_LISTED_FILES))
    if not files:
        return NO_DATA
    step = -(-len(files) // MAX_LOCATED_FILES)
    chosen = files[::step]
    with ThreadPoolExecutor(PARALLEL_REQUESTS, thread_name_prefix="blocks") as pool:
        found = list(pool.map(lambda path: _blocks(site.files, path, deadline), chosen))
    known = [blocks for blocks in found if blocks is not None]
    hosts = _hosts(snapshot)
    placed = (
        (block.length, [hosts[name] for name in _names(block) if name in hosts])
        for blocks in known
        for block in blocks
    )
    is_sample = step > 1 or len(known) < len(chosen) or len(files) == MAX_LISTED_FILES
    return bytes_by_node(placed, is_sample=is_sample)


def _own_path(files: FileSystem, uri: str) -> str:
    """Empty means on another file system, whose blocks are not on these nodes."""
    parts = urlsplit(uri)
    if parts.scheme and parts.netloc and not files.uri.endswith(f"//{parts.netloc}"):
        return ""
    return parts.path if parts.scheme else uri


def _files(files: FileSystem, paths: list[tuple[str, str]], deadline: float) -> Iterator[str]:
    for path, pattern in paths:
        try:
            for one in input_files.input_files(files, path, pattern):
                if time.monotonic() > deadline:
                    return
                if one.length:
                    yield one.path
        except HdfsError:
            continue  # the check of the inputs reports the problem


def _blocks(files: FileSystem, path: str, deadline: float) -> tuple[BlockLocation, ...] | None:
    if time.monotonic() > deadline:
        return None
    try:
        return files.block_locations(path)
    except HdfsError:
        return None


def _hosts(snapshot: ClusterSnapshot) -> Hosts:
    """Nodes by their names. A DataNode and a NodeManager of one host may have registered one with
    the domain and the other without."""
    found: Hosts = {}
    for node in snapshot.nodes:
        place = (node.node_id, node.rack)
        found[node.node_id] = place
        if not node.node_id.replace(".", "").isdigit():
            found.setdefault(node.node_id.partition(".")[0], place)
    return found


def _names(block: BlockLocation) -> Iterator[str]:
    """The nodes that hold a replica, by their known names or else without their domain. Each host
    counts once."""
    for host in dict.fromkeys(block.hosts):
        yield host
        short = host.partition(".")[0]
        if short != host and not short.isdigit():
            yield short
