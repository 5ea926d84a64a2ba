"""How many bytes of files each host and rack stores."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass

from hdfs_utils.filesystem import FileSystem

_THREADS = 8


@dataclass(frozen=True, slots=True)
class ReplicaLocality:
    """Bytes of a tree with a replica on each host and on each rack; a byte counts once for each.

    ``racks`` is empty where the NameNode could not be asked for them.
    """

    files: int
    size: int
    hosts: tuple[tuple[str, int], ...]
    racks: tuple[tuple[str, int], ...]


def replica_locality(fs: FileSystem, path: str) -> ReplicaLocality:
    """Ask for the blocks of every file at or below ``path``.

    Raises:
        NotFound: nothing is there.
        NotSupported: this file system cannot tell.
    """
    from hdfs_utils.concurrency.worker_pool import WorkerPool
    from hdfs_utils.transfer.scan import path_below, scan

    root = fs.own_path(path)
    files = [entry for entry in scan(fs, root) if not entry.is_dir]
    hosts: Counter[str] = Counter()
    racks: Counter[str] = Counter()
    lock = threading.Lock()

    def ask(relative: str) -> None:
        for block in fs.block_locations(path_below(root, relative)):
            with lock:
                for host in set(block.hosts):
                    hosts[host] += block.length
                for rack in set(block.racks):
                    racks[rack] += block.length

    WorkerPool(min(_THREADS, max(len(files), 1))).run(ask, [entry.relative for entry in files])
    return ReplicaLocality(
        len(files),
        sum(entry.size for entry in files),
        tuple(sorted(hosts.items(), key=lambda item: (-item[1], item[0]))),
        tuple(sorted(racks.items(), key=lambda item: (-item[1], item[0]))),
    )
