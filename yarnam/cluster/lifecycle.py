"""Bring a cluster up and take it down, whatever state an earlier command left it in."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from yarnam.cluster import prepare, probes, record
from yarnam.cluster.addresses import claim_slot
from yarnam.cluster.boot import Boot, DaemonFailed, daemon_failure
from yarnam.cluster.commands import format_command
from yarnam.cluster.locks import exclusive, holder
from yarnam.cluster.places import ClusterPlaces
from yarnam.cluster.plan import ClusterPlan
from yarnam.cluster.processes import ProcessId, end, processes_of, read_record
from yarnam.cluster.progress import Reporter
from yarnam.cluster.record import ClusterRecord
from yarnam.cluster.shape import ClusterShape
from yarnam.errors import BadConfig, Cancelled, InternalError, Unavailable

UpResult = Literal["started", "already up", "repaired"]

# Another command on the same cluster: `up` and `restart` hold the lock while they work.
COMMAND_LOCK_LIMIT_S = 2.0
# `down` asks a running `up` to stop, which then ends its own daemons first.
CANCEL_LIMIT_S = 60.0
FORMAT_LIMIT_S = 120
HDFS_LIMIT_S = 90.0
KILL_LIMIT_S = 15.0
# A DataNode that is to be used again gets the time to close its files.
KEEP_GRACE_S = 5.0
# A port can be taken between choosing and using it; then the whole start is made anew.
START_TRIES = 3


def up(shape: ClusterShape, places: ClusterPlaces, cache: Path, reporter: Reporter) -> UpResult:
    """Return when the cluster can take a job; on any failure nothing is left running."""
    java, jars = prepare.software(cache, reporter)
    with exclusive(places.lock, COMMAND_LOCK_LIMIT_S, f"cluster '{places.name}'"):
        found = record.read(places)
        if found is not None and found.phase == "ready":
            result = _reuse(found, shape, reporter)
            if result is not None:
                return result
        _clear(found, places, reporter)
        cancel = places.cancel
        cancel.unlink(missing_ok=True)
        for attempt in range(1, START_TRIES + 1):
            with claim_slot(record.recorded_slots(places.base) - _own_slot(found)) as slot:
                plan = prepare.make_plan(shape, places, slot, java, jars)
                try:
                    _start_all(plan, reporter)
                except DaemonFailed as error:
                    if not error.port_taken or attempt == START_TRIES:
                        raise
                    reporter.say("a port was taken meanwhile; starting anew on others")
                else:
                    return "started"
    raise InternalError("the last try to start the cluster neither failed nor succeeded")


def _own_slot(found: ClusterRecord | None) -> set[int]:
    return {found.plan.slot} if found else set()


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
    boot = Boot(found.plan, reporter, found.archive)
    for daemon in dead:
        boot.start(daemon)
    boot.wait(dead)
    return "repaired"


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


def _clear(found: ClusterRecord | None, places: ClusterPlaces, reporter: Reporter) -> None:
    """End and remove what an earlier life left, but for HDFS data that was meant to stay."""
    if found is None:
        prepare.remove_tree(places.root)
        return
    end_all(found.plan, grace_s=0)
    keep_hdfs = found.phase in ("ready", "kept")
    for child in places.root.iterdir():
        if child == places.data and keep_hdfs:
            for each in child.iterdir():
                if each != places.hdfs:
                    prepare.remove_tree(each)
        elif child.is_dir():
            prepare.remove_tree(child)
    if keep_hdfs:
        reporter.say("HDFS keeps the data it had")


def _start_all(plan: ClusterPlan, reporter: Reporter) -> None:
    prepare.write_cluster(plan, prepare.queues_of(plan))
    current = ClusterRecord(plan, "starting")
    record.write(current)
    try:
        _boot(plan, reporter)
    except BaseException:
        # Ctrl-C included. The logs stay: the message names them.
        end_all(plan, grace_s=0)
        record.write(replace(current, phase="failed"))
        raise
    record.write(replace(current, phase="ready"))


def _boot(plan: ClusterPlan, reporter: Reporter) -> None:
    boot = Boot(plan, reporter, None, _cancelled(plan))
    fresh = not (plan.places.hdfs / "nn" / "current" / "VERSION").exists()
    for daemon in plan.daemons:
        if daemon == "nn" and fresh:
            _format(plan)
        boot.start(daemon)
    boot.wait(daemon for daemon in plan.daemons if daemon in ("nn", *plan.datanodes))
    boot.wait_for("HDFS", lambda: probes.hdfs_is_writable(plan), "nn", HDFS_LIMIT_S)
    for path, mode, owner in hdfs_folders(plan.user):
        boot.wait_for(
            f"making {path} on HDFS",
            lambda path=path, mode=mode, owner=owner: probes.make_directory(  # type: ignore[misc]
                plan, path, mode, owner
            ),
            "nn",
            HDFS_LIMIT_S,
        )
    boot.wait(plan.daemons)


def hdfs_folders(user: str) -> list[tuple[str, str, str | None]]:
    """What every site's HDFS has: path, mode, owner."""
    return [
        ("/tmp", "1777", None),  # noqa: S108 - a folder of HDFS
        ("/app-logs", "1777", None),
        ("/user", "755", None),
        (f"/user/{user}", "755", user),
    ]


def _cancelled(plan: ClusterPlan) -> Callable[[], None]:
    def check() -> None:
        if plan.places.cancel.exists():
            raise Cancelled(f"'yarnam cluster down' stopped the start of '{plan.name}'")

    return check


def _format(plan: ClusterPlan) -> None:
    command = format_command(plan, None)
    with plan.places.out("nn").open("wb") as out:
        try:
            code = subprocess.run(
                command.argv,
                env=dict(command.environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=FORMAT_LIMIT_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired as error:
            raise daemon_failure(
                plan, "nn", f"was not formatted within {FORMAT_LIMIT_S} s"
            ) from error
    if code:
        raise daemon_failure(plan, "nn", f"could not be formatted (exit code {code})")


def down(places: ClusterPlaces, reporter: Reporter, *, keep_data: bool = False) -> bool:
    """End every process of the cluster and remove its folder; False when there was none."""
    if not places.root.exists():
        return False
    if holder(places.lock) is not None:
        # An `up` at work looks for this file and ends what it has started.
        places.cancel.touch()
    with exclusive(places.lock, CANCEL_LIMIT_S, f"cluster '{places.name}'"):
        places.cancel.unlink(missing_ok=True)
        found = _read_for_down(places)
        if found is not None:
            gone = end_all(found.plan, grace_s=KEEP_GRACE_S if keep_data else 0)
            reporter.say(f"ended {gone} processes")
        if keep_data and found is not None and found.phase in ("ready", "kept"):
            _clear(replace(found, phase="kept"), places, reporter)
            record.write(replace(found, phase="kept"))
        else:
            prepare.remove_tree(places.root)
    return True


def _read_for_down(places: ClusterPlaces) -> ClusterRecord | None:
    return record.read(places)


def recorded_processes(plan: ClusterPlan) -> list[ProcessId]:
    found = (read_record(path) for path in plan.places.processes.glob("*.json"))
    return [identity for identity in found if identity is not None]


def living_processes(plan: ClusterPlan) -> list[ProcessId]:
    return processes_of(plan.cluster_id, recorded_processes(plan), plan.places.root)


def end_all(plan: ClusterPlan, *, grace_s: float) -> int:
    """End daemons and containers; returns how many processes that were.

    Looked for again after each round: a NodeManager may have started a container, and a container
    a process, in between.
    """
    deadline = time.monotonic() + KILL_LIMIT_S + grace_s
    ended = 0
    while True:
        living = living_processes(plan)
        if not living:
            break
        left = end(living, grace_s, KILL_LIMIT_S)
        ended += len(living) - len(left)
        if time.monotonic() > deadline:
            pids = ", ".join(str(process.pid) for process in left or living)
            raise Unavailable(
                f"processes of cluster '{plan.name}' do not end: {pids}",
                hint="A process in the middle of a disk access ends later; try again.",
            )
    for path in plan.places.processes.glob("*.json"):
        path.unlink()
    return ended
