"""The commands ``hdfs``, ``yarn`` and ``hadoop`` for a cluster that has no Hadoop tarball."""

from __future__ import annotations

import shlex

from yarnam.cluster.cluster_plan import ClusterPlan
from yarnam.cluster.hadoop.daemon_commands import LEAN, OPENS, jar_files, security_options
from yarnam.cluster.hadoop.kerberos_realm import client_variables, users
from yarnam.errors import UsageError

_HDFS = {
    "crypto": "org.apache.hadoop.hdfs.tools.CryptoAdmin",
    "dfs": "org.apache.hadoop.fs.FsShell",
    "dfsadmin": "org.apache.hadoop.hdfs.tools.DFSAdmin",
    "fsck": "org.apache.hadoop.hdfs.tools.DFSck",
    "getconf": "org.apache.hadoop.hdfs.tools.GetConf",
    "groups": "org.apache.hadoop.hdfs.tools.GetGroups",
    "storagepolicies": "org.apache.hadoop.hdfs.tools.StoragePolicyAdmin",
    "debug": "org.apache.hadoop.hdfs.tools.DebugAdmin",
    "version": "org.apache.hadoop.util.VersionInfo",
}
_YARN = {
    "application": "org.apache.hadoop.yarn.client.cli.ApplicationCLI application",
    "app": "org.apache.hadoop.yarn.client.cli.ApplicationCLI app",
    "applicationattempt": "org.apache.hadoop.yarn.client.cli.ApplicationCLI applicationattempt",
    "container": "org.apache.hadoop.yarn.client.cli.ApplicationCLI container",
    "node": "org.apache.hadoop.yarn.client.cli.NodeCLI",
    "nodeattributes": "org.apache.hadoop.yarn.client.cli.NodeAttributesCLI",
    "logs": "org.apache.hadoop.yarn.client.cli.LogsCLI",
    "queue": "org.apache.hadoop.yarn.client.cli.QueueCLI",
    "rmadmin": "org.apache.hadoop.yarn.client.cli.RMAdminCLI",
    "version": "org.apache.hadoop.util.VersionInfo",
}
_HADOOP = {
    "fs": "org.apache.hadoop.fs.FsShell",
    "conf": "org.apache.hadoop.conf.ConfTool",
    "key": "org.apache.hadoop.crypto.key.KeyShell",
    "version": "org.apache.hadoop.util.VersionInfo",
}

_SCRIPT = """\
#!/usr/bin/env bash
# Part of the embedded cluster '{name}': runs Hadoop's own {tool} tools from the cached jars.
set -euo pipefail
conf=${{HADOOP_CONF_DIR:-{conf}}}
java=${{JAVA_HOME:-{java_home}}}/bin/java
usage() {{
  echo "usage: {tool} COMMAND [ARGUMENT...]; commands: classpath {commands}" >&2
  exit 2
}}
[ $# -gt 0 ] || usage
command=$1
shift
case $command in
  classpath)
    if [ "${{1:-}}" = --glob ]; then
      printf '%s:%s\\n' "$conf" {jars}
    else
      printf '%s:%s\\n' "$conf" {folder}'/*'
    fi
    exit 0 ;;
{cases}
  *) usage ;;
esac
CLASSPATH=$conf:{jars} exec "$java" {flags} ${{HADOOP_CLIENT_OPTS:-}} $main "$@"
"""


def shims(plan: ClusterPlan) -> dict[str, str]:
    """File name to script. The class path is spelt out: one that a wildcard makes has no order."""
    tools = {"hdfs": _HDFS, "yarn": _YARN, "hadoop": _HADOOP}
    return {tool: _script(plan, tool, commands) for tool, commands in tools.items()}


def _script(plan: ClusterPlan, tool: str, commands: dict[str, str]) -> str:
    cases = "\n".join(f"  {name}) main='{main}' ;;" for name, main in commands.items())
    return _SCRIPT.format(
        name=plan.name,
        tool=tool,
        conf=shlex.quote(str(plan.paths.conf)),
        java_home=shlex.quote(str(plan.java_home)),
        jars=shlex.quote(":".join(str(jar) for jar in jar_files(plan))),
        folder=shlex.quote(str(plan.jar_folder)),
        commands=" ".join(commands),
        cases=cases,
        flags=shlex.join((*LEAN, *OPENS, *security_options(plan, "client"))),
    )


def write_shims(plan: ClusterPlan) -> None:
    folder = plan.paths.bin
    folder.mkdir(parents=True, exist_ok=True)
    for name, script in shims(plan).items():
        path = folder / name
        path.write_text(script, encoding="utf-8")
        path.chmod(0o755)
    # Tools that know only HADOOP_HOME look for the configuration here.
    etc = plan.paths.hadoop_home / "etc"
    etc.mkdir(exist_ok=True)
    link = etc / "hadoop"
    link.unlink(missing_ok=True)
    link.symlink_to(plan.paths.conf)


def environment(plan: ClusterPlan, user: str = "") -> dict[str, str]:
    """The variables by which ``hdfs``, ``yarn``, Skein and yarnam work against the cluster. PATH
    holds only what goes in front of the user's own. ``user``: of a secure cluster, by default who
    has started it."""
    variables = {
        "HADOOP_CONF_DIR": str(plan.paths.conf),
        "HADOOP_HOME": str(plan.paths.hadoop_home),
        "JAVA_HOME": str(plan.java_home),
        "PATH": str(plan.paths.bin),
        "YARNAM_CLUSTER": plan.name,
    }
    if user and user not in (users(plan) if plan.shape.secure else (plan.user,)):
        raise UsageError(
            f"cluster '{plan.name}' has no user '{user}'",
            hint=f"A secure cluster has {' and '.join(users(plan))}; another believes any name.",
        )
    if plan.shape.secure:
        variables |= client_variables(plan, user or plan.user)
    if plan.zookeeper:
        variables["YARNAM_ZOOKEEPER"] = plan.zookeeper
    return variables


def shell_exports(plan: ClusterPlan, user: str = "") -> str:
    """For ``eval``: quoted for any POSIX shell."""
    lines = []
    for name, value in environment(plan, user).items():
        quoted = shlex.quote(value)
        lines.append(f"export {name}={quoted}{':$PATH' if name == 'PATH' else ''}")
    return "\n".join(lines)
