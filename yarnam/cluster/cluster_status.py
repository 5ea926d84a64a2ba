"""The state of a cluster, from its processes and from what its daemons report."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from yarnam.cluster import machine_users
from yarnam.cluster.cluster_plan import ClusterPlan, ClusterRecord
from yarnam.cluster.daemons import daemon_probes
from yarnam.cluster.daemons.daemon_processes import read_record
from yarnam.cluster.hadoop.daemon_commands import kind
from yarnam.cluster.shape import Node


@dataclass(frozen=True, slots=True)
class DaemonStatus:
    name: str
    state: str
    pid: int | None
    address: str
    resident_mib: float | None
    log: str


@dataclass(frozen=True, slots=True)
class NodeStatus:
    name: str
    address: str
    rack: str
    state: str
    gpus: int
    gpus_used: int
    gpu_model: str | None
    simulated: bool
    memory_mib: int
    vcores: int
    containers: int


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    name: str
    phase: str
    hadoop_version: str
    java_home: str
    rm_url: str
    namenode_uri: str
    zookeeper: str | None
    conf_dir: str
    daemons: tuple[DaemonStatus, ...]
    nodes: tuple[NodeStatus, ...]
    hdfs: str
    problems: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    """What does not keep jobs from running: other people who could use the cluster, say."""

    @property
    def resident_mib(self) -> float:
        return sum(daemon.resident_mib or 0.0 for daemon in self.daemons)

    @property
    def is_healthy(self) -> bool:
        return self.phase == "ready" and not self.problems

    def to_json(self) -> dict[str, Any]:
        document = asdict(self)
        document["resident_mib"] = round(self.resident_mib, 1)
        document["healthy"] = self.is_healthy
        return document


def cluster_status(record: ClusterRecord) -> ClusterStatus:
    plan = record.plan
    daemons = tuple(_daemon(plan, name) for name in plan.daemons)
    problems = [f"{daemon.name} is {daemon.state}" for daemon in daemons if daemon.state != "up"]
    states: list[daemon_probes.NodeState] = []
    hdfs = "unknown"
    if record.phase == "ready":
        try:
            states = daemon_probes.node_states(plan)
        except daemon_probes.NotReady as missing:
            problems.append(str(missing))
        try:
            hdfs = _hdfs(plan)
            daemon_probes.hdfs_is_writable(plan)
        except daemon_probes.NotReady as missing:
            problems.append(str(missing))
    nodes = _nodes(plan, states)
    exposure = machine_users.open_to_all(
        secure=plan.shape.secure, has_zookeeper=plan.shape.zookeeper
    )
    danger = machine_users.danger_from_others(machine_users.read_machine(), exposure)
    problems += [f"{node.name} is {node.state}" for node in nodes if node.state != "RUNNING"]
    return ClusterStatus(
        name=plan.name,
        phase=record.phase,
        hadoop_version=plan.hadoop_version,
        java_home=str(plan.java_home),
        rm_url=plan.rm_url,
        namenode_uri=plan.namenode_uri,
        zookeeper=plan.zookeeper,
        conf_dir=str(plan.paths.conf),
        daemons=daemons,
        nodes=nodes,
        hdfs=hdfs,
        problems=tuple(problems),
        warnings=(danger,) if danger else (),
    )


def _daemon(plan: ClusterPlan, name: str) -> DaemonStatus:
    identity = read_record(plan.paths.process_record(name))
    alive = identity is not None and identity.is_alive()
    return DaemonStatus(
        name=name,
        state="up" if alive else "dead",
        pid=identity.pid if identity is not None and alive else None,
        address=daemon_address(plan, name),
        resident_mib=identity.resident_mib() if identity is not None and alive else None,
        log=str(plan.paths.log(name)),
    )


def daemon_address(plan: ClusterPlan, name: str) -> str:
    match kind(name):
        case "nn":
            return plan.at_master("namenode_rpc")
        case "rm":
            return f"{plan.resourcemanagers[name]}:{plan.ports['rm_client']}"
        case "kdc":
            return plan.at_master("kdc")
        case "zk":
            return plan.at_master("zookeeper")
        case "dn":
            return f"{plan.datanodes[name].address}:{plan.ports['datanode']}"
        case "nm":
            return f"{plan.node(name).address}:{plan.ports['nm']}"
        case _:
            return f"{next(iter(plan.datanodes.values())).address}:{plan.ports['relay']}"


def _nodes(plan: ClusterPlan, states: list[daemon_probes.NodeState]) -> tuple[NodeStatus, ...]:
    # A running NodeManager hides the lost ones that had its address before.
    known: dict[str, daemon_probes.NodeState] = {}
    for state in states:
        if state.address not in known or state.state == "RUNNING":
            known[state.address] = state
    return tuple(_node(node, known.get(node.address)) for node in plan.nodes)


def _node(node: Node, state: daemon_probes.NodeState | None) -> NodeStatus:
    return NodeStatus(
        name=node.name,
        address=node.address,
        rack=node.rack,
        state=state.state if state is not None else "UNKNOWN",
        gpus=node.gpus,
        gpus_used=state.gpus_used if state is not None else 0,
        gpu_model=node.gpu_model,
        simulated=node.simulated,
        memory_mib=node.memory_mib,
        vcores=node.vcores,
        containers=state.containers if state is not None else 0,
    )


def _hdfs(plan: ClusterPlan) -> str:
    state = daemon_probes.hdfs_state(plan)
    mode = "in safe mode" if state.safe_mode else "writable"
    used = f"{state.used / 2**20:.0f} MiB of {state.capacity / 2**30:.0f} GiB used"
    return f"{mode}, {state.live_datanodes} of {plan.shape.datanodes} DataNodes live, {used}"
