"""The Hadoop configuration that travels with a job as its ``hconf`` directory.

It is the site's own client configuration with a few changes for the AM's JVM (Skein's Java half),
which reads it because the container's class path begins with ``$HADOOP_CONF_DIR``.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from xml.sax.saxutils import escape

from hdfs_utils import errors
from hdfs_utils.config import site_authority
from hdfs_utils.config.configuration import Property, read_properties
from skein_specs.interceptor import interceptor_properties
from yarnam.core.model.snapshot import Node
from yarnam.errors import BadConfig
from yarnam.wire.protocol import LOCAL_HADOOP_CONF

SITE_FILES = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml", "resource-types.xml")
"""Files that the AM's JVM and the HDFS clients in containers read; the first three must exist."""

TOPOLOGY_FILE = "topology.table"

HEARTBEAT_EXPIRY_MS = 500
"""Skein's AM heartbeats at half this value, idle or not (at most 5 s when idle). 250 ms makes an
ask reach the RM twenty times sooner than the default's 5 s, and the grant come back as much sooner.
The RM gets them only while something is asked for or expected (``skein_specs.interceptor``)."""

NM_CONNECT_MAX_WAIT_MS = 2000
NM_CONNECT_RETRY_MS = 1000
NM_COMMAND_TIMEOUT_MS = 10_000
IPC_TIMEOUT_MS = 10_000
IPC_CONNECT_TIMEOUT_MS = 5000
IPC_CONNECT_RETRIES = 1
"""Skein starts containers one after another: a NodeManager that hangs or is gone holds back the
rest of the gang for this long (times the retries), not for Hadoop's 3 minutes."""

RESOLVE_LIMIT_S = 2.0
"""For all hosts together."""

_GPU = "yarn.io/gpu"


def hadoop_conf(
    site_conf_dir: str | Path,
    nodes: Sequence[Node],
    *,
    addresses: Mapping[str, Sequence[str]] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> dict[str, bytes]:
    """File name to content of the job's ``hconf``.

    ``nodes`` (of the snapshot) give the topology table: without it the AM cannot name a node's
    rack, and the Fair Scheduler starves every strict node ask in silence. Hadoop looks racks up by
    IP, so pass ``addresses`` (host to IPs, see ``host_addresses``) for every host that a target
    names. ``overrides`` are yarn-site properties that win over everything.

    Raises BadConfig when the site's configuration is missing or not XML.
    """
    site = read_site_conf(site_conf_dir)
    files: dict[str, bytes] = {}
    for name, properties in site.items():
        changes = dict(_changes(name))
        if name == "yarn-site.xml":
            changes.update({**interceptor_properties(properties), **(overrides or {})})
        files[name] = _render(properties, changes)
    if any(node.total.gpus for node in nodes):
        known = site.get("resource-types.xml", ()) + site["yarn-site.xml"]
        types = [
            name.strip()
            for prop in known
            if prop.name == "yarn.resource-types"
            for name in prop.value.split(",")
            if name.strip()
        ]
        if _GPU not in types:
            files["resource-types.xml"] = _render(
                site.get("resource-types.xml", ()),
                {"yarn.resource-types": ",".join([*types, _GPU])},
            )
    if authority := site_authority.authority(site_conf_dir):
        # The nodes may have the truststore elsewhere, and its password is not the job's business.
        files[site_authority.AUTHORITY_FILE] = authority.encode()
    files[TOPOLOGY_FILE] = _topology_table(nodes, addresses or {})
    return files


def read_site_conf(site_conf_dir: str | Path) -> dict[str, tuple[Property, ...]]:
    """The site's configuration files as properties, XIncludes resolved. Raises BadConfig."""
    directory = Path(site_conf_dir)
    found: dict[str, tuple[Property, ...]] = {}
    for name in SITE_FILES:
        path = directory / name
        if path.is_file():
            try:
                found[name] = read_properties(path)
            except errors.BadConfig as error:
                hint = "It must be a Hadoop configuration file."
                raise BadConfig(str(error), hint=hint) from error
        elif name != "resource-types.xml":
            raise BadConfig(
                f"the Hadoop configuration directory {directory} has no {name}",
                hint="Point HADOOP_CONF_DIR to the cluster's client configuration.",
            )
    return found


def host_addresses(hosts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Host name to its IP addresses, looked up side by side. Hosts that do not resolve in time are
    left out: for them the topology table has names only."""
    wanted = sorted(set(hosts))
    if not wanted:
        return {}
    pool = ThreadPoolExecutor(max_workers=min(16, len(wanted)), thread_name_prefix="resolve")
    futures = {pool.submit(_resolve, host): host for host in wanted}
    done, _ = wait(futures, timeout=RESOLVE_LIMIT_S)
    pool.shutdown(wait=False, cancel_futures=True)
    return {futures[future]: future.result() for future in done if future.result()}


def _resolve(host: str) -> tuple[str, ...]:
    try:
        rows = socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)
    except OSError:
        return ()
    return tuple(sorted({str(row[4][0]) for row in rows}))


def _changes(name: str) -> Mapping[str, str]:
    if name == "yarn-site.xml":
        return {
            "yarn.am.liveness-monitor.expiry-interval-ms": str(HEARTBEAT_EXPIRY_MS),
            "yarn.client.nodemanager-connect.max-wait-ms": str(NM_CONNECT_MAX_WAIT_MS),
            "yarn.client.nodemanager-connect.retry-interval-ms": str(NM_CONNECT_RETRY_MS),
            # Not in yarn-default.xml: ContainerManagementProtocolPBClientImpl, default 60 s. It
            # wins over ipc.client.rpc-timeout.ms for starting containers.
            "yarn.rpc.nm-command-timeout": str(NM_COMMAND_TIMEOUT_MS),
        }
    if name == "core-site.xml":
        return {
            "net.topology.node.switch.mapping.impl": "org.apache.hadoop.net.TableMapping",
            "net.topology.table.file.name": f"{LOCAL_HADOOP_CONF}/{TOPOLOGY_FILE}",
            "ipc.client.rpc-timeout.ms": str(IPC_TIMEOUT_MS),
            # A host that is switched off answers nothing at all: Hadoop tries 45 times 20 s.
            "ipc.client.connect.timeout": str(IPC_CONNECT_TIMEOUT_MS),
            "ipc.client.connect.max.retries.on.timeouts": str(IPC_CONNECT_RETRIES),
        }
    return {}


def _render(properties: Sequence[Property], changes: Mapping[str, str]) -> bytes:
    kept = [prop for prop in properties if prop.name not in changes]
    rows = [*kept, *(Property(name, value) for name, value in changes.items())]
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<configuration>"]
    for prop in rows:
        final = "<final>true</final>" if prop.is_final else ""
        lines.append(
            f"  <property><name>{escape(prop.name)}</name>"
            f"<value>{escape(prop.value)}</value>{final}</property>"
        )
    lines.append("</configuration>\n")
    return "\n".join(lines).encode()


def _topology_table(nodes: Sequence[Node], addresses: Mapping[str, Sequence[str]]) -> bytes:
    rows = {
        name: node.rack
        for node in nodes
        if node.is_named
        for name in (node.node_id, *addresses.get(node.node_id, ()))
    }
    return "".join(f"{name} {rack}\n" for name, rack in sorted(rows.items())).encode()
