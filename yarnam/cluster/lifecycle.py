"""Bring a cluster up and take it down, whatever state an earlier command left it in."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from yarnam.cluster import prepare, probes, record
from yarnam.cluster.addresses import claim_slot
from yarnam.cluster.boot import Boot, DaemonFailed, daemon_failure
from yarnam.cluster.commands import format_command
from yarnam.cluster.jars import JarCache
from yarnam.cluster.java import Java
from yarnam.cluster.locks import exclusive, holder
from yarnam.cluster.places import ClusterPlaces
from yarnam.cluster.plan import ClusterPlan
from yarnam.cluster.processes import PROC, ProcessId, end, processes_of, read_record, start
from yarnam.cluster.progress import Reporter
from yarnam.cluster.record import ClusterRecord
from yarnam.cluster.shape import ClusterShape
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
# A port can be taken between choosing and using it; then the whole start is made anew.
START_TRIES = 3


def up(shape: ClusterShape, places: ClusterPlaces, cache: Path, reporter: Reporter) -> UpResult:
    """Return when the cluster can take a job; on any failure nothing is left running."""
    if not PROC.is_dir():
        raise BadConfig("the embedded cluster needs Linux (127.0.0.0/8 and /proc)")
    java, jars = prepare.software(cache, reporter)
    with exclusive(places.lock, COMMAND_LOCK_LIMIT_S, f"cluster '{places.name}'"):
        places.cancel.unlink(missing_ok=True)
        found = record.read(places)
        if found is not None and found.phase == "ready":
            result = _reuse(found, shape, reporter)
            if result is not None:
                return result
        _check_kept(shape, places)
        others = record.recorded_slots(places.base) - ({found.plan.slot} if found else set())
        for _ in range(START_TRIES - 1):
            try:
                _start_anew(shape, places, (java, jars), others, reporter)
            except DaemonFailed as error:
                if not error.port_taken:
                    raise
                reporter.say("a port was taken meanwhile; starting anew on others")
            else:
                return "started"
        _start_anew(shape, places, (java, jars), others, reporter)
    return "started"


def _start_anew(
    shape: ClusterShape,
    places: ClusterPlaces,
    software: tuple[Java, JarCache],
    others: set[int],
    reporter: Reporter,
) -> None:
    _clear(places, reporter)
    with claim_slot(others) as slot:
        _start_all(prepare.make_plan(shape, places, slot, *software), reporter)


def _reuse(found: ClusterRecord, shape: ClusterShape, reporter: Reporter) -> UpResult | None:
    """Keep a cluster that is up; None when nothing of it lives (a reboot, say)."""
    dead = [daemon for daemon in found.plan.daemons if not is_alive(found.plan, daemon)]
    if len(dead) == len(found.plan.daemons):
        reporter.say("the cluster's processes are gone; starting it again with its HDFS data")
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
    reporter.say(f"starting what is dead: {', '.join(dead)}")
    _start_some(found.plan, dead, reporter)
    return "repaired"


def start_again(plan: ClusterPlan, daemons: list[str], reporter: Reporter) -> None:
    with exclusive(plan.places.lock, COMMAND_LOCK_LIMIT_S, f"cluster '{plan.name}'"):
        _start_some(plan, daemons, reporter)


def _start_some(plan: ClusterPlan, daemons: list[str], reporter: Reporter) -> None:
    boot = Boot(plan, reporter)
    began = time.time()
    for daemon in daemons:
        boot.start(daemon)
    boot.wait(daemons)
    # Whoever lives has to find the new NameNode or ResourceManager; whoever is dead may be so on
    # purpose.
    living = [daemon for daemon in plan.daemons if is_alive(plan, daemon)]
    if "nn" in daemons and set(plan.datanodes) <= set(living):
        boot.wait_for("HDFS", partial(probes.hdfs_is_writable, plan), "nn", HDFS_LIMIT_S)
    if "rm" in daemons:
        nodes = [node.name for node in plan.nodes if node.name in living]
        boot.wait_for(
            "the return of the nodes", partial(_are_back, plan, nodes), "rm", REJOIN_LIMIT_S
        )
    reporter.say(f"{', '.join(daemons)} up again after {time.time() - began:.1f} s")


def _are_back(plan: ClusterPlan, nodes: list[str]) -> None:
    states = probes.node_states(plan)
    for name in nodes:
        probes.node_is_running(plan, name, states)


def differences(old: ClusterShape, new: ClusterShape) -> str:
    before, after = old.to_json(), new.to_json()
    return ", ".join(
        f"{key} {before[key]}, asked for {after[key]}"
        for key in before
        if before[key] != after[key]
    )


def is_alive(plan: ClusterPlan, daemon: str) -> bool:
    identity = read_record(plan.places.process_record(daemon))
    return identity is not None and identity.is_alive()


def _clear(places: ClusterPlaces, reporter: Reporter) -> None:
    """End and remove what an earlier life left, but for HDFS data that was once whole."""
    end_all(places, grace_s=0)
    if not places.hdfs_is_whole.exists():
        prepare.remove_tree(places.root)
        return
    for child in (*places.root.iterdir(), *places.data.iterdir()):
        if child not in (places.data, places.hdfs, places.record):
            prepare.remove_tree(child)
    reporter.say("HDFS keeps the data it had")


def _check_kept(shape: ClusterShape, places: ClusterPlaces) -> None:
    """Fewer DataNodes than the kept data is on would leave HDFS in safe mode for ever."""
    kept = len(list(places.hdfs.glob("dn*")))
    if places.hdfs_is_whole.exists() and kept > shape.datanodes:
        raise BadConfig(
            f"the HDFS data that '{places.name}' has kept is on {kept} DataNodes,"
            f" the new shape has {shape.datanodes}",
            hint=f"Ask for --datanodes {kept}, or delete the data:"
            f" yarnam cluster down --name {places.name}",
        )


def _start_all(plan: ClusterPlan, reporter: Reporter) -> None:
    prepare.write_cluster(plan, prepare.queues_of(plan))
    current = ClusterRecord(plan, "starting")
    record.write(current)
    try:
        _boot(plan, reporter)
    except BaseException:
        # Ctrl-C included. The logs stay: the message names them.
        end_all(plan.places, grace_s=0)
        record.write(replace(current, phase="failed"))
        raise
    record.write(replace(current, phase="ready"))


def _boot(plan: ClusterPlan, reporter: Reporter) -> None:
    boot = Boot(plan, reporter, _cancelled(plan))
    for daemon in plan.daemons:
        if daemon == "nn" and not plan.places.hdfs_is_whole.exists():
            _format(plan, boot)
        boot.start(daemon)
    boot.wait(daemon for daemon in plan.daemons if daemon in ("nn", *plan.datanodes))
    boot.wait_for("HDFS", partial(probes.hdfs_is_writable, plan), "nn", HDFS_LIMIT_S)
    for folder in hdfs_folders(plan.user):
        boot.wait_for(
            f"making {folder.path} on HDFS",
            partial(probes.make_directory, plan, folder.path, folder.mode, folder.owner),
            "nn",
            HDFS_LIMIT_S,
        )
    plan.places.hdfs_is_whole.touch()
    boot.wait(plan.daemons)


@dataclass(frozen=True, slots=True)
class HdfsFolder:
    path: str
    mode: str
    owner: str | None = None


def hdfs_folders(user: str) -> tuple[HdfsFolder, ...]:
    """What every site's HDFS has."""
    return (
        HdfsFolder("/tmp", "1777"),  # noqa: S108 - a folder of HDFS
        HdfsFolder("/app-logs", "1777"),
        HdfsFolder("/user", "755"),
        HdfsFolder(f"/user/{user}", "755", user),
    )


def _cancelled(plan: ClusterPlan) -> Callable[[], None]:
    def check() -> None:
        if plan.places.cancel.exists():
            raise Cancelled(f"'yarnam cluster down' stopped the start of '{plan.name}'")

    return check


def _format(plan: ClusterPlan, boot: Boot) -> None:
    """Make the empty HDFS, while the daemons that do not need it go on starting."""
    places = plan.places
    process = start(format_command(plan), places.out("nn"), places.process_record("format"))

    def has_ended() -> None:
        if process.poll() is None:
            raise probes.NotReady("it is still being formatted")

    boot.wait_for("formatting HDFS", has_ended, "nn", FORMAT_LIMIT_S)
    places.process_record("format").unlink(missing_ok=True)
    if process.returncode:
        raise daemon_failure(plan, "nn", f"was not formatted (exit code {process.returncode})")


def down(places: ClusterPlaces, reporter: Reporter, *, keep_data: bool = False) -> bool:
    """End every process of the cluster and remove its folder; False when there was none."""
    if not places.root.exists():
        return False
    if holder(places.lock) is not None:
        # An `up` at work looks for this file and ends what it has started.
        places.cancel.touch()
    with exclusive(places.lock, CANCEL_LIMIT_S, f"cluster '{places.name}'"):
        places.cancel.unlink(missing_ok=True)
        ended = end_all(places, grace_s=KEEP_GRACE_S if keep_data else 0)
        reporter.say(f"ended {ended} processes")
        if keep_data and places.hdfs_is_whole.exists():
            # A record that cannot be read is an error here, before anything is deleted.
            found = record.read(places)
            _clear(places, reporter)
            if found is not None:
                record.write(replace(found, phase="kept"))
        else:
            prepare.remove_tree(places.root)
    return True


def living_processes(places: ClusterPlaces) -> list[ProcessId]:
    """Every living process of the cluster, found even where its record is damaged."""
    roots = [read_record(path) for path in places.processes.glob("*.json")]
    return processes_of(
        record.read_cluster_id(places),
        [root for root in roots if root is not None],
        [path / "local" for path in places.data.glob("nm*")],
    )


def end_all(places: ClusterPlaces, *, grace_s: float) -> int:
    """End daemons and containers; returns how many processes that were.

    Looked for again after each round: a NodeManager may have started a container, and a container
    a process, in between.
    """
    deadline = time.monotonic() + KILL_LIMIT_S + grace_s
    ended = 0
    while living := living_processes(places):
        left = end(living, grace_s, KILL_LIMIT_S)
        ended += len(living) - len(left)
        if time.monotonic() > deadline:
            pids = ", ".join(str(process.pid) for process in left or living)
            raise Unavailable(
                f"processes of cluster '{places.name}' do not end: {pids}",
                hint="A process in the middle of a disk access ends later; try again.",
            )
    for path in places.processes.glob("*.json"):
        path.unlink()
    return ended
