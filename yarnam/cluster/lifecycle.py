"""Bring a cluster up and take it down, whatever state an earlier command left it in."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from yarnam.cluster import cluster_plan, machine_users, prepare
from yarnam.cluster.cluster_lock import exclusive, holder
from yarnam.cluster.cluster_paths import ClusterPaths
from yarnam.cluster.cluster_plan import ClusterPlan, ClusterRecord
from yarnam.cluster.daemons import daemon_probes
from yarnam.cluster.daemons.daemon_processes import ProcessId, end, processes_of, read_record, start
from yarnam.cluster.daemons.daemon_startup import DaemonFailed, DaemonStartup, daemon_failure
from yarnam.cluster.daemons.loopback_addresses import claim_slot
from yarnam.cluster.hadoop import kerberos_realm
from yarnam.cluster.hadoop.daemon_commands import format_command
from yarnam.cluster.reporters import Reporter
from yarnam.cluster.shape import ClusterShape
from yarnam.cluster.software.jar_cache import JarCache
from yarnam.cluster.software.java import Java
from yarnam.errors import BadConfig, Cancelled, Unavailable

UpResult = Literal["started", "already up", "repaired"]

# Another command on the same cluster: `up` and `restart` hold the lock while they work.
COMMAND_LOCK_LIMIT_S = 2.0
# `down` asks a running `up` to stop, which then ends its own daemons first.
CANCEL_LIMIT_S = 60.0
FORMAT_LIMIT_S = 120.0
HDFS_LIMIT_S = 90.0
# NodeManagers ask for a lost ResourceManager every half second.
REJOIN_LIMIT_S = 60.0
KILL_LIMIT_S = 15.0
# A DataNode that is to be used again gets the time to close its files.
KEEP_GRACE_S = 5.0
# A port can be taken between choosing and using it; then the cluster is started again.
START_TRIES = 3


def up(
    shape: ClusterShape,
    paths: ClusterPaths,
    cache: Path,
    reporter: Reporter,
    *,
    shared_machine: bool = False,
) -> UpResult:
    """Return when the cluster can take a job; on any failure nothing is left running. Refused
    where other people use the machine, unless the user knows: ``shared_machine``."""
    if not Path("/proc").is_dir():
        raise BadConfig("the embedded cluster needs Linux (127.0.0.0/8 and /proc)")
    exposure = machine_users.open_to_all(secure=shape.secure, has_zookeeper=shape.zookeeper)
    if living_processes(paths):
        # People may have logged in since the cluster was started.
        facts = machine_users.read_machine()
        if not shared_machine and (danger := machine_users.danger_from_others(facts, exposure)):
            reporter.message(f"warning: {danger}. To end it: yarnam cluster down")
    else:
        if not shared_machine:
            machine_users.refuse_shared_machine(machine_users.read_machine(), exposure)
        if exposure:
            reporter.message(f"note: {exposure}")
    java, jars = prepare.software(cache, reporter, shape)
    with exclusive(paths.lock, COMMAND_LOCK_LIMIT_S, f"cluster '{paths.name}'"):
        paths.cancel.unlink(missing_ok=True)
        found = cluster_plan.load_cluster(paths)
        if found is not None and found.phase == "ready":
            result = _reuse(found, shape, reporter)
            if result is not None:
                return result
        _check_kept(shape, paths)
        others = cluster_plan.recorded_slots(paths.base) - ({found.plan.slot} if found else set())
        for _ in range(START_TRIES - 1):
            try:
                _start_from_scratch(shape, paths, (java, jars), others, reporter)
            except DaemonFailed as error:
                if not error.port_taken:
                    raise
                reporter.message("a port was taken in the meantime: starting again on other ports")
            else:
                return "started"
        _start_from_scratch(shape, paths, (java, jars), others, reporter)
    return "started"


def _start_from_scratch(
    shape: ClusterShape,
    paths: ClusterPaths,
    software: tuple[Java, JarCache],
    others: set[int],
    reporter: Reporter,
) -> None:
    _clear(paths, reporter)
    with claim_slot(others) as slot:
        _start_all(prepare.make_plan(shape, paths, slot, *software), reporter)


def _reuse(found: ClusterRecord, shape: ClusterShape, reporter: Reporter) -> UpResult | None:
    """Keep a cluster that is up; None when none of its processes runs (after a reboot)."""
    dead = [daemon for daemon in found.plan.daemons if not is_alive(found.plan, daemon)]
    if len(dead) == len(found.plan.daemons):
        reporter.message("the cluster's processes are gone: starting it again with its HDFS data")
        return None
    if found.plan.shape != shape:
        raise BadConfig(
            f"cluster '{found.plan.name}' is up with another shape"
            f" ({differences(found.plan.shape, shape)})",
            hint=f"Take it down first (yarnam cluster down --name {found.plan.name}),"
            " or give the new one another --name.",
        )
    if not dead:
        return "already up"
    _check_kdc(found.plan, dead)
    reporter.message(f"restarting dead daemons: {', '.join(dead)}")
    _start_some(found.plan, dead, reporter)
    return "repaired"


def start_again(plan: ClusterPlan, daemons: list[str], reporter: Reporter) -> None:
    _check_kdc(plan, daemons)
    with exclusive(plan.paths.lock, COMMAND_LOCK_LIMIT_S, f"cluster '{plan.name}'"):
        _start_some(plan, daemons, reporter)


def _check_kdc(plan: ClusterPlan, daemons: list[str]) -> None:
    """Raises BadConfig: another KDC would have other keys than the daemons that run."""
    if "kdc" in daemons:
        raise BadConfig(
            f"the KDC of cluster '{plan.name}' has ended, and its keys with it",
            hint=f"Take the cluster down and bring it up again: yarnam cluster down --keep-data"
            f" --name {plan.name}",
        )


def _start_some(plan: ClusterPlan, daemons: list[str], reporter: Reporter) -> None:
    boot = DaemonStartup(plan, reporter)
    began = time.time()
    for daemon in daemons:
        boot.start(daemon)
    boot.wait(daemons)
    # Running daemons have to find the new NameNode or ResourceManager; dead ones may be dead on
    # purpose.
    living = [daemon for daemon in plan.daemons if is_alive(plan, daemon)]
    if "nn" in daemons and set(plan.datanodes) <= set(living):
        boot.wait_for("HDFS", partial(daemon_probes.hdfs_is_writable, plan), "nn", HDFS_LIMIT_S)
    if set(daemons) & set(plan.resourcemanagers):
        nodes = [node.name for node in plan.nodes if node.name in living]
        boot.wait_for(
            "the return of the nodes", partial(_are_back, plan, nodes), "rm", REJOIN_LIMIT_S
        )
    reporter.message(f"{', '.join(daemons)} ready after {time.time() - began:.1f} s")


def _are_back(plan: ClusterPlan, nodes: list[str]) -> None:
    states = daemon_probes.node_states(plan)
    for name in nodes:
        daemon_probes.node_is_running(plan, name, states)


def differences(old: ClusterShape, new: ClusterShape) -> str:
    before, after = old.to_json(), new.to_json()
    return ", ".join(
        f"{key} {before[key]}, asked for {after[key]}"
        for key in before
        if before[key] != after[key]
    )


def is_alive(plan: ClusterPlan, daemon: str) -> bool:
    identity = read_record(plan.paths.process_record(daemon))
    return identity is not None and identity.is_alive()


def _clear(paths: ClusterPaths, reporter: Reporter) -> None:
    """End and remove what an earlier run left, except HDFS data that was complete once."""
    end_all(paths, grace_s=0)
    if not paths.hdfs_is_complete.exists():
        prepare.remove_tree(paths.root)
        return
    for child in (*paths.root.iterdir(), *paths.data.iterdir()):
        if child not in (paths.data, paths.hdfs, paths.record):
            prepare.remove_tree(child)
    reporter.message("keeping the HDFS data")


def _check_kept(shape: ClusterShape, paths: ClusterPaths) -> None:
    """Fewer DataNodes than the kept data is on would leave HDFS in safe mode for ever."""
    kept = len(list(paths.hdfs.glob("dn*")))
    if paths.hdfs_is_complete.exists() and kept > shape.datanodes:
        raise BadConfig(
            f"the HDFS data that '{paths.name}' has kept is on {kept} DataNodes,"
            f" the new shape has {shape.datanodes}",
            hint=f"Ask for --datanodes {kept}, or delete the data:"
            f" yarnam cluster down --name {paths.name}",
        )


def _start_all(plan: ClusterPlan, reporter: Reporter) -> None:
    prepare.write_cluster(plan, prepare.queues_of(plan))
    current = ClusterRecord(plan, "starting")
    cluster_plan.save_cluster(current)
    try:
        _boot(plan, reporter)
    except BaseException:
        # Ctrl-C included. The logs stay: the message names them.
        end_all(plan.paths, grace_s=0)
        cluster_plan.save_cluster(replace(current, phase="failed"))
        raise
    cluster_plan.save_cluster(replace(current, phase="ready"))


def _boot(plan: ClusterPlan, reporter: Reporter) -> None:
    boot = DaemonStartup(plan, reporter, _cancelled(plan))
    if plan.shape.secure:
        boot.start("kdc")
        boot.wait(["kdc"])
        kerberos_realm.write_keytabs(plan)
    for daemon in (each for each in plan.daemons if each != "kdc"):
        if daemon == "nn" and not plan.paths.hdfs_is_complete.exists():
            _format(plan, boot)
        boot.start(daemon)
    boot.wait(daemon for daemon in plan.daemons if daemon in ("nn", *plan.datanodes))
    boot.wait_for("HDFS", partial(daemon_probes.hdfs_is_writable, plan), "nn", HDFS_LIMIT_S)
    owners = kerberos_realm.users(plan) if plan.shape.secure else (plan.user,)
    for folder in hdfs_folders(*owners):
        boot.wait_for(
            f"making {folder.path} on HDFS",
            partial(daemon_probes.make_directory, plan, folder.path, folder.mode, folder.owner),
            "nn",
            HDFS_LIMIT_S,
        )
    plan.paths.hdfs_is_complete.touch()
    boot.wait(plan.daemons)


@dataclass(frozen=True, slots=True)
class HdfsFolder:
    path: str
    mode: str
    owner: str | None = None


def hdfs_folders(*users: str) -> tuple[HdfsFolder, ...]:
    """What every site's HDFS has."""
    return (
        HdfsFolder("/tmp", "1777"),  # noqa: S108 - a folder of HDFS
        HdfsFolder("/app-logs", "1777"),
        HdfsFolder("/user", "755"),
        *(HdfsFolder(f"/user/{user}", "755", user) for user in users),
    )


def _cancelled(plan: ClusterPlan) -> Callable[[], None]:
    def check() -> None:
        if plan.paths.cancel.exists():
            raise Cancelled(f"'yarnam cluster down' stopped the start of '{plan.name}'")

    return check


def _format(plan: ClusterPlan, boot: DaemonStartup) -> None:
    """Make the empty HDFS, while the daemons that do not need it continue starting."""
    paths = plan.paths
    process = start(format_command(plan), paths.out("nn"), paths.process_record("format"))

    def has_ended() -> None:
        if process.poll() is None:
            raise daemon_probes.NotReady("it is still being formatted")

    boot.wait_for("formatting HDFS", has_ended, "nn", FORMAT_LIMIT_S)
    paths.process_record("format").unlink(missing_ok=True)
    if process.returncode:
        raise daemon_failure(plan, "nn", f"was not formatted (exit code {process.returncode})")


def down(paths: ClusterPaths, reporter: Reporter, *, keep_data: bool = False) -> bool:
    """End every process of the cluster and remove its folder; False when there was none."""
    if not paths.root.exists():
        return False
    if holder(paths.lock) is not None:
        # A running `up` polls for this file and ends what it has started.
        paths.cancel.touch()
    with exclusive(paths.lock, CANCEL_LIMIT_S, f"cluster '{paths.name}'"):
        paths.cancel.unlink(missing_ok=True)
        ended = end_all(paths, grace_s=KEEP_GRACE_S if keep_data else 0)
        reporter.message(f"ended {ended} processes")
        if keep_data and paths.hdfs_is_complete.exists():
            # A record that cannot be read is an error here, before anything is deleted.
            found = cluster_plan.load_cluster(paths)
            _clear(paths, reporter)
            if found is not None:
                cluster_plan.save_cluster(replace(found, phase="kept"))
        else:
            prepare.remove_tree(paths.root)
    return True


def living_processes(paths: ClusterPaths) -> list[ProcessId]:
    """Every living process of the cluster, found even where its record is damaged."""
    roots = [read_record(path) for path in paths.processes.glob("*.json")]
    return processes_of(
        cluster_plan.read_cluster_id(paths),
        [root for root in roots if root is not None],
        [path / "local" for path in paths.data.glob("nm*")],
    )


def end_all(paths: ClusterPaths, *, grace_s: float) -> int:
    """End daemons and containers; returns how many processes that were. Looked for again after each
    round: a NodeManager may have started a container, and a container a process, in between."""
    deadline = time.monotonic() + KILL_LIMIT_S + grace_s
    ended = 0
    while living := living_processes(paths):
        left = end(living, grace_s, KILL_LIMIT_S)
        ended += len(living) - len(left)
        if time.monotonic() > deadline:
            pids = ", ".join(str(process.pid) for process in left or living)
            raise Unavailable(
                f"processes of cluster '{paths.name}' do not end: {pids}",
                hint="A process in the middle of a disk access ends later; try again.",
            )
    for path in paths.processes.glob("*.json"):
        path.unlink()
    return ended
