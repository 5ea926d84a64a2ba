"""``yarnam doctor``: checks every part that a job needs, and reports what to do where one fails."""

from __future__ import annotations

import email.utils
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

from yarnam._light_imports import on_first_use
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.adapters.skein.driver import is_driver_wanted
from yarnam.adapters.yarn.addresses import read_settings, zookeeper_credentials
from yarnam.client.doctor.finding import Finding, Health, fail, ok, warn
from yarnam.client.doctor.kerberos_check import check_ticket, site_realms
from yarnam.client.doctor.node_cache_check import check_node_cache
from yarnam.client.doctor.open_doors import open_doors
from yarnam.client.doctor.private_files import check_secret_files, check_stored_code
from yarnam.client.doctor.scheduler_settings import check_capacity, check_scheduler
from yarnam.client.environments.runtime_archive import runtime_source
from yarnam.client.site import SESSIONS, Site
from yarnam.core.model.snapshot import ClusterSnapshot, NodeState
from yarnam.errors import ExitCode, NoPermission, Unavailable, YarnamError
from yarnam.wire.http_request import HttpError

with on_first_use():
    import hdfs_utils
    import skein_specs
    from hdfs_utils.backends import libhdfs
    from hdfs_utils.protocols import gssapi, keytab
    from yarnam.adapters.zookeeper import lazy_session

OLDEST_HADOOP = (3, 1)
"""The first with GPUs as a resource of YARN's."""

SKEW_WARN_S = 30.0
"""Time-outs and log times of different machines are compared by people, certificates by TLS (with
a day of slack)."""

ANSWER_LIMIT_S = 5.0
_VERSION = re.compile(r'version "?(\d+)(?:\.(\d+))?')

Check = Callable[[], Finding]


def run_checks(site: Site, queue: str = "") -> list[Finding]:
    """All findings, in a fixed order; ``queue``: the one to check, else all. About 5 s."""
    checks: list[Check] = [
        lambda: _configuration(site),
        *(_gateway_checks(site) if site.gateway is not None else _tool_checks(site)),
        lambda: _resource_manager(site),
        lambda: _kerberos(site),
        lambda: _delegation_tokens(site),
        lambda: _clock(site),
        lambda: _hdfs(site),
        lambda: _hdfs_ways(site),
        lambda: _zookeeper(site),
        lambda: _skein(site),
        lambda: _queues(site, queue),
        lambda: _gpu_type(site),
        lambda: _nodes(site),
        lambda: _racks(site),
        lambda: _hands_out(site),
        lambda: _log_aggregation(site),
        lambda: _heartbeats(site),
        lambda: _adoption(site),
        lambda: _security(site),
        lambda: _sessions(site),
        lambda: _stored_code(site),
        lambda: _node_cache(site),
        lambda: _secret_files(site),
        _runtime,
    ]
    with ThreadPoolExecutor(len(checks), thread_name_prefix="doctor") as pool:
        return list(pool.map(_caught, checks))


def without_ticket(error: NoPermission) -> Finding:
    """The only finding without a valid ticket: the site then refuses all requests."""
    return Finding("Kerberos", Health.FAIL, error.message, error.hint, error.exit_code)


def exit_code(findings: Sequence[Finding]) -> int:
    """The exit code of the first failure; warnings do not count."""
    failed = [finding for finding in findings if finding.health is Health.FAIL]
    return int(failed[0].exit_code) if failed else 0


def _caught(check: Check) -> Finding:
    try:
        return check()
    except YarnamError as error:
        return Finding("", Health.FAIL, error.message, error.hint, error.exit_code)


def _named(part: str) -> Callable[[Callable[..., Finding]], Callable[..., Finding]]:
    """Findings of this check, failures included, carry the part's name."""

    def wrap(check: Callable[..., Finding]) -> Callable[..., Finding]:
        def named(*arguments: Any) -> Finding:
            try:
                found = check(*arguments)
            except YarnamError as error:
                return Finding(part, Health.FAIL, error.message, error.hint, error.exit_code)
            return Finding(part, found.health, found.message, found.hint, found.exit_code)

        return named

    return wrap


@_named("Hadoop configuration")
def _configuration(site: Site) -> Finding:
    return ok(f"{site.conf_dir} (file system {site.files.uri}, user {site.user})")


def _if_wanted(site: Site, finding: Finding) -> Finding:
    """Java and Hadoop are needed only where jobs are not submitted by the REST API."""
    if finding.health is not Health.FAIL or is_driver_wanted(site.environ):
        return finding
    hint = (
        f"{finding.hint} Submitting does without, and so does 'yarnam logs' unless the site "
        "aggregates logs in another format than Hadoop's default."
    )
    return Finding(finding.part, Health.WARN, finding.message, hint)


def _tool_checks(site: Site) -> tuple[Check, ...]:
    return (
        lambda: _if_wanted(site, _java(site.environ)),
        lambda: _if_wanted(site, _yarn_command(site.environ)),
    )


def _gateway_checks(site: Site) -> tuple[Check, ...]:
    return (lambda: _gateway(site),)


@_named("Gateway")
def _gateway(site: Site) -> Finding:
    """Check what passes through the gateway. The gateway itself authenticates the user."""
    assert site.gateway is not None
    site.rm.info()
    message = f"{site.gateway.url} lets {site.user} in; beyond it are the ports of running jobs"
    message += ", the nodes' logs" + (" and ZooKeeper" if site.zookeeper else "")
    hint = (
        "suspend, resume, scale, interrupt, tokens refresh, logs of running jobs and queue "
        "policies need an edge node: yarnam docs gateway"
    )
    if is_driver_wanted(site.environ):
        return fail(
            f"{site.gateway.url} cannot be passed by Skein's driver, which YARNAM_SUBMIT asks for",
            "Unset YARNAM_SUBMIT.",
            ExitCode.BAD_CONFIG,
        )
    if not _snapshot(site).has_node_names:
        message += "; the names of nodes are hidden, so jobs are placed by rack, not by node"
    return Finding("", Health.OK, message, hint)


@_named("Java")
def _java(environ: Mapping[str, str]) -> Finding:
    home = environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java" if home else "java", path=environ.get("PATH"))
    if java is None:
        where = f"in JAVA_HOME={home}" if home else "on the PATH"
        return fail(
            f"not found {where}", "Install Java 8 or newer and set JAVA_HOME.", ExitCode.BAD_CONFIG
        )
    done = subprocess.run(
        [java, "-version"], capture_output=True, text=True, timeout=30, check=False
    )
    match = _VERSION.search(done.stderr + done.stdout)
    if match is None:
        return fail(f"{java} does not report its version", "Set JAVA_HOME.", ExitCode.BAD_CONFIG)
    major = int(match[2] or 0) if match[1] == "1" else int(match[1])
    if major < 8:
        return fail(f"{java} is Java {major}", "Skein needs Java 8 or newer.", ExitCode.BAD_CONFIG)
    if major > 21:
        return warn(f"{java} is Java {major}", "Hadoop clients are tested with Java 8 to 21.")
    return ok(f"{java} (Java {major})")


@_named("yarn command")
def _yarn_command(environ: Mapping[str, str]) -> Finding:
    yarn = shutil.which("yarn", path=environ.get("PATH"))
    if yarn is None:
        return fail(
            "not found on the PATH", "Add Hadoop's bin directory to the PATH.", ExitCode.BAD_CONFIG
        )
    done = subprocess.run(
        [yarn, "classpath", "--glob"],
        env=dict(environ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    jars = sum(part.endswith(".jar") for part in done.stdout.strip().split(":"))
    if done.returncode or not jars:
        said = done.stderr.strip().splitlines()
        return fail(
            f"'{yarn} classpath --glob' names no jars: {said[-1] if said else 'no output'}",
            "Check HADOOP_HOME, JAVA_HOME and HADOOP_CONF_DIR.",
            ExitCode.BAD_CONFIG,
        )
    return ok(f"{yarn} ({jars} jars)")


@_named("ResourceManager")
def _resource_manager(site: Site) -> Finding:
    info = site.rm.info()
    version = str(info.get("resourceManagerVersion") or info.get("hadoopVersion") or "")
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers and numbers < OLDEST_HADOOP:
        return fail(
            f"{site.rm.url} is Hadoop {version}",
            "GPUs as a resource need Hadoop 3.1 or newer.",
            ExitCode.BAD_CONFIG,
        )
    state = str(info.get("state", ""))
    if state and state != "STARTED":
        return fail(
            f"{site.rm.url} is {state}", "Wait, or ask an administrator.", ExitCode.UNAVAILABLE
        )
    return ok(f"{site.rm.url} (Hadoop {version or 'of unknown version'})")


@_named("Kerberos")
def _kerberos(site: Site) -> Finding:
    if site.gateway is not None:
        return ok("not used: the gateway authenticates the caller")
    if not site.who.is_kerberos:
        return ok("not used: the site has simple authentication")
    settings = read_settings(site.conf_dir, "hdfs-site.xml", "yarn-site.xml")
    try:
        keys = keytab.client_principals(site.environ)
    except hdfs_utils.HdfsError as error:
        return warn(
            f"{error}", "Programs cannot get a new ticket by it: name another, or unset it."
        )
    with hdfs_errors("looking for a Kerberos ticket"):
        who = gssapi.identity()
    return check_ticket(who.principal, who.left_s, keys, site_realms(settings))


@_named("Delegation tokens")
def _delegation_tokens(site: Site) -> Finding:
    """The settings with which a submit would begin; they are not used."""
    if site.open_token_source is None:
        return ok("not needed: the site has simple authentication")
    found = site.open_token_source().for_submission()
    until = (
        ""
        if found.until_s is None
        else f" for at most {(found.until_s - time.time()) / 3600:.0f} h"
    )
    return ok(f"HDFS and the ResourceManager give them{until}")


@_named("Clocks")
def _clock(site: Site) -> Finding:
    before = time.time()
    try:
        reply = site.who.get(f"{site.rm.url}/ws/v1/cluster/info", timeout_s=ANSWER_LIMIT_S)
        stamp = reply.headers.get("Date", "")
    except HttpError as error:
        return warn(f"could not be compared: {error}", "See the check of the ResourceManager.")
    after = time.time()
    try:
        theirs = email.utils.parsedate_to_datetime(stamp).timestamp()
    except (TypeError, ValueError):
        return warn("the ResourceManager does not report its time", "Compare them manually.")
    # The header has whole seconds.
    skew = max(0.0, before - theirs - 1.0, theirs - after)
    if skew > SKEW_WARN_S:
        return warn(
            f"this machine and the ResourceManager differ by {skew:.0f} s",
            "Synchronize both by NTP; Kerberos refuses more than 300 s.",
        )
    return ok("this machine and the ResourceManager agree")


@_named("HDFS")
def _hdfs(site: Site) -> Finding:
    home = site.paths.home
    probe = f"{site.paths.root}/.doctor-{uuid4().hex[:8]}"
    with hdfs_errors("asking the NameNode"):
        if not site.files.exists("/"):
            return fail("/ does not exist", "Check fs.defaultFS.", ExitCode.BAD_CONFIG)
    began = time.monotonic()
    with hdfs_errors(f"writing in {home}"):
        site.files.write_bytes(probe, b"yarnam doctor\n")
        try:
            content = site.files.read_bytes(probe)
        finally:
            site.files.delete(probe)
    if content != b"yarnam doctor\n":
        return fail(f"{probe} was not read back as written", "Run hdfs fsck.", ExitCode.UNAVAILABLE)
    took_ms = (time.monotonic() - began) * 1000
    return ok(f"{home} can be written and read ({took_ms:.0f} ms)")


@_named("Ways to HDFS")
def _hdfs_ways(site: Site) -> Finding:
    """Which back-ends of hdfs_utils get through; the first is the one in use."""
    if site.files.uri.startswith("file:"):
        return ok("the local disk")
    if site.gateway is not None:
        return ok("webhdfs, through the gateway, is the only one")
    ways = []
    for backend in ("native", "webhdfs"):
        try:
            limits = hdfs_utils.TimeLimits.all(ANSWER_LIMIT_S)
            hdfs_utils.connect(
                site.files.uri, conf_dir=str(site.conf_dir), backend=backend, limits=limits
            ).stat("/")
        except hdfs_utils.HdfsError as error:
            ways.append(f"{backend}: no ({error.message})")
        else:
            ways.append(backend)
    ways.append(
        f"arrow: no ({reason})" if (reason := libhdfs.why_unavailable(site.environ)) else "arrow"
    )
    message = f"{site.files.backend} is used; {', '.join(ways)}"
    if "native" not in ways:
        return warn(message, "The native client is the fast one: are the NameNode's ports open?")
    return ok(message)


@_named("ZooKeeper")
def _zookeeper(site: Site) -> Finding:
    """Does in ZooKeeper what jobs do: makes a node below yarnam's, reads it and removes it."""
    if not site.zookeeper:
        return ok("not configured; yarnam does not order waiting jobs")
    if not site.can_reach_zookeeper:
        return ok(f"{site.zookeeper} is the jobs' own; it is not reached through the gateway")
    hint = "yarnam does not order waiting jobs; they start in random order: yarnam docs zookeeper"
    session = lazy_session.LazySession(site.zookeeper, zookeeper_credentials(site.environ))
    try:
        zookeeper = session.connected()
        began = time.monotonic()
        path = zookeeper.path(f".doctor-{uuid4().hex[:8]}")
        zookeeper.create(path, b"yarnam doctor", ephemeral=True)
        zookeeper.delete(path)
        took_ms = (time.monotonic() - began) * 1000
    except Unavailable as error:
        return warn(error.message, error.hint or hint)
    finally:
        session.close()
    return ok(f"{site.zookeeper} can be written ({took_ms:.0f} ms)")


@_named("Skein")
def _skein(site: Site) -> Finding:
    launcher = site.open_launcher()
    try:
        return ok(launcher.wait())
    finally:
        launcher.close()


@_named("Heartbeats")
def _heartbeats(site: Site) -> Finding:
    yarn_site = skein_specs.read_site_conf(site.conf_dir)["yarn-site.xml"]
    if reason := skein_specs.why_not_intercepted(yarn_site):
        return warn(
            f"each running job sends 4 a second and hears no preemption notice: {reason}",
            "Jobs run all the same: yarnam docs application-master.",
        )
    return ok("a running job sends at most one in 3 s, and hears preemption notices")


@_named("Lost ApplicationMaster")
def _adoption(site: Site) -> Finding:
    yarn_site = skein_specs.read_site_conf(site.conf_dir)["yarn-site.xml"]
    reason = skein_specs.why_not_intercepted(yarn_site)
    if not reason and site.submits_by_driver:
        reason = "Skein's driver submits (YARNAM_SUBMIT=driver)"
    if reason:
        return warn(
            f"a job's containers end with it: {reason}",
            "The gang starts again from its checkpoint then: yarnam docs application-master.",
        )
    return ok("a job's containers outlive it, and the next attempt adopts them")


@_named("Queues")
def _queues(site: Site, queue: str) -> Finding:
    names = sorted(view.name for view in site.rm.queues())
    if queue:
        if queue not in names:
            return fail(
                f"queue {queue} does not exist", f"Queues: {', '.join(names)}", ExitCode.BAD_SPEC
            )
        names = [queue]
    access = {name: site.rm.queue_access(name, site.user) for name in names}
    refused = [name for name, allowed in access.items() if allowed is False]
    usable = [name for name, allowed in access.items() if allowed]
    untold = [name for name, allowed in access.items() if allowed is None]
    if not usable and not untold:
        return fail(
            f"{site.user} is not allowed to submit to {', '.join(names) or 'any queue'}",
            "Ask an administrator for SUBMIT access.",
            ExitCode.NO_PERMISSION,
        )
    parts = []
    if usable:
        parts.append(f"{site.user} may submit to {', '.join(usable)}")
    if refused:
        parts.append(f"not to {', '.join(refused)}")
    if untold:
        parts.append(f"{', '.join(untold)}: the ResourceManager tells only the queue's admins")
    return ok("; ".join(parts))


@_named("GPU resource type")
def _gpu_type(site: Site) -> Finding:
    settings = read_settings(site.conf_dir, "yarn-site.xml", "resource-types.xml")
    types = [name.strip() for name in settings.get("yarn.resource-types", "").split(",")]
    total = sum(node.total.gpus for node in _snapshot(site).nodes if node.is_usable)
    if not total:
        return fail(
            "no node of the cluster offers yarn.io/gpu",
            "An administrator must configure it: yarnam docs prepare-a-cluster",
            ExitCode.BAD_CONFIG,
        )
    if "yarn.io/gpu" not in types:
        return warn(
            f"the cluster has {total} GPUs, but this machine's configuration lacks yarn.io/gpu",
            f"Put resource-types.xml with yarn.resource-types=yarn.io/gpu into {site.conf_dir}.",
        )
    return ok(f"yarn.io/gpu, {total} on the cluster")


@_named("Nodes")
def _nodes(site: Site) -> Finding:
    nodes = _snapshot(site).nodes
    usable = [node for node in nodes if node.is_usable]
    others = [node for node in nodes if node.state is not NodeState.RUNNING]
    if not usable:
        return fail("no node is running", "Ask an administrator.", ExitCode.UNAVAILABLE)
    free = sum(node.free.gpus for node in usable)
    message = f"{len(usable)} running, {free} GPUs free"
    if others:
        named = ", ".join(f"{node.node_id} {node.state.value}" for node in others[:5])
        return warn(f"{message}; {len(others)} not running: {named}", "See 'yarn node -list -all'.")
    return ok(message)


@_named("Racks")
def _racks(site: Site) -> Finding:
    racks = {str(node.rack) for node in _snapshot(site).nodes if node.is_usable}
    if racks == {"/default-rack"}:
        return warn(
            "no racks configured: all nodes are in /default-rack",
            "Placement by rack has no effect without a topology script or table.",
        )
    return ok(f"{len(racks)}: {', '.join(sorted(racks)[:8])}")


@_named("Scheduler")
def _hands_out(site: Site) -> Finding:
    try:
        settings = site.rm.settings()
    except NoPermission:
        return ok("the ResourceManager does not show its configuration")
    found = check_scheduler(settings)
    config = site.rm.capacity_config()
    if config is None or found.health is not Health.OK:
        return found
    return check_capacity(config, settings, _snapshot(site).nodes) or found


@_named("Log aggregation")
def _log_aggregation(site: Site) -> Finding:
    settings = read_settings(site.conf_dir, "yarn-site.xml")
    if settings.get("yarn.log-aggregation-enable", "false") != "true":
        return warn(
            "off, according to this machine's configuration",
            "Logs of finished jobs stay on the nodes, for hours; set yarn.log-aggregation-enable.",
        )
    return ok("on")


@_named("Security")
def _security(site: Site) -> Finding:
    try:
        settings = dict(site.rm.settings())
    except NoPermission:
        settings = {}
    settings.update(read_settings(site.conf_dir, "core-site.xml", "hdfs-site.xml", "yarn-site.xml"))
    doors = open_doors(
        settings,
        has_zookeeper=bool(site.zookeeper),
        has_zookeeper_secret=bool(zookeeper_credentials(site.environ)),
    )
    if doors:
        return warn("; ".join(doors), "Who can do what: yarnam docs security.")
    return ok("no open door is known")


@_named("Sessions")
def _sessions(site: Site) -> Finding:
    if site.has_sessions:
        return ok("jobs' owners can open sessions in their tasks, unless the spec forbids it")
    return ok(f"off for new jobs: {SESSIONS} is false")


@_named("Code on HDFS")
def _stored_code(site: Site) -> Finding:
    return check_stored_code(site)


@_named("Cache of the nodes")
def _node_cache(site: Site) -> Finding:
    return check_node_cache(site, _snapshot(site))


@_named("Secret files")
def _secret_files(site: Site) -> Finding:
    return check_secret_files(site.gateway, site.environ)


@_named("yarnam's own packages")
def _runtime() -> Finding:
    source = runtime_source()
    missing = [name for name, folder in source.packages if not Path(folder).is_dir()]
    if missing:
        return fail(f"{missing} cannot be found", "Reinstall yarnam.", ExitCode.BAD_CONFIG)
    return ok(f"{len(source.distributions)} distributions to ship, runtime {source.key}")


def _snapshot(site: Site) -> ClusterSnapshot:
    return site.rm.snapshot("root")
