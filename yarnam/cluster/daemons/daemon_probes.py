"""Probe daemons over the protocols that their users speak."""

from __future__ import annotations

import json
import os
import socket
import ssl
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hdfs_utils.config import site_authority
from hdfs_utils.errors import HdfsError
from hdfs_utils.protocols import gssapi
from yarnam.cluster.cluster_plan import ClusterPlan
from yarnam.cluster.hadoop import kerberos_realm
from yarnam.cluster.hadoop.site_files import GPU
from yarnam.wire.http_request import HttpError, request

# A daemon that is up answers in milliseconds; a busy machine may take a little longer.
ANSWER_LIMIT_S = 5.0

_environment = threading.Lock()


class NotReady(Exception):
    """Not ready yet; the message names what is missing."""


def get_json(plan: ClusterPlan, url: str) -> Any:
    return _call(plan, url, "GET")


def _call(plan: ClusterPlan, url: str, method: str) -> Any:
    """The JSON that comes back; an empty answer counts as an empty object."""
    try:
        return request(
            url,
            method=method,
            timeout_s=ANSWER_LIMIT_S,
            tls=_tls(plan),
            who=_headers(plan, url),
        ).json()
    except (HttpError, HdfsError) as error:
        raise NotReady(f"{url}: {error}") from error


def _bean(plan: ClusterPlan, base: str, service: str, name: str) -> dict[str, Any]:
    query = urllib.parse.quote(f"Hadoop:service={service},name={name}")
    beans = get_json(plan, f"{base}/jmx?qry={query}").get("beans") or [{}]
    return dict(beans[0])


def _namenode(plan: ClusterPlan, bean: str, *names: str) -> list[Any]:
    """Attributes of the NameNode; a daemon that is still starting leaves some out."""
    found = _bean(plan, plan.namenode_web, "NameNode", bean)
    if missing := [name for name in names if name not in found]:
        raise NotReady(f"the NameNode does not report {', '.join(missing)} yet")
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
    scheme, port = ("https", "datanode_https") if plan.shape.secure else ("http", "datanode_web")
    base = f"{scheme}://{node.address}:{plan.ports[port]}"
    info = _bean(plan, base, "DataNode", "DataNodeInfo")
    actors = json.loads(info.get("BPServiceActorInfo", "[]"))
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
    who = "" if plan.shape.secure else f"&user.name={urllib.parse.quote(plan.user)}"
    answer = _call(plan, f"{base}?op=MKDIRS&permission={mode}{who}", "PUT")
    if not answer.get("boolean"):
        raise NotReady(f"HDFS did not make {path}: {answer}")
    # MKDIRS leaves the mode of a folder that was there alone, and cannot set the sticky bit on
    # every version.
    _call(plan, f"{base}?op=SETPERMISSION&permission={mode}{who}", "PUT")
    if owner is not None:
        _call(plan, f"{base}?op=SETOWNER&owner={urllib.parse.quote(owner)}{who}", "PUT")


@dataclass(frozen=True, slots=True)
class NodeState:
    address: str
    state: str
    rack: str
    gpus: int
    gpus_used: int
    containers: int
    health: str
    health_at: float


def rm_answers(plan: ClusterPlan, name: str) -> None:
    """It is the active one, or stands by for one that is."""
    state = _rm_state(plan, name)
    # The pages are there before the applications of an earlier run have been recovered.
    if state == "STANDBY" and len(plan.rm_urls) > 1:
        active_rm(plan)
    elif state != "ACTIVE":
        raise NotReady(f"the ResourceManager is {state}")


def active_rm(plan: ClusterPlan) -> str:
    """The daemon's name."""
    missing = NotReady("no ResourceManager is active")
    for name in plan.rm_urls:
        try:
            if _rm_state(plan, name) == "ACTIVE":
                return name
        except NotReady as error:
            missing = error
    raise missing


def _rm_state(plan: ClusterPlan, name: str) -> str:
    answer = get_json(plan, f"{plan.rm_urls[name]}/ws/v1/cluster/info")
    return str(answer["clusterInfo"].get("haState"))


def node_states(plan: ClusterPlan) -> list[NodeState]:
    name = active_rm(plan) if len(plan.rm_urls) > 1 else "rm"
    return parse_nodes(get_json(plan, f"{plan.rm_urls[name]}/ws/v1/cluster/nodes"))


def parse_nodes(answer: dict[str, Any]) -> list[NodeState]:
    rows = (answer.get("nodes") or {}).get("node") or []
    return [
        NodeState(
            address=row["nodeHostName"],
            state=row["state"],
            rack=row["rack"],
            # Hadoop 3.1 and 3.2 have no total.
            gpus=_gpus(row.get("usedResource")) + _gpus(row.get("availableResource")),
            gpus_used=_gpus(row.get("usedResource")),
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
    """The node is registered as planned, by the NodeManager that started at ``born``. The RM lists
    a killed node until it expires, so an earlier run of it may stand beside the new one in its
    list."""
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


def kdc_answers(plan: ClusterPlan) -> None:
    """It listens, and has written everybody's keys."""
    try:
        socket.create_connection((plan.master, plan.ports["kdc"]), ANSWER_LIMIT_S).close()
    except OSError as error:
        raise NotReady(f"the KDC: {error}") from error
    if missing := kerberos_realm.missing_principals(plan):
        raise NotReady(f"the KDC has no key yet for {min(missing)}")


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


# ---- a secure cluster is probed as HDFS's superuser, by the keytab in its folder ----------------


def _headers(plan: ClusterPlan, url: str) -> Mapping[str, str]:
    """The authentication of one request. Raises HdfsError where the KDC gives no ticket."""
    if not plan.shape.secure:
        return {}
    with _variables(kerberos_realm.client_variables(plan, kerberos_realm.ADMINISTRATOR)):
        return {"Authorization": gssapi.negotiate_header(urllib.parse.urlsplit(url).hostname or "")}


def _tls(plan: ClusterPlan) -> ssl.SSLContext | None:
    """What checks the daemons' certificates; ``None`` means there are none."""
    return _context(plan.paths.conf) if plan.shape.secure else None


@cache
def _context(conf: Path) -> ssl.SSLContext:
    return site_authority.tls_context(conf)


@contextmanager
def _variables(wanted: Mapping[str, str]) -> Iterator[None]:
    """MIT's library takes realm and keytab from the environment only."""
    with _environment:
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
