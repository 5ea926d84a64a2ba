"""Everything that is decided about a cluster before its first process starts, and the record of it
on disk, by which any later command finds and ends the cluster."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from yarnam.cluster.cluster_paths import ClusterPaths
from yarnam.cluster.shape import (
    ClusterShape,
    Node,
    datanode_hosts,
    master_address,
    shape_from_mapping,
)
from yarnam.errors import BadConfig

# starting: processes may exist, none can be relied on. ready: `up` has succeeded. failed: `up`
# has failed and cleaned up; logs are there to read. kept: down, with the data of HDFS kept.
Phase = Literal["starting", "ready", "failed", "kept"]
FORMAT = 1


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The shape laid out: addresses, ports, nodes and devices, Java and jars."""

    cluster_id: str
    name: str
    shape: ClusterShape
    slot: int
    ports: Mapping[str, int]
    nodes: tuple[Node, ...]
    paths: ClusterPaths
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
        if self.shape.secure:
            return f"https://{self.at_master('namenode_https')}"
        return f"http://{self.at_master('namenode_web')}"

    @property
    def resourcemanagers(self) -> dict[str, str]:
        """Daemon to address."""
        names = ("rm", *(f"rm{n}" for n in range(2, self.shape.resourcemanagers + 1)))
        return {name: master_address(self.slot, n) for n, name in enumerate(names, 1)}

    @property
    def addresses(self) -> tuple[str, ...]:
        """Loopback addresses of its masters and nodes."""
        return (*self.resourcemanagers.values(), *(node.address for node in self.nodes))

    @property
    def rm_url(self) -> str:
        """The web URL of the first ResourceManager."""
        return self.rm_urls["rm"]

    @property
    def rm_urls(self) -> dict[str, str]:
        """Daemon to its web address."""
        scheme, port = "https" if self.shape.secure else "http", self.ports["rm_web"]
        return {name: f"{scheme}://{host}:{port}" for name, host in self.resourcemanagers.items()}

    @property
    def kdc_jar_folder(self) -> Path:
        return self.jar_folder.with_name(f"{self.jar_folder.name}-kdc")

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
        masters = ("relay", *zookeeper, *self.resourcemanagers, "nn")
        # Who starts without a ticket dies.
        kdc = ("kdc",) if self.shape.secure else ()
        return (*kdc, *masters, *self.datanodes, *(node.name for node in self.nodes))

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


def current_user() -> str:
    """The name under which Hadoop's simple authentication knows this user. HADOOP_USER_NAME is
    deliberately not obeyed: the daemons run as who they are. Nor is USER, which su and sudo may
    leave behind from somebody else: Hadoop asks the system."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        # A uid without a passwd entry, as containers have: Hadoop asks the JVM, which returns this.
        return os.environ.get("USER") or f"uid{os.getuid()}"


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    plan: ClusterPlan
    phase: Phase


def save_cluster(record: ClusterRecord) -> None:
    path = record.plan.paths.record
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"format": FORMAT, "phase": record.phase, **record.plan.to_json()}
    scratch = path.with_suffix(".part")
    scratch.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    scratch.replace(path)


def load_cluster(paths: ClusterPaths) -> ClusterRecord | None:
    """The record, or None where there is none; an unreadable one is an error, not nothing."""
    try:
        text = paths.record.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadConfig(f"{paths.record}: {error.strerror or error}") from error
    try:
        document: dict[str, Any] = json.loads(text)
        if document["format"] != FORMAT:
            raise BadConfig(
                f"{paths.record} has format {document['format']}, this yarnam knows {FORMAT}",
                hint="Take that cluster down with the yarnam that started it.",
            )
        return _record(document, paths)
    except (ValueError, KeyError, TypeError) as error:
        raise BadConfig(
            f"{paths.record} is damaged: {error!r}", hint=f"yarnam cluster down --name {paths.name}"
        ) from error


def _record(document: dict[str, Any], paths: ClusterPaths) -> ClusterRecord:
    nodes = tuple(Node(**{**node, "devices": tuple(node["devices"])}) for node in document["nodes"])
    plan = ClusterPlan(
        cluster_id=str(document["cluster_id"]),
        name=paths.name,
        shape=shape_from_mapping(document["shape"]),
        slot=int(document["slot"]),
        ports={str(name): int(port) for name, port in document["ports"].items()},
        nodes=nodes,
        paths=paths,
        user=str(document["user"]),
        java_home=Path(document["java_home"]),
        jar_folder=Path(document["jar_folder"]),
        hadoop_version=str(document["hadoop_version"]),
    )
    return ClusterRecord(plan, document["phase"])


def read_cluster_id(paths: ClusterPaths) -> str | None:
    """The mark of the cluster's processes, also from a record that is otherwise unreadable."""
    try:
        return str(json.loads(paths.record.read_text(encoding="utf-8"))["cluster_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def recorded_slots(base: Path) -> set[int]:
    """Slots of all clusters under ``base``, running or not: a restart needs its own again."""
    slots = set()
    for path in base.glob("*/cluster.json"):
        try:
            slots.add(int(json.loads(path.read_text(encoding="utf-8"))["slot"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return slots
