"""Render the Hadoop configuration of a cluster: the client's, and one per NodeManager."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from yarnam.cluster.cluster_plan import ClusterPlan
from yarnam.cluster.hadoop import secure_site
from yarnam.cluster.hadoop.daemon_commands import LOCAL_FS_CLASS
from yarnam.cluster.hadoop.properties import Properties, properties_xml
from yarnam.cluster.shape import Node, has_zookeeper_store

# Variables that a NodeManager passes to containers from its own environment.
PASSED_ON = (
    "JAVA_HOME", "HADOOP_COMMON_HOME", "HADOOP_HDFS_HOME", "HADOOP_CONF_DIR", "HADOOP_YARN_HOME",
    "HADOOP_HOME", "CLASSPATH_PREPEND_DISTCACHE", "LANG", "TZ",
    "YARNAM_CLUSTER_ID", "YARNAM_NODE_GPUS", "YARNAM_NODE_GPU_MODEL",
)  # fmt: skip
GPU = "yarn.io/gpu"
GPU_MODEL_ATTRIBUTE = "gpu-model"


def core_site(plan: ClusterPlan) -> Properties:
    if plan.shape.secure:
        access = secure_site.secure_core(plan)
    else:
        access = {
            # Pages and REST calls that name nobody act as the user whose cluster this is.
            "hadoop.http.staticuser.user": plan.user,
            f"hadoop.proxyuser.{plan.user}.hosts": "*",
            f"hadoop.proxyuser.{plan.user}.groups": "*",
        }
    return {
        "fs.defaultFS": plan.namenode_uri,
        "hadoop.tmp.dir": str(plan.paths.data / "tmp"),
        **access,
        "net.topology.node.switch.mapping.impl": "org.apache.hadoop.net.TableMapping",
        "net.topology.table.file.name": str(plan.paths.topology),
        "fs.permissions.umask-mode": "022",
        # Daemons start side by side: the ones that are early must ask again soon, not after
        # Hadoop's production pauses.
        "ipc.client.connect.retry.interval": "250",
        "ipc.client.connect.max.retries": "40",
        "fs.trash.interval": "0",
        "hadoop.shell.missing.defaultFs.warning": "false",
    } | dict(plan.shape.overrides.get("core-site", {}))


def hdfs_site(plan: ClusterPlan) -> Properties:
    properties = {
        "dfs.replication": str(plan.shape.replication),
        "dfs.permissions.enabled": "true",
        "dfs.webhdfs.enabled": "true",
        "dfs.namenode.rpc-address": plan.at_master("namenode_rpc"),
        "dfs.namenode.rpc-bind-host": plan.master,
        "dfs.namenode.http-address": plan.at_master("namenode_web"),
        "dfs.namenode.http-bind-host": plan.master,
        "dfs.namenode.name.dir": f"file://{plan.paths.hdfs / 'nn'}",
        # Addresses without names have no reverse look-up.
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        "dfs.namenode.safemode.extension": "0",
        # The edit log need not survive a power cut, only a killed NameNode: no fsync per change.
        "dfs.namenode.edits.noeditlogchannelflush": "true",
        "dfs.namenode.handler.count": "8",
        "dfs.heartbeat.interval": "1",
        # A dead DataNode is noticed after 2 x 5 s + 10 heartbeats, not after ten minutes.
        "dfs.namenode.heartbeat.recheck-interval": "5000",
        "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "50",
        "dfs.datanode.handler.count": "4",
        "dfs.block.scanner.volume.bytes.per.second": "0",
        "dfs.client.read.shortcircuit": "false",
    }
    if plan.shape.datanodes < 3:
        # With so few DataNodes there is none to replace a failed one with; a writer continues.
        properties["dfs.client.block.write.replace-datanode-on-failure.policy"] = "NEVER"
    if plan.shape.secure:
        properties |= secure_site.secure_hdfs(plan)
    return properties | dict(plan.shape.overrides.get("hdfs-site", {}))


def datanode_site(plan: ClusterPlan, name: str) -> Properties:
    node = plan.datanodes[name]
    return hdfs_site(plan) | {
        # Through the relay, see its module.
        "dfs.namenode.rpc-address": f"{node.address}:{plan.ports['relay']}",
        "dfs.datanode.data.dir": f"file://{plan.paths.hdfs / name}",
        "dfs.datanode.hostname": node.address,
        "dfs.datanode.address": f"{node.address}:{plan.ports['datanode']}",
        "dfs.datanode.http.address": f"{node.address}:{plan.ports['datanode_web']}",
        "dfs.datanode.https.address": f"{node.address}:{plan.ports['datanode_https']}",
        "dfs.datanode.ipc.address": f"{node.address}:{plan.ports['datanode_ipc']}",
    }


def yarn_site(plan: ClusterPlan) -> Properties:
    return {
        **_resource_manager(plan),
        **_state_store(plan),
        **_scheduling(plan),
        **_containers(plan),
        **(secure_site.secure_yarn(plan) if plan.shape.secure else {}),
    } | dict(plan.shape.overrides.get("yarn-site", {}))


def _resource_manager(plan: ClusterPlan) -> Properties:
    own = _pair(plan) if plan.shape.resourcemanagers > 1 else _addresses(plan, plan.master)
    return own | {
        "yarn.resourcemanager.am.max-attempts": "2",
        "yarn.resourcemanager.connect.retry-interval.ms": "500",
        "yarn.resourcemanager.connect.max-wait.ms": "60000",
        "yarn.nm.liveness-monitor.expiry-interval-ms": str(plan.shape.nm_expiry_s * 1000),
        # A busy machine may take minutes to start an AM. YARN's own default is ten of them.
        "yarn.am.liveness-monitor.expiry-interval-ms": "180000",
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": str(plan.shape.heartbeat_ms),
        "yarn.resourcemanager.webapp.delegation-token-auth-filter.enabled": "false",
        "yarn.node-attribute.fs-store.root-dir": f"file://{plan.paths.data / 'node-attributes'}",
        "yarn.acl.enable": "true",
        "yarn.admin.acl": plan.user,
        "yarn.timeline-service.enabled": "false",
    }


def _addresses(plan: ClusterPlan, host: str, suffix: str = "") -> Properties:
    """Addresses of one ResourceManager. ``suffix`` is its name behind a dot if there are
    several."""
    keys = {
        "address": "rm_client", "scheduler.address": "rm_scheduler",
        "resource-tracker.address": "rm_tracker", "admin.address": "rm_admin",
        ("webapp.https.address" if plan.shape.secure else "webapp.address"): "rm_web",
    }  # fmt: skip
    prefix = "yarn.resourcemanager"
    found = {f"{prefix}.{key}{suffix}": f"{host}:{plan.ports[port]}" for key, port in keys.items()}
    found[f"{prefix}.hostname{suffix}"] = host
    if not suffix:
        found[f"{prefix}.bind-host"] = host
        # The RM is the proxy of the applications' pages. Said outright, because an AM that works
        # it out for itself puts the machine's name where the address is loopback.
        found["yarn.web-proxy.address"] = f"{host}:{plan.ports['rm_web']}"
    return found


def _pair(plan: ClusterPlan) -> Properties:
    """Two ResourceManagers, of which ZooKeeper makes one the active one."""
    prefix = "yarn.resourcemanager"
    found = {
        f"{prefix}.cluster-id": plan.cluster_id,
        f"{prefix}.ha.enabled": "true",
        f"{prefix}.ha.rm-ids": ",".join(plan.resourcemanagers),
        f"{prefix}.ha.automatic-failover.enabled": "true",
        f"{prefix}.ha.automatic-failover.embedded": "true",
        # How long a dead one is still believed in.
        f"{prefix}.zk-timeout-ms": "4000",
        "hadoop.zk.timeout-ms": "4000",
        "yarn.client.failover-sleep-base-ms": "250",
        "yarn.client.failover-sleep-max-ms": "1000",
    }
    for name, host in plan.resourcemanagers.items():
        found |= _addresses(plan, host, f".{name}")
    return found


def resourcemanager_site(plan: ClusterPlan, name: str) -> Properties:
    """The yarn-site.xml of one of several ResourceManagers."""
    return yarn_site(plan) | {
        "yarn.resourcemanager.ha.id": name,
        "yarn.resourcemanager.bind-host": plan.resourcemanagers[name],
    }


def _state_store(plan: ClusterPlan) -> Properties:
    properties = {
        "yarn.resourcemanager.recovery.enabled": "true",
        "yarn.resourcemanager.work-preserving-recovery.enabled": "true",
        # After a restart the RM hands out nothing for this long, so that nodes report first.
        "yarn.resourcemanager.work-preserving-recovery.scheduling-wait-ms": "3000",
    }
    recovery = "org.apache.hadoop.yarn.server.resourcemanager.recovery"
    if plan.zookeeper is not None:
        # There jobs look for ZooKeeper too.
        properties["hadoop.zk.address"] = plan.zookeeper
    if not has_zookeeper_store(plan.shape):
        return properties | {
            "yarn.resourcemanager.store.class": f"{recovery}.FileSystemRMStateStore",
            "yarn.resourcemanager.fs.state-store.uri": f"file://{plan.paths.data / 'rm'}",
        }
    return properties | {
        "yarn.resourcemanager.store.class": f"{recovery}.ZKRMStateStore",
        "hadoop.zk.retry-interval-ms": "500",
    }


def _scheduling(plan: ClusterPlan) -> Properties:
    package = "org.apache.hadoop.yarn.server.resourcemanager.scheduler"
    if plan.shape.scheduler == "capacity":
        own = {
            "yarn.resourcemanager.scheduler.class": f"{package}.capacity.CapacityScheduler",
            **_PREEMPTION_BY_CAPACITY,
            "yarn.node-labels.enabled": "true",
            "yarn.node-labels.fs-store.root-dir": f"file://{plan.paths.data / 'node-labels'}",
        }
    else:
        own = {
            "yarn.resourcemanager.scheduler.class": f"{package}.fair.FairScheduler",
            "yarn.scheduler.fair.allocation.file": str(plan.paths.queues("fair")),
            **_FAIR,
        }
    return own | {
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.scheduler.maximum-allocation-mb": str(max(n.memory_mib for n in plan.nodes)),
        "yarn.scheduler.minimum-allocation-vcores": "1",
        "yarn.scheduler.maximum-allocation-vcores": str(max(n.vcores for n in plan.nodes)),
    }


_FAIR = {
    # As many containers per node heartbeat as fit, as sites with gangs set it. By default it is
    # one: a gang packed on one node comes one container a second. With the dynamic limit half
    # of what is free: 8 GPUs of a node in three heartbeats (5, 2, 1).
    "yarn.scheduler.fair.assignmultiple": "true",
    "yarn.scheduler.fair.dynamic.max.assign": "false",
    "yarn.scheduler.fair.preemption": "true",
    "yarn.scheduler.fair.preemption.cluster-utilization-threshold": "0.0",
}

_MONITOR = "yarn.resourcemanager.monitor.capacity.preemption"
_PREEMPTION_BY_CAPACITY = {
    "yarn.resourcemanager.scheduler.monitor.enable": "true",
    f"{_MONITOR}.monitoring_interval": "1000",
    f"{_MONITOR}.max_wait_before_kill": "15000",
    # All that a queue is owed in one round: by default a tenth of the cluster, less a fifth.
    f"{_MONITOR}.total_preemption_per_round": "1.0",
    f"{_MONITOR}.natural_termination_factor": "1.0",
}


def _containers(plan: ClusterPlan) -> Properties:
    return {
        "yarn.application.classpath": f"$HADOOP_CONF_DIR,{plan.jar_folder}/*",
        "yarn.log-aggregation-enable": "true",
        "yarn.nodemanager.remote-app-log-dir": "/app-logs",
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.delete.debug-delay-sec": "0",
        "yarn.nodemanager.env-whitelist": ",".join(PASSED_ON),
        "yarn.nodemanager.user-home-dir": str(plan.paths.container_home),
        # The default of 90 % declares nodes unhealthy on many a laptop's disk; full is full.
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.5",
        "yarn.nodemanager.disk-health-checker.min-free-space-per-disk-mb": "16",
        # Two environments with PyTorch and its CUDA libraries.
        "yarn.nodemanager.localizer.cache.target-size-mb": "12288",
    }


def nodemanager_site(plan: ClusterPlan, node: Node) -> Properties:
    data = plan.paths.daemon_data(node.name)
    ports = plan.ports
    properties = yarn_site(plan) | {
        "yarn.nodemanager.hostname": node.address,
        "yarn.nodemanager.bind-host": node.address,
        "yarn.nodemanager.address": f"{node.address}:{ports['nm']}",
        "yarn.nodemanager.localizer.address": f"{node.address}:{ports['nm_localizer']}",
        "yarn.nodemanager.webapp.address": f"{node.address}:{ports['nm_web']}",
        "yarn.nodemanager.collector-service.address": f"{node.address}:{ports['nm_collector']}",
        "yarn.nodemanager.local-dirs": str(data / "local"),
        "yarn.nodemanager.log-dirs": str(data / "container-logs"),
        "yarn.nodemanager.resource.memory-mb": str(node.memory_mib),
        "yarn.nodemanager.resource.cpu-vcores": str(node.vcores),
        # In the environment of the container's first process too, where the whitelist does not
        # reach: that is how `down` knows its own.
        "yarn.nodemanager.admin-env.YARNAM_CLUSTER_ID": plan.cluster_id,
        "yarn.nodemanager.admin-env.MALLOC_ARENA_MAX": "4",
        # The whitelist cannot hand PATH on: bash has set its own by then, and that one wins.
        "yarn.nodemanager.force.path": container_path(os.environ),
        "fs.AbstractFileSystem.file.impl": LOCAL_FS_CLASS,
    }
    if plan.shape.secure:
        properties |= secure_site.secure_nodemanager(plan, node)
    if can_recover():
        properties |= {
            "yarn.nodemanager.recovery.enabled": "true",
            "yarn.nodemanager.recovery.supervised": "true",
            "yarn.nodemanager.recovery.dir": str(data / "recovery"),
        }
    if node.gpu_model:
        properties |= {
            "yarn.nodemanager.node-attributes.provider": "config",
            "yarn.nodemanager.node-attributes.provider.configured-node-attributes": (
                f"{GPU_MODEL_ATTRIBUTE},STRING,{attribute_value(node.gpu_model)}"
            ),
        }
    return properties


def attribute_value(text: str) -> str:
    """As YARN takes it: letters, digits, ``-``, ``_`` and ``.`` (NodeLabelUtil's
    ATTRIBUTE_VALUE_PATTERN; it leaves out the attributes of a node that has another)."""
    return "-".join(re.findall(r"[0-9A-Za-z._-]+", text))


def container_path(environ: Mapping[str, str]) -> str:
    """PATH in containers: ``python3`` on the nodes is the Python that brought the cluster up, with
    what is installed beside it; then what its user had."""
    return f"{Path(sys.executable).parent}:{environ.get('PATH') or os.defpath}"


def can_recover() -> bool:
    """NodeManager recovery keeps its state in LevelDB, whose jar has native code for x86 only."""
    return platform.machine() == "x86_64"


def resource_types() -> Properties:
    return {"yarn.resource-types": GPU}


def node_resources(node: Node) -> Properties:
    return {f"yarn.nodemanager.resource-type.{GPU}": str(node.gpus)}


def topology_table(plan: ClusterPlan) -> str:
    rows = [f"{node.address} {node.rack}" for node in plan.nodes]
    return "\n".join(rows) + "\n"


def hosts_file(plan: ClusterPlan, own_address: str, machine: str, system_hosts: str) -> str:
    """All names a daemon ever looks up, so that no look-up waits for a name server. The machine's
    own name stands for the daemon's own address: Hadoop puts it into URLs where an address is
    loopback. Java takes the first match, so each address comes first under itself."""
    rows = [f"{address} {address}" for address in plan.addresses]
    rows += [f"{own_address} {machine}", "127.0.0.1 localhost"]
    return "\n".join(rows) + "\n" + system_hosts


def zookeeper_conf(plan: ClusterPlan) -> str:
    return "\n".join(
        (
            f"dataDir={plan.paths.daemon_data('zk')}",
            f"clientPort={plan.ports['zookeeper']}",
            f"clientPortAddress={plan.master}",
            "tickTime=1000",
            "maxClientCnxns=0",
            "minSessionTimeout=2000",
            "maxSessionTimeout=60000",
            "admin.enableServer=false",
            "4lw.commands.whitelist=ruok,srvr,stat,mntr,conf",
            # No power-cut safety needed; each write would otherwise wait for the disk.
            "forceSync=no",
            *(secure_site.ZOOKEEPER_SASL if plan.shape.secure else ()),
            "",
        )
    )


CLIENT_LOG4J = """\
log4j.rootLogger=WARN,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %-5p %c{1}: %m%n
log4j.logger.org.apache.hadoop.util.NativeCodeLoader=ERROR
"""

DAEMON_LOG4J = """\
log4j.rootLogger=INFO,file
log4j.appender.file=org.apache.log4j.RollingFileAppender
log4j.appender.file.File=${yarnam.log}
log4j.appender.file.MaxFileSize=32MB
log4j.appender.file.MaxBackupIndex=2
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%d{ISO8601} %-5p %c: %m%n
log4j.logger.org.apache.hadoop.util.NativeCodeLoader=ERROR
"""


def client_files(plan: ClusterPlan, queues: str) -> dict[str, str]:
    return {
        "core-site.xml": properties_xml(core_site(plan)),
        "hdfs-site.xml": properties_xml(hdfs_site(plan)),
        "yarn-site.xml": properties_xml(yarn_site(plan)),
        "resource-types.xml": properties_xml(resource_types()),
        "log4j.properties": CLIENT_LOG4J,
        plan.paths.topology.name: topology_table(plan),
        plan.paths.queues(plan.shape.scheduler).name: queues,
    }


def own_address(plan: ClusterPlan, daemon: str) -> str:
    if daemon in plan.datanodes:
        return plan.datanodes[daemon].address
    if daemon in plan.resourcemanagers:
        return plan.resourcemanagers[daemon]
    return plan.node(daemon).address if daemon.startswith("nm") else plan.master


def daemon_files(plan: ClusterPlan, daemon: str, machine: str, system_hosts: str) -> dict[str, str]:
    """Files of one daemon's own configuration, which comes before the client's."""
    hosts = hosts_file(plan, own_address(plan, daemon), machine, system_hosts)
    files = {"daemon-log4j.properties": DAEMON_LOG4J, "hosts": hosts}
    if daemon == "zk":
        files["zoo.cfg"] = zookeeper_conf(plan)
        if plan.shape.secure:
            files["jaas.conf"] = secure_site.zookeeper_jaas(plan)
    elif daemon in plan.resourcemanagers and len(plan.resourcemanagers) > 1:
        files["yarn-site.xml"] = properties_xml(resourcemanager_site(plan, daemon))
    elif daemon in plan.datanodes:
        files["hdfs-site.xml"] = properties_xml(datanode_site(plan, daemon))
    elif daemon.startswith("nm"):
        node = plan.node(daemon)
        files["yarn-site.xml"] = properties_xml(nodemanager_site(plan, node))
        files["node-resources.xml"] = properties_xml(node_resources(node))
    return files


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
