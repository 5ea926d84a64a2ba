"""Ask daemons how they are, over the protocols their users speak."""

from __future__ import annotations

import http.client
import json
import socket
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

from yarnam.cluster.plan import ClusterPlan
from yarnam.cluster.site_files import GPU

# A daemon that is up answers in milliseconds; a busy machine may take a little longer.
ANSWER_LIMIT_S = 5.0

# No proxy stands between us and loopback, whatever the proxy variables say.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class NotReady(Exception):
    """Not yet; the text says what is missing."""


def get_json(url: str) -> Any:
    return _answer(url, "GET")


def _answer(url: str, method: str) -> Any:
    """The JSON that comes back; an empty answer counts as an empty object."""
    request = urllib.request.Request(  # noqa: S310 - always the cluster's own http address
        url, method=method, headers={"Accept": "application/json"}
    )
    try:
        with _direct.open(request, timeout=ANSWER_LIMIT_S) as answer:
            body = answer.read()
            return json.loads(body) if body else {}
    except urllib.error.HTTPError as error:
        # It holds the answer, and with it the connection.
        error.close()
        raise NotReady(f"{url} answers {error.code}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotReady(f"{url}: {getattr(error, 'reason', None) or error}") from error


def _bean(base: str, service: str, name: str) -> dict[str, Any]:
    query = urllib.parse.quote(f"Hadoop:service={service},name={name}")
    beans = get_json(f"{base}/jmx?qry={query}").get("beans") or [{}]
    return dict(beans[0])


def _namenode(plan: ClusterPlan, bean: str, *names: str) -> list[Any]:
    """Attributes of the NameNode; a daemon that is still starting leaves some out."""
    found = _bean(plan.namenode_web, "NameNode", bean)
    if missing := [name for name in names if name not in found]:
        raise NotReady(f"the NameNode does not tell {', '.join(missing)} yet")
    return [found[name] for name in names]


@dataclass(frozen=True, slots=True)
class HdfsState:
    live_datanodes: int
    safe_mode: str
    capacity: int
    used: int


def hdfs_state(plan: ClusterPlan) -> HdfsState:
    live, capacity, used = _namenode(
        plan, "FSNamesystemState", "NumLiveDataNodes", "CapacityTotal", "CapacityUsed"
    )
    (safe_mode,) = _namenode(plan, "NameNodeInfo", "Safemode")
    return HdfsState(int(live), str(safe_mode), int(capacity), int(used))


def namenode_answers(plan: ClusterPlan) -> None:
    _namenode(plan, "NameNodeInfo", "Safemode")


def datanode_is_live(plan: ClusterPlan, name: str) -> None:
    # The NameNode believes in a killed DataNode for a while; the new one knows about itself.
    node = plan.datanodes[name]
    base = f"http://{node.address}:{plan.ports['datanode_web']}"
    actors = json.loads(_bean(base, "DataNode", "DataNodeInfo").get("BPServiceActorInfo", "[]"))
    if not actors or any(actor.get("ActorState") != "RUNNING" for actor in actors):
        raise NotReady(f"{name} is not connected to the NameNode")
    (live,) = _namenode(plan, "NameNodeInfo", "LiveNodes")
    address = f"{node.address}:{plan.ports['datanode']}"
    mine = [each for each in json.loads(live).values() if each.get("xferaddr") == address]
    if not mine or mine[0].get("adminState") != "In Service":
        raise NotReady(f"{name} has not registered with the NameNode")


def hdfs_is_writable(plan: ClusterPlan) -> None:
    state = hdfs_state(plan)
    if state.live_datanodes < plan.shape.datanodes:
        raise NotReady(f"{state.live_datanodes} of {plan.shape.datanodes} DataNodes are live")
    if state.safe_mode:
        raise NotReady(f"HDFS is in safe mode: {state.safe_mode}")


def make_directory(plan: ClusterPlan, path: str, mode: str, owner: str | None = None) -> None:
    base = f"{plan.namenode_web}/webhdfs/v1{urllib.parse.quote(path)}"
    user = urllib.parse.quote(plan.user)
    answer = _answer(f"{base}?op=MKDIRS&permission={mode}&user.name={user}", "PUT")
    if not answer.get("boolean"):
        raise NotReady(f"HDFS did not make {path}: {answer}")
    # MKDIRS leaves the mode of a folder that was there alone, and cannot set the sticky bit on
    # every version.
    _answer(f"{base}?op=SETPERMISSION&permission={mode}&user.name={user}", "PUT")
    if owner is not None:
        _answer(f"{base}?op=SETOWNER&owner={urllib.parse.quote(owner)}&user.name={user}", "PUT")


@dataclass(frozen=True, slots=True)
class NodeState:
    address: str
    state: str
    rack: str
    gpus: int
    gpus_used: int
    memory_mib: int
    vcores: int
    containers: int
    health: str
    health_at: float


def rm_answers(plan: ClusterPlan) -> None:
    info = get_json(f"{plan.rm_url}/ws/v1/cluster/info")["clusterInfo"]
    # The pages are there before the applications of a former life have been recovered.
    if info.get("haState") != "ACTIVE":
        raise NotReady(f"the ResourceManager is {info.get('haState')}")


def node_states(plan: ClusterPlan) -> list[NodeState]:
    answer = get_json(f"{plan.rm_url}/ws/v1/cluster/nodes")
    return parse_nodes(answer)


def parse_nodes(answer: dict[str, Any]) -> list[NodeState]:
    rows = (answer.get("nodes") or {}).get("node") or []
    return [
        NodeState(
            address=row["nodeHostName"],
            state=row["state"],
            rack=row["rack"],
            gpus=_gpus(row.get("totalResource")),
            gpus_used=_gpus(row.get("usedResource")),
            memory_mib=int((row.get("totalResource") or {}).get("memory", 0)),
            vcores=int((row.get("totalResource") or {}).get("vCores", 0)),
            containers=int(row.get("numContainers", 0)),
            health=row.get("healthReport") or "",
            health_at=int(row.get("lastHealthUpdate", 0)) / 1000,
        )
        for row in rows
    ]


def _gpus(resource: dict[str, Any] | None) -> int:
    details = (resource or {}).get("resourceInformations", {}).get("resourceInformation", [])
    return next((int(each["value"]) for each in details if each["name"] == GPU), 0)


def node_is_running(
    plan: ClusterPlan, name: str, states: list[NodeState], born: float = 0.0
) -> None:
    """The node is registered as planned, and it is the life that began at ``born``.

    The RM believes in a killed node until it expires, and a former life may stand beside the new
    one in its list.
    """
    node = plan.node(name)
    mine = [state for state in states if state.address == node.address]
    mine = [state for state in mine if state.health_at >= born]
    running = [state for state in mine if state.state == "RUNNING"]
    if not running:
        raise NotReady(
            f"{name} is {mine[-1].state} {mine[-1].health}".rstrip()
            if mine
            else f"{name} is not registered"
        )
    if running[0].gpus != node.gpus:
        raise NotReady(f"{name} registered {running[0].gpus} GPUs instead of {node.gpus}")
    if running[0].rack != node.rack:
        raise NotReady(f"{name} registered on {running[0].rack} instead of {node.rack}")


def relay_listens(plan: ClusterPlan) -> None:
    for node in plan.datanodes.values():
        try:
            socket.create_connection((node.address, plan.ports["relay"]), ANSWER_LIMIT_S).close()
        except OSError as error:
            raise NotReady(f"the relay: {error}") from error


def zookeeper_answers(plan: ClusterPlan) -> None:
    try:
        with socket.create_connection(
            (plan.master, plan.ports["zookeeper"]), timeout=ANSWER_LIMIT_S
        ) as connection:
            connection.sendall(b"ruok")
            answer = connection.recv(16)
    except OSError as error:
        raise NotReady(f"ZooKeeper: {error}") from error
    if answer != b"imok":
        raise NotReady(f"ZooKeeper answers {answer!r}")
