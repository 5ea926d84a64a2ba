"""The Java class in front of the AM's heartbeats: its jar, and how Skein's JVM finds it.

Hadoop makes the connection to the ResourceManager by the class that ``yarn.ipc.rpc.class`` names.
The ``hconf`` of a job names it by an environment variable that only the AM's JVM has; whoever else
reads that configuration (a ``yarn`` command in a task) gets Hadoop's own class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import resources

from hdfs_utils.config.configuration import Property
from yarnam.wire.protocol import (
    LOCAL_PAGE_URL_FILE,
    LOCAL_RELEASES_FILE,
    LOCAL_RESPONSE_LOG,
)

RPC_KEY = "yarn.ipc.rpc.class"
HADOOPS_RPC_CLASS = "org.apache.hadoop.yarn.ipc.HadoopYarnProtoRPC"
"""The default of YarnConfiguration.IPC_RPC_IMPL."""

ENV_RPC_CLASS = "YARNAM_RPC_CLASS"
RPC_CLASS = "yarnam.AllocateInterceptor"

IDLE_HEARTBEAT_MS = 3000
"""Between the heartbeats of an AM that neither asks for anything nor expects anything: soon enough
for a preemption notice, which YARN gives 15 s before it kills (waitTimeBeforeKill)."""
_EXPIRY_KEY = "yarn.am.liveness-monitor.expiry-interval-ms"
_DEFAULT_EXPIRY_MS = 600_000
_HEARTBEATS_BEFORE_EXPIRY = 10

_JAR = "allocate-interceptor.jar"


def interceptor_jar() -> bytes | None:
    """The jar; ``None`` means this installation has none."""
    try:
        return resources.files("skein_specs").joinpath(_JAR).read_bytes()
    except OSError:
        return None


def why_not_intercepted(yarn_site: Iterable[Property]) -> str:
    """Why the AM of a job on this site sends every heartbeat; empty means it does not."""
    rpc_class = _value(yarn_site, RPC_KEY)
    if rpc_class and rpc_class != HADOOPS_RPC_CLASS:
        return f"{RPC_KEY} is {rpc_class} here"
    if interceptor_jar() is None:
        return f"this installation of yarnam lacks {_JAR}"
    return ""


def interceptor_properties(yarn_site: Iterable[Property]) -> Mapping[str, str]:
    """The settings for the job's yarn-site.xml; none if a site has an RPC class of its own."""
    site = tuple(yarn_site)
    if why_not_intercepted(site):
        return {}
    return {
        RPC_KEY: f"${{env.{ENV_RPC_CLASS}:-{HADOOPS_RPC_CLASS}}}",
        "yarnam.am.response-log.file": LOCAL_RESPONSE_LOG,
        "yarnam.am.page-url.file": LOCAL_PAGE_URL_FILE,
        "yarnam.am.releases.file": LOCAL_RELEASES_FILE,
        "yarnam.am.heartbeat.idle-interval-ms": str(_idle_heartbeat_ms(site)),
    }


def _idle_heartbeat_ms(yarn_site: Iterable[Property]) -> int:
    """A site that gives up silent AMs soon hears of ours ten times as often."""
    given = _value(yarn_site, _EXPIRY_KEY)
    expiry_ms = int(given) if given.isdecimal() else _DEFAULT_EXPIRY_MS
    return min(IDLE_HEARTBEAT_MS, expiry_ms // _HEARTBEATS_BEFORE_EXPIRY)


def _value(properties: Iterable[Property], name: str) -> str:
    """The last one counts, as in Hadoop."""
    return next((prop.value.strip() for prop in [*properties][::-1] if prop.name == name), "")
