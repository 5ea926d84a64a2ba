"""The shape of an embedded cluster: how many nodes, racks and GPUs, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args

from yarnam.errors import BadConfig, BadSpec
from yarnam.spec.yaml_tree import plain_document

GpuSource = Literal["auto", "simulated", "real"]
SchedulerName = Literal["fair", "capacity"]

# An address is 127.<cluster>.<rack>.<node>; 0 and 255 stay free, the cluster's masters live on
# rack 0.
MAX_RACKS = 254
MAX_NODES_PER_RACK = 254
# A NodeManager holds about 250 MB: far more than any one machine's memory is a typing error.
MAX_NODES = 256
SIMULATED_GPUS_PER_NODE = 8

HADOOP_VERSION = "3.4.1"
HADOOP_VERSIONS = ("3.1.4", "3.2.4", "3.3.6", HADOOP_VERSION, "3.5.0")
"""Those whose jars are locked, oldest first."""


def is_before(hadoop: str, *version: int) -> bool:
    """Whether this version of Hadoop, as in "3.4.1", is older than ``version``."""
    return tuple(int(part) for part in hadoop.split(".")) < version


_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._/+-]{0,63}")


@dataclass(frozen=True, slots=True)
class NodeOverride:
    """What one node has instead of the cluster-wide value."""

    gpus: int | None = None
    gpu_model: str | None = None
    memory_mib: int | None = None
    vcores: int | None = None


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """A cluster as the user describes it. Everything YARN counts may exceed what the machine
    has."""

    nodes: int = 4
    racks: int = 2
    gpus: GpuSource = "auto"
    gpus_per_node: int | None = None
    gpu_model: str | None = None
    memory_mib: int = 65536
    vcores: int = 64
    datanodes: int = 1
    replication: int = 1
    zookeeper: bool = True
    secure: bool = False
    hadoop: str = HADOOP_VERSION
    resourcemanagers: int = 1
    scheduler: SchedulerName = "fair"
    queues: str | None = None
    nm_expiry_s: int = 10
    heartbeat_ms: int = 1000
    node_overrides: Mapping[str, NodeOverride] = field(default_factory=dict)
    overrides: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(self)

    def to_json(self) -> dict[str, Any]:
        document = asdict(self)
        document["node_overrides"] = {
            name: {key: value for key, value in asdict(override).items() if value is not None}
            for name, override in self.node_overrides.items()
        }
        document["overrides"] = {site: dict(keys) for site, keys in self.overrides.items()}
        return document


@dataclass(frozen=True, slots=True)
class Node:
    """One NodeManager: an address of its own on the loopback network, a rack, its devices."""

    name: str
    address: str
    rack: str
    gpus: int
    devices: tuple[int, ...]
    simulated: bool
    gpu_model: str | None
    memory_mib: int
    vcores: int

    @property
    def device_list(self) -> str:
        """The value of ``YARNAM_NODE_GPUS``: device numbers, marked where none is behind them."""
        numbers = ",".join(str(device) for device in self.devices)
        return f"sim:{numbers}" if self.simulated and numbers else numbers


@dataclass(frozen=True, slots=True)
class PhysicalGpu:
    """A GPU that nvidia-smi reports."""

    index: int
    model: str


SITES = ("core-site", "hdfs-site", "yarn-site")


def check(shape: ClusterShape) -> None:
    """Refuse, with the reason, what could never become a cluster."""
    _check_type(shape, "nodes", 1, MAX_NODES)
    _check_type(shape, "racks", 1, MAX_RACKS)
    _check_type(shape, "memory_mib", 1024, 1 << 30)
    _check_type(shape, "vcores", 1, 1 << 16)
    _check_type(shape, "datanodes", 1, shape.nodes)
    _check_type(shape, "replication", 1, shape.datanodes)
    _check_type(shape, "nm_expiry_s", 3, 86400)
    _check_type(shape, "heartbeat_ms", 100, 60000)
    if not isinstance(shape.secure, bool):
        raise BadConfig(f"secure is {shape.secure!r}", hint="It is true or false.")
    _check_choice(shape, "gpus", get_args(GpuSource))
    _check_choice(shape, "scheduler", get_args(SchedulerName))
    _check_choice(shape, "hadoop", HADOOP_VERSIONS)
    _check_type(shape, "resourcemanagers", 1, 2)
    if shape.racks > shape.nodes:
        raise BadConfig(
            f"{shape.racks} racks for {shape.nodes} nodes leave a rack empty",
            hint="Ask for at most as many racks as nodes.",
        )
    if -(-shape.nodes // shape.racks) > MAX_NODES_PER_RACK:
        raise BadConfig(f"more than {MAX_NODES_PER_RACK} nodes on a rack have no addresses")
    if shape.gpus_per_node is not None:
        _check_type(shape, "gpus_per_node", 0, 1024)
    _check_model(shape.gpu_model, "gpu_model")
    if shape.heartbeat_ms * 2 > shape.nm_expiry_s * 1000:
        raise BadConfig(
            f"heartbeats every {shape.heartbeat_ms} ms cannot keep a node alive"
            f" that expires after {shape.nm_expiry_s} s",
            hint="Make nm_expiry_s at least twice heartbeat_ms.",
        )
    _check_combinations(shape)
    _check_overrides(shape)


def _check_combinations(shape: ClusterShape) -> None:
    if shape.secure and shape.hadoop != HADOOP_VERSION:
        raise BadConfig(
            f"a secure cluster of Hadoop {shape.hadoop} is not known to work",
            hint=f"Leave out secure, or take Hadoop {HADOOP_VERSION}.",
        )
    if shape.resourcemanagers > 1 and not has_zookeeper_store(shape):
        raise BadConfig(
            "two ResourceManagers need ZooKeeper, in which they keep their applications",
            hint="Leave out zookeeper: false, and take Hadoop 3.3 or later.",
        )


def has_zookeeper_store(shape: ClusterShape) -> bool:
    """Whether the ResourceManager keeps its state in ZooKeeper. The ZooKeeper client of Hadoop
    before 3.3 finds no server with Java 14 and later ("Unable to canonicalize address")."""
    return shape.zookeeper and not is_before(shape.hadoop, 3, 3)


def _check_type(shape: ClusterShape, key: str, least: int, most: int) -> None:
    value = getattr(shape, key)
    # bool is an int to Python, but `nodes: yes` is a mistake to a person.
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadConfig(f"{key} is {value!r}, not a whole number")
    if not least <= value <= most:
        raise BadConfig(f"{key} is {value}", hint=f"It must be from {least} to {most}.")


def _check_choice(shape: ClusterShape, key: str, choices: tuple[str, ...]) -> None:
    value = getattr(shape, key)
    if value not in choices:
        raise BadConfig(f"{key} is '{value}'", hint=f"It is one of {', '.join(choices)}.")


def _check_model(model: object, key: str) -> None:
    if model is not None and not (isinstance(model, str) and _MODEL.fullmatch(model)):
        raise BadConfig(
            f"{key} is {model!r}", hint="A model is up to 64 letters, digits and ' ._/+-'."
        )


def _check_overrides(shape: ClusterShape) -> None:
    names = [f"nm{number}" for number in range(1, shape.nodes + 1)]
    for name, override in shape.node_overrides.items():
        if name not in names:
            raise BadConfig(
                f"node_overrides names '{name}', which this cluster does not have",
                hint=f"Its nodes are {names[0]} to {names[-1]}.",
            )
        _check_model(override.gpu_model, f"node_overrides.{name}.gpu_model")
        for key, least in (("gpus", 0), ("memory_mib", 1024), ("vcores", 1)):
            value = getattr(override, key)
            if value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise BadConfig(
                    f"node_overrides.{name}.{key} is {value!r}",
                    hint=f"It must be a whole number from {least}.",
                )
    for site, keys in shape.overrides.items():
        if site not in SITES:
            raise BadConfig(f"overrides names '{site}'", hint=f"It may hold {', '.join(SITES)}.")
        if not isinstance(keys, Mapping):
            raise BadConfig(f"overrides.{site} must map property names to values")


def read_shape(path: Path) -> ClusterShape:
    """Read a shape from a YAML file; an unknown key is an error, not a surprise later."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadConfig(f"{path}: {error.strerror or error}") from error
    try:
        document = plain_document(text, str(path))
    except BadSpec as error:
        raise BadConfig(error.message) from error
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise BadConfig(f"{path}: a cluster's shape is a mapping, not a {type(document).__name__}")
    queues = document.get("queues")
    if isinstance(queues, str):
        # A file names its neighbours relative to itself.
        document["queues"] = str((path.parent / queues).absolute())
    try:
        return shape_from_mapping(document)
    except BadConfig as error:
        raise BadConfig(f"{path}: {error.message}", hint=error.hint) from error


def shape_from_mapping(document: Mapping[str, Any]) -> ClusterShape:
    _refuse_unknown(document, [each.name for each in fields(ClusterShape)], "")
    values = dict(document)
    overrides = values.get("node_overrides") or {}
    if not isinstance(overrides, Mapping):
        raise BadConfig("node_overrides must map node names to their differences")
    known = [each.name for each in fields(NodeOverride)]
    nodes: dict[str, NodeOverride] = {}
    for name, override in overrides.items():
        if not isinstance(override, Mapping):
            raise BadConfig(f"node_overrides.{name} must be a mapping")
        _refuse_unknown(override, known, f"node_overrides.{name}.")
        nodes[str(name)] = NodeOverride(**override)
    values["node_overrides"] = nodes
    sites = values.get("overrides") or {}
    if not isinstance(sites, Mapping):
        raise BadConfig("overrides must map site files to properties")
    values["overrides"] = {
        site: {str(key): _property(value) for key, value in keys.items()}
        if isinstance(keys, Mapping)
        else keys
        for site, keys in sites.items()
    }
    return ClusterShape(**values)


def _property(value: object) -> str:
    # Hadoop spells truth in lower case; YAML has already turned it into a bool.
    return str(value).lower() if isinstance(value, bool) else str(value)


def _refuse_unknown(document: Mapping[str, Any], known: list[str], prefix: str) -> None:
    for key in document:
        if key in known:
            continue
        close = get_close_matches(str(key), known, n=1)
        hint = f"Did you mean '{close[0]}'?" if close else f"Known keys: {', '.join(known)}."
        raise BadConfig(f"unknown key '{prefix}{key}'", hint=hint)


def master_address(slot: int, number: int = 1) -> str:
    """Where the masters of the cluster on network 127.``slot`` live; the second ResourceManager on
    an address of its own."""
    return f"127.{slot}.0.{number}"


def assign_nodes(
    shape: ClusterShape, slot: int, found: tuple[PhysicalGpu, ...]
) -> tuple[Node, ...]:
    """Give each node a rack, an address and devices. Racks are filled one after the other (nm1 and
    nm2 on rack1, nm3 and nm4 on rack2), so that neighbours in name are neighbours in the rack.
    ``found`` are the machine's real GPUs."""
    share, odd = divmod(shape.nodes, shape.racks)
    sizes = [share + (1 if rack < odd else 0) for rack in range(shape.racks)]
    places = [(rack, number) for rack, size in enumerate(sizes, 1) for number in range(1, size + 1)]
    counts, simulated = _gpu_counts(shape, found)
    nodes = []
    first = 0
    for index, (rack, number) in enumerate(places):
        name = f"nm{index + 1}"
        override = shape.node_overrides.get(name, NodeOverride())
        count = counts[index]
        real = () if simulated else found[first : first + count]
        first += count
        model = override.gpu_model or shape.gpu_model or (real[0].model if real else None)
        nodes.append(
            Node(
                name=name,
                address=f"127.{slot}.{rack}.{number}",
                rack=f"/rack{rack}",
                gpus=count,
                devices=tuple(range(count)) if simulated else tuple(each.index for each in real),
                simulated=simulated,
                gpu_model=model if count else None,
                memory_mib=override.memory_mib or shape.memory_mib,
                vcores=override.vcores or shape.vcores,
            )
        )
    return tuple(nodes)


def _gpu_counts(shape: ClusterShape, found: tuple[PhysicalGpu, ...]) -> tuple[list[int], bool]:
    """How many GPUs each node gets, and whether they are simulated."""
    if shape.gpus == "real" and not found:
        raise BadConfig(
            "gpus is 'real', but nvidia-smi finds none on this machine",
            hint="Use 'simulated', or 'auto' to take real ones where there are any.",
        )
    requested = [
        override.gpus if override and override.gpus is not None else shape.gpus_per_node
        for override in (shape.node_overrides.get(f"nm{i + 1}") for i in range(shape.nodes))
    ]
    # A count that was asked for is kept to: `auto` never hands out fewer GPUs than the user wrote.
    counted = any(count is not None for count in requested)
    if shape.gpus == "simulated" or not found or (shape.gpus == "auto" and counted):
        return [SIMULATED_GPUS_PER_NODE if count is None else count for count in requested], True
    if not counted:
        share, odd = divmod(len(found), shape.nodes)
        return [share + (1 if i < odd else 0) for i in range(shape.nodes)], False
    counts = [count or 0 for count in requested]
    if sum(counts) > len(found):
        raise BadConfig(
            f"the nodes ask for {sum(counts)} real GPUs, this machine has {len(found)}",
            hint="Ask for fewer, or set gpus to 'simulated'.",
        )
    return counts, False


def datanode_hosts(nodes: tuple[Node, ...], count: int) -> tuple[Node, ...]:
    """Where the DataNodes live: on nodes of different racks first, so that replicas spread."""
    racks: dict[str, list[Node]] = {}
    for node in nodes:
        racks.setdefault(node.rack, []).append(node)
    order = []
    for depth in range(max(len(members) for members in racks.values())):
        order += [members[depth] for members in racks.values() if depth < len(members)]
    return tuple(order[:count])


def with_absolute_queues(shape: ClusterShape, base: Path) -> ClusterShape:
    if shape.queues is None:
        return shape
    return replace(shape, queues=str((base / shape.queues).absolute()))
