"""Everything that is decided about a cluster before its first process starts."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from yarnam.cluster.addresses import master_address
from yarnam.cluster.places import ClusterPlaces
from yarnam.cluster.shape import ClusterShape, Node, datanode_hosts


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The shape laid out: addresses, ports, nodes and devices, Java and jars."""

    cluster_id: str
    name: str
    shape: ClusterShape
    slot: int
    ports: Mapping[str, int]
    nodes: tuple[Node, ...]
    places: ClusterPlaces
    user: str
    java_home: Path
    jar_folder: Path
    hadoop_version: str

    @property
    def master(self) -> str:
        return master_address(self.slot)

    def at_master(self, port: str) -> str:
        return f"{self.master}:{self.ports[port]}"

    @property
    def namenode_uri(self) -> str:
        return f"hdfs://{self.at_master('namenode_rpc')}"

    @property
    def namenode_web(self) -> str:
        return f"http://{self.at_master('namenode_web')}"

    @property
    def rm_url(self) -> str:
        return f"http://{self.at_master('rm_web')}"

    @property
    def zookeeper(self) -> str | None:
        return self.at_master("zookeeper") if self.shape.zookeeper else None

    @property
    def datanodes(self) -> dict[str, Node]:
        """DataNode name to the node it shares an address with."""
        hosts = datanode_hosts(self.nodes, self.shape.datanodes)
        return {f"dn{number}": node for number, node in enumerate(hosts, 1)}

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    @property
    def daemons(self) -> tuple[str, ...]:
        """Names of all daemons, in the order in which they are started."""
        zookeeper = ("zk",) if self.shape.zookeeper else ()
        # The ResourceManager takes longest. It starts while HDFS is being formatted.
        masters = ("relay", *zookeeper, "rm", "nn")
        return (*masters, *self.datanodes, *(node.name for node in self.nodes))

    def to_json(self) -> dict[str, Any]:
        return {
            "cluster_id": self.cluster_id,
            "name": self.name,
            "shape": self.shape.to_json(),
            "slot": self.slot,
            "ports": dict(self.ports),
            "nodes": [asdict(node) for node in self.nodes],
            "user": self.user,
            "java_home": str(self.java_home),
            "jar_folder": str(self.jar_folder),
            "hadoop_version": self.hadoop_version,
        }


def current_user(environ: Mapping[str, str] = os.environ) -> str:
    """The name under which Hadoop's simple authentication knows this user.

    HADOOP_USER_NAME is deliberately not obeyed: the daemons run as who they are. Nor is USER, which
    su and sudo may leave behind from somebody else: Hadoop asks the system.
    """
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        # A uid without a passwd entry, as containers have: Hadoop asks the JVM, which says this.
        return environ.get("USER") or f"uid{os.getuid()}"
