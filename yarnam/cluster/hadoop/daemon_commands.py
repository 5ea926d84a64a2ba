"""Command line and environment of each daemon."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from yarnam.cluster.cluster_plan import ClusterPlan
from yarnam.cluster.hadoop import datanode_relay, kerberos_realm

MARKER = "YARNAM_CLUSTER_ID"

LOCAL_FS_JAR = Path(__file__).with_name("nio-local-fs.jar")
LOCAL_FS_CLASS = "yarnam.cluster.NioLocalFs"
"""Of NodeManagers: without Hadoop's native library, which no jar brings, Hadoop's own starts a
process for the permissions of each file that is localized, some 3,000 for a job's runtime."""

_OPENED = ("lang", "util", "net", "nio", "util.concurrent")
OPENS = (
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)
# Small and quick to start: one-processor garbage collection, no optimising compiler.
LEAN = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",
    "-Xss512k",
    "-Djava.net.preferIPv4Stack=true",
)

# Heap limits in MB. What is used is far less; the daemons start with little and grow.
_HEAP_MB = {"kdc": 96, "nn": 384, "rm": 448, "zk": 128, "dn": 256, "nm": 256}
_MAIN = {
    "nn": "org.apache.hadoop.hdfs.server.namenode.NameNode",
    "dn": "org.apache.hadoop.hdfs.server.datanode.DataNode",
    "rm": "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager",
    "nm": "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
    "zk": "org.apache.zookeeper.server.ZooKeeperServerMain",
    "kdc": "org.apache.hadoop.minikdc.MiniKdc",
}


@dataclass(frozen=True, slots=True)
class Command:
    argv: tuple[str, ...]
    environment: Mapping[str, str]


def kind(daemon: str) -> str:
    """``nm3`` is an ``nm``."""
    return daemon.rstrip("0123456789")


def class_path(plan: ClusterPlan, daemon: str) -> str:
    """The daemon's own configuration hides the client's file of the same name."""
    paths = plan.paths
    folders = [paths.daemon_conf(daemon), paths.conf, paths.web_base]
    jars = [*jar_files(plan), *_kdc_jars(plan, daemon)]
    if kind(daemon) == "nm":
        jars.append(LOCAL_FS_JAR)
    return ":".join([*(str(each) for each in folders), *(str(jar) for jar in jars)])


def jar_files(plan: ClusterPlan) -> list[Path]:
    return sorted(plan.jar_folder.glob("*.jar"))


def _kdc_jars(plan: ClusterPlan, daemon: str) -> list[Path]:
    return sorted(plan.kdc_jar_folder.glob("*.jar")) if daemon == "kdc" else []


def relay_command(plan: ClusterPlan, environ: Mapping[str, str]) -> Command:
    listens = [f"{node.address}:{plan.ports['relay']}" for node in plan.datanodes.values()]
    # By path, isolated: nothing of the user's Python set-up can break or slow it.
    argv = (
        sys.executable,
        "-I",
        "-S",
        datanode_relay.__file__,
        plan.at_master("namenode_rpc"),
        *listens,
    )
    return Command(argv, daemon_environment(plan, "relay", environ))


def daemon_command(
    plan: ClusterPlan, daemon: str, environ: Mapping[str, str] = os.environ
) -> Command:
    paths = plan.paths
    what = kind(daemon)
    if what == "relay":
        return relay_command(plan, environ)
    conf = paths.daemon_conf(daemon)
    argv = (
        str(plan.java_home / "bin" / "java"),
        f"-Dyarnam.daemon={plan.name}/{daemon}",
        "-Xms16m",
        f"-Xmx{_HEAP_MB[what]}m",
        *LEAN,
        *OPENS,
        f"-Djdk.net.hosts.file={conf / 'hosts'}",
        f"-Dlog4j.configuration=file:{conf / 'daemon-log4j.properties'}",
        f"-Dyarnam.log={paths.log(daemon)}",
        f"-Dhadoop.log.dir={paths.logs}",
        f"-XX:ErrorFile={paths.logs / daemon}-crash.log",
        f"-Djava.io.tmpdir={paths.data / 'tmp'}",
        "-Dzookeeper.jmx.log4j.disable=true",
        *security_options(plan, daemon),
        _MAIN[what],
        *((str(conf / "zoo.cfg"),) if what == "zk" else ()),
        *(_kdc_arguments(plan) if what == "kdc" else ()),
    )
    return Command(argv, daemon_environment(plan, daemon, environ))


def security_options(plan: ClusterPlan, daemon: str) -> tuple[str, ...]:
    """Options of a JVM of a secure cluster: Java reads no KRB5_CONFIG."""
    if not plan.shape.secure:
        return ()
    realm = f"-Djava.security.krb5.conf={plan.paths.krb5_conf}"
    jaas = f"-Djava.security.auth.login.config={plan.paths.daemon_conf(daemon) / 'jaas.conf'}"
    return (realm, jaas) if daemon == "zk" else (realm,)


def _kdc_arguments(plan: ClusterPlan) -> tuple[str, ...]:
    folder = plan.paths.kerberos
    return (
        str(folder / "kdc"),
        str(folder / "kdc.properties"),
        str(plan.paths.keytab("kdc")),
        *kerberos_realm.principals(plan),
    )


def format_command(plan: ClusterPlan) -> Command:
    """Make an empty HDFS; refuses where there is one already."""
    command = daemon_command(plan, "nn")
    return Command((*command.argv, "-format", "-nonInteractive"), command.environment)


def daemon_environment(
    plan: ClusterPlan, daemon: str, environ: Mapping[str, str]
) -> dict[str, str]:
    """Only what a daemon, or a container that inherits from it, has use for."""
    passed = {
        name: environ[name] for name in ("HOME", "USER", "LOGNAME", "LANG", "TZ") if name in environ
    }
    environment = {
        **passed,
        "PATH": environ.get("PATH") or os.defpath,
        "JAVA_HOME": str(plan.java_home),
        "HADOOP_HOME": str(plan.paths.hadoop_home),
        # Containers inherit it: the client's configuration, not the NodeManager's own.
        "HADOOP_CONF_DIR": str(plan.paths.conf),
        "CLASSPATH": class_path(plan, daemon),
        "MALLOC_ARENA_MAX": "2",
        MARKER: plan.cluster_id,
    }
    if plan.shape.secure:
        environment["KRB5_CONFIG"] = str(plan.paths.krb5_conf)
    if kind(daemon) == "nm":
        node = plan.node(daemon)
        environment["YARNAM_NODE_GPUS"] = node.device_list
        if node.gpu_model:
            environment["YARNAM_NODE_GPU_MODEL"] = node.gpu_model
    return environment
