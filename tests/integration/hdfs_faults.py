"""An HDFS of the test's own, and what may be done to it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

YARNAM = str(Path(sys.executable).parent / "yarnam")


@contextmanager
def own_cluster(name: str, state_home: Path) -> Iterator[EmbeddedCluster]:
    """Two nodes with a DataNode each: its faults meet no other test."""
    from yarnam.cluster import EmbeddedCluster
    from yarnam.cluster.cluster_paths import clusters_dir

    state = {**os.environ, "XDG_STATE_HOME": str(state_home)}
    yarnam = [YARNAM, "cluster"]
    shape = ["--nodes=2", "--racks=1", "--datanodes=2", "--no-zookeeper", "--quiet"]
    try:
        subprocess.run([*yarnam, "up", "--name", name, *shape], env=state, check=True)
        yield EmbeddedCluster(name=name, state_root=clusters_dir(state))
    finally:
        subprocess.run([*yarnam, "down", "--name", name], env=state, check=True)


def start(own: EmbeddedCluster, *daemons: str) -> None:
    """By the command: this process would be the daemon's parent and have to wait for its end."""
    env = {**os.environ, "XDG_STATE_HOME": str(own.paths.root.parents[2])}
    for daemon in daemons:
        command = [YARNAM, "cluster", "start", "--name", own.name, daemon]
        subprocess.run(command, env=env, check=True)


def safe_mode(own: EmbeddedCluster, how: str) -> None:
    command = ["hdfs", "dfsadmin", "-safemode", how]
    subprocess.run(command, env=own.environ(), check=True, capture_output=True)
