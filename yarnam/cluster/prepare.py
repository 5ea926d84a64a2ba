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

from yarnam.cluster.addresses import MASTER_PORTS, NODE_PORTS, choose_ports, master_address
from yarnam.cluster.devices import find_devices
from yarnam.cluster.jars import JarCache, repository, shipped_lock
from yarnam.cluster.java import Java, find_java
from yarnam.cluster.places import ClusterPlaces
from yarnam.cluster.plan import ClusterPlan, current_user
from yarnam.cluster.progress import Reporter
from yarnam.cluster.queue_file import queues_of
from yarnam.cluster.shape import ClusterShape, lay_out
from yarnam.cluster.shims import write_shims
from yarnam.cluster.site_files import client_files, daemon_files, write_files


def software(cache: Path, reporter: Reporter) -> tuple[Java, JarCache]:
    """Java and the jars, fetched where they are missing."""
    java = find_java(cache, say=reporter.say)
    jars = JarCache(cache, shipped_lock())
    if jars.missing():
        jars.fill(repository(), reporter)
    return java, jars


def make_plan(
    shape: ClusterShape, places: ClusterPlaces, slot: int, java: Java, jars: JarCache
) -> ClusterPlan:
    nodes = lay_out(shape, slot, () if shape.gpus == "simulated" else find_devices())
    ports = choose_ports(MASTER_PORTS, [master_address(slot)])
    ports |= choose_ports(NODE_PORTS, [node.address for node in nodes])
    return ClusterPlan(
        cluster_id=f"{places.name}-{secrets.token_hex(6)}",
        name=places.name,
        shape=shape,
        slot=slot,
        ports=ports,
        nodes=nodes,
        places=places,
        user=current_user(),
        java_home=java.home,
        jar_folder=jars.folder,
        hadoop_version=jars.lock.hadoop,
    )


def write_cluster(plan: ClusterPlan, queues: str) -> None:
    """Lay down configuration, commands and empty folders."""
    places = plan.places
    write_files(places.conf, client_files(plan, queues))
    machine, hosts = os.uname().nodename, _system_hosts()
    for daemon in plan.daemons:
        write_files(places.daemon_conf(daemon), daemon_files(plan, daemon, machine, hosts))
    write_shims(plan)
    folders = [places.logs, places.data / "tmp", places.container_home, places.hdfs]
    # The jars lack these two folders; without them NameNode and DataNode refuse to start.
    folders += [places.web_base / "webapps" / each for each in ("hdfs", "datanode")]
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
