"""Everything an `up` needs before its first process: Java, jars, addresses, files."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from yarnam.cluster.cluster_paths import ClusterPaths
from yarnam.cluster.cluster_plan import ClusterPlan, current_user
from yarnam.cluster.daemons.loopback_addresses import MASTER_PORTS, NODE_PORTS, choose_ports
from yarnam.cluster.hadoop import cluster_tls, kerberos_realm
from yarnam.cluster.hadoop.queue_file import queues_of
from yarnam.cluster.hadoop.shims import write_shims
from yarnam.cluster.hadoop.site_files import client_files, daemon_files, write_files
from yarnam.cluster.reporters import Reporter
from yarnam.cluster.shape import ClusterShape, assign_nodes, master_address
from yarnam.cluster.software.jar_cache import KDC_VERSION, JarCache, repository, shipped_lock
from yarnam.cluster.software.java import Java, find_java
from yarnam.cluster.software.physical_gpus import find_physical_gpus


def software(cache: Path, reporter: Reporter, shape: ClusterShape) -> tuple[Java, JarCache]:
    """Java and the jars, fetched where they are missing; for a secure cluster the KDC's too."""
    java = find_java(cache, report=reporter.message)
    jars = JarCache(cache, shipped_lock(shape.hadoop))
    for each in (jars, JarCache(cache, shipped_lock(KDC_VERSION))) if shape.secure else (jars,):
        if each.missing():
            each.fill(repository(), reporter)
    return java, jars


def make_plan(
    shape: ClusterShape, paths: ClusterPaths, slot: int, java: Java, jars: JarCache
) -> ClusterPlan:
    nodes = assign_nodes(shape, slot, () if shape.gpus == "simulated" else find_physical_gpus())
    ports = choose_ports(
        MASTER_PORTS, [master_address(slot, n) for n in range(1, shape.resourcemanagers + 1)]
    )
    ports |= choose_ports(NODE_PORTS, [node.address for node in nodes])
    return ClusterPlan(
        cluster_id=f"{paths.name}-{secrets.token_hex(6)}",
        name=paths.name,
        shape=shape,
        slot=slot,
        ports=ports,
        nodes=nodes,
        paths=paths,
        user=current_user(),
        java_home=java.home,
        jar_folder=jars.folder,
        hadoop_version=jars.lock.hadoop,
    )


def write_cluster(plan: ClusterPlan, queues: str) -> None:
    """Lay down configuration, commands and empty folders."""
    paths = plan.paths
    write_files(paths.conf, client_files(plan, queues))
    machine, hosts = os.uname().nodename, _system_hosts()
    for daemon in plan.daemons:
        write_files(paths.daemon_conf(daemon), daemon_files(plan, daemon, machine, hosts))
    if plan.shape.secure:
        kerberos_realm.write_realm(plan)
        cluster_tls.write_tls(plan)
    write_shims(plan)
    folders = [paths.logs, paths.data / "tmp", paths.container_home, paths.hdfs]
    # The jars lack these two folders; without them NameNode and DataNode refuse to start.
    folders += [paths.web_base / "webapps" / each for each in ("hdfs", "datanode")]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)


def _system_hosts() -> str:
    try:
        return Path("/etc/hosts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def remove_tree(path: Path) -> None:
    """Delete a folder, also where containers left folders without write permission."""

    def retry(action: Callable[[str], Any], name: str, _: object) -> None:
        if not os.path.lexists(name):
            return  # a container's own clearing up, or another `down`, was there first
        parent = Path(name).parent
        for each in (parent, Path(name)):
            if each.is_dir() and not each.is_symlink():
                each.chmod(each.stat().st_mode | stat.S_IRWXU)
        if Path(name).is_dir() and not Path(name).is_symlink() and action is not os.rmdir:
            shutil.rmtree(name)
        else:
            action(name)

    if not path.exists():
        return
    if sys.version_info >= (3, 12):
        shutil.rmtree(path, onexc=retry)
    else:
        shutil.rmtree(path, onerror=retry)


__all__ = ["make_plan", "queues_of", "remove_tree", "software", "write_cluster"]
