"""The storm's faults: one table, from the name of a kind to the function that does it.

A function has the storm and the fault that is due. It chooses with the fault's own dice, tells
before it does harm what it does (``storm.tell``), and mends what would not mend itself.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tests.integration.fault_world import AGENT, AM, JAVA_AM, is_shell, parent_of
from tests.integration.storm_net import harm

if TYPE_CHECKING:
    from tests.integration.storm import Storm
    from tests.integration.storm_world import Run
    from yarnam.cluster import EmbeddedCluster

SHORTLY_S = (1.0, 16.0)
"""For less or for more than YARN's own expiry (10 s) and ZooKeeper's session (10 s)."""

VICTIM_S = 900.0
"""Until there is one to hit: the other faults may keep all jobs from starting for minutes, but each
of them ends, or waits for a victim too."""


@dataclass(frozen=True)
class Fault:
    """One of a schedule: ``wait_s`` after the one before, for ``away_s``. ``seed`` is of its own
    dice, so that what an earlier fault has found to choose from changes nothing."""

    number: int
    kind: str
    wait_s: float
    away_s: float
    seed: str

    def dice(self) -> random.Random:
        return random.Random(self.seed)


Strike = Callable[["Storm", Fault], None]


def schedule(seed: int, rounds: int, kinds: Iterable[str]) -> list[Fault]:
    """Each kind as often as the others, in random order: by the seed alone."""
    dice = random.Random(seed)
    names = sorted(kinds)
    dealt: list[str] = []
    while len(dealt) < rounds:
        dice.shuffle(names)
        dealt += names
    return [
        Fault(
            number, kind, round(dice.uniform(0.0, 6.0), 2), round(dice.uniform(*SHORTLY_S), 2),
            f"{seed}-{number}",
        )
        for number, kind in enumerate(dealt[:rounds], 1)
    ]  # fmt: skip


# ---- processes of a job -------------------------------------------------------------------------


def pids_of_role(storm: Storm, run: Run, role: str) -> list[int]:
    """``role``: am, java-am, agent, or keeper, which the agent has forked."""
    marker = {"am": AM, "java-am": JAVA_AM}.get(role, AGENT)
    agents = set(storm.world.pids(run.job, marker))
    found = []
    for pid in sorted(agents):
        with suppress(OSError):  # it may end while it is looked at
            is_keeper = parent_of(pid) in agents and not is_shell(parent_of(pid))
            if not is_shell(pid) and is_keeper == (role == "keeper"):
                found.append(pid)
    return found


def hit_process(storm: Storm, fault: Fault, *, role: str, is_frozen: bool) -> None:
    """Of one of the jobs that have such a process; there will be one."""
    dice = fault.dice()
    deadline = time.monotonic() + VICTIM_S
    while time.monotonic() < deadline:
        living = storm.living()
        dice.shuffle(living)
        for run in living:
            if pids := pids_of_role(storm, run, role):
                pid = dice.choice(pids)
                storm.tell(fault, run, f"process {pid} of {run.job.id}")
                with suppress(ProcessLookupError):
                    if is_frozen:
                        os.kill(pid, signal.SIGSTOP)
                        time.sleep(fault.away_s)
                    os.kill(pid, signal.SIGCONT if is_frozen else signal.SIGKILL)
                return
        time.sleep(0.3)
    raise AssertionError(f"no {role} to hit in {VICTIM_S:.0f} s")


OPENINGS = (
    b"",
    b"G",
    b"GET / HTTP/1.1\r\nHost: x\r\n",
    b"PRI * HTTP/2.0\r\n\r\n",
    b"\x16\x03\x01\xff\xff",
)
"""What strangers say before they fall silent: nothing, half a head of HTTP, half a TLS hello."""
EACH = 40
"""Strangers at each port: more than any of them serves at a time."""


def ports_of(pid: int) -> set[tuple[str, int]]:
    with suppress(psutil.Error):
        return {
            (found.laddr.ip, found.laddr.port)
            for found in psutil.Process(pid).net_connections("tcp4")
            if found.status == psutil.CONN_LISTEN
        }
    return set()


def visit(storm: Storm, fault: Fault) -> None:
    """Strangers at every port of every job's processes, who stay until they are thrown out."""
    deadline = time.monotonic() + VICTIM_S
    doors: set[tuple[str, int]] = set()
    while not doors:
        assert time.monotonic() < deadline, f"no port to visit in {VICTIM_S:.0f} s"
        time.sleep(0.3)
        for run in storm.living():
            for role in ("am", "java-am", "agent"):
                doors |= {door for pid in pids_of_role(storm, run, role) for door in ports_of(pid)}
    storm.tell(fault, None, f"{EACH} at each of {len(doors)} ports, for {fault.away_s:.1f} s")
    with ExitStack() as strangers:
        for address, port in sorted(doors):
            for number in range(EACH):
                with suppress(OSError):  # the job may have ended
                    where = "127.0.0.1" if address == "0.0.0.0" else address
                    caller = strangers.enter_context(
                        socket.create_connection((where, port), timeout=1.0)
                    )
                    caller.sendall(OPENINGS[number % len(OPENINGS)])
        time.sleep(fault.away_s)


# ---- daemons ------------------------------------------------------------------------------------


def hit_daemon(storm: Storm, fault: Fault, *, names: tuple[str, ...], how: str) -> None:
    """``how``: kill, freeze, or restart, which lets it close its files first."""
    name = fault.dice().choice(names)
    daemon = storm.cluster.daemon(name)
    storm.tell(fault, None, f"{name}, for {fault.away_s:.1f} s")
    if how == "freeze":
        daemon.kill(signal.SIGSTOP)
        try:
            time.sleep(fault.away_s)
        finally:
            daemon.kill(signal.SIGCONT)
        return
    daemon.stop() if how == "restart" else daemon.kill()
    time.sleep(fault.away_s)
    storm.start_daemon(name)


def fail_over(storm: Storm, fault: Fault) -> None:
    """The active NameNode of the pair dies, the standby takes over, the dead one becomes that."""
    pair = storm.pair
    active, standby = storm.active, "nn1" if storm.active == "nn2" else "nn2"
    storm.tell(fault, None, f"{active} dies; {standby} takes over after {fault.away_s:.1f} s")
    pair.kill(active)
    time.sleep(fault.away_s)
    pair.make_active(standby)
    storm.active = standby
    pair.start(active)


def lose_standby(storm: Storm, fault: Fault) -> None:
    pair = storm.pair
    standby = "nn1" if storm.active == "nn2" else "nn2"
    storm.tell(fault, None, f"{standby}, for {fault.away_s:.1f} s")
    pair.kill(standby)
    time.sleep(fault.away_s)
    pair.start(standby)


# ---- the network --------------------------------------------------------------------------------


def part(storm: Storm, fault: Fault, *, whom: str, how: str) -> None:
    """A job's agents and its ApplicationMaster; or all jobs and what they all reach."""
    dice = fault.dice()
    run = None
    if whom == "am":
        run = storm.one_with(lambda run: bool(storm.net.masters.of(run.job.id)), dice)
        relays = storm.net.masters.of(run.job.id)
    else:
        relays = storm.net.relays_to(whom)
    text, do = harm(how, dice)
    where = run.job.id if run else "all jobs"
    storm.tell(fault, run, f"{where}: {text}, for {fault.away_s:.1f} s")
    try:
        for relay in relays:
            do(relay)
        time.sleep(fault.away_s)
    finally:
        for relay in relays:
            relay.mend()


# ---- disks, quotas, clocks ----------------------------------------------------------------------


@contextmanager
def small_disk(cluster: EmbeddedCluster, name: str, folder: Path, size_mib: int) -> Iterator[bool]:
    """The NodeManager's directories on a disk of their own, if this user may mount one; whether."""
    daemon, place = cluster.daemon(name), cluster.paths.daemon_data(name)
    daemon.stop()
    aside = folder / f"{name}-before"
    shutil.copytree(place, aside, symlinks=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "yarnam-storm", str(place)]
    can_mount = subprocess.run(mount, check=False, capture_output=True).returncode == 0
    try:
        if can_mount:
            shutil.copytree(aside, place, symlinks=True, dirs_exist_ok=True)
        daemon.start()
        yield can_mount
    finally:
        if can_mount:
            # What still runs there ends with the cluster.
            subprocess.run(["umount", "--lazy", str(place)], check=False)


def fill_disk(storm: Storm, fault: Fault) -> None:
    """To the last byte, again and again: what is freed meanwhile is taken too."""
    name = storm.small_disk
    place = storm.cluster.paths.daemon_data(name) / "filler"
    storm.tell(fault, None, f"{name}, for {fault.away_s:.1f} s")
    until = time.monotonic() + fault.away_s
    try:
        with place.open("wb", buffering=0) as filler:
            while time.monotonic() < until:
                with suppress(OSError):
                    while filler.write(bytes(1 << 16)):
                        pass
                time.sleep(0.1)
    finally:
        place.unlink()


def set_quota(storm: Storm, path: str, names: int) -> None:
    """``names``: files and directories at most; -1: as many as one likes."""
    plan = storm.cluster.plan
    query = {"op": "SETQUOTA", "namespacequota": names, "user.name": plan.user}
    url = f"{plan.namenode_web}/webhdfs/v1{path}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=30):
        pass


def reach_quota(storm: Storm, fault: Fault) -> None:
    """Of the job's own directory, of its checkpoints or of its output: nothing new can be there."""
    dice = fault.dice()
    run = storm.one_with(lambda _: True, dice)
    path = dice.choice((storm.job_dir(run), storm.home(run)))
    storm.tell(fault, run, f"{path}, for {fault.away_s:.1f} s")
    try:
        set_quota(storm, path, 1)
        time.sleep(fault.away_s)
    finally:
        set_quota(storm, path, -1)


def set_clock(storm: Storm, fault: Fault) -> None:
    """A node's clock is off by minutes until the next such fault."""
    dice = fault.dice()
    node = dice.choice(storm.cluster.nodes)
    offset_s = dice.choice((-1, 1)) * dice.uniform(60.0, 900.0)
    for path in storm.net.clocks.iterdir():
        path.unlink()
    storm.tell(fault, None, f"{node.name} by {offset_s:+.0f} s from now on")
    (storm.net.clocks / node.address).write_text(str(offset_s))


# ---- clients ------------------------------------------------------------------------------------


def kill_client(storm: Storm, fault: Fault) -> None:
    """A client dies in the midst of its submit, at any step; its job ends well, or is none."""
    dice = fault.dice()
    name = f"left-{fault.number}"
    document = storm.world.document(
        name, "true", queue="root.research", am={"attempts": 40, "attempts_interval": "60s"}
    )
    client = storm.world.yarnam("submit", str(storm.world.write(document)), "--detach")
    lived_s = dice.uniform(0.1, 1.3) * storm.submit_s
    storm.tell(fault, None, f"{name} after {lived_s:.2f} s")
    time.sleep(lived_s)
    client.process.kill()
    client.process.communicate()
    storm.left_alone.append(name)


# ---- the table ----------------------------------------------------------------------------------

DAEMONS = {
    "nodemanager": ("nm1", "nm2", "nm3", "nm4"),
    "resourcemanager": ("rm",),
    "namenode": ("nn",),
    "datanode": ("dn1",),
    "zookeeper": ("zk",),
}

WAYS = ("zookeeper", "namenode", "datanodes")
"""Of all jobs at once."""

KINDS: dict[str, Strike] = {
    **{
        f"{how} {role}": partial(hit_process, role=role, is_frozen=how == "freeze")
        for role in ("am", "java-am", "agent", "keeper")
        for how in ("kill", "freeze")
    },
    **{
        f"{how} {daemon}": partial(hit_daemon, names=names, how=how)
        for daemon, names in DAEMONS.items()
        for how in ("kill", "freeze", "restart")
    },
    "kill active namenode": fail_over,
    "kill standby namenode": lose_standby,
    **{
        f"{how} agents and {whom}": partial(part, whom=whom, how=how)
        for whom in ("am",)
        for how in ("cut", "stall", "slow")
    },
    **{
        f"{how} jobs and {whom}": partial(part, whom=whom, how=how)
        for whom in WAYS
        for how in ("cut", "stall", "slow")
    },
    "full disk": fill_disk,
    "hdfs quota": reach_quota,
    "clock off": set_clock,
    "kill client": kill_client,
    "strangers": visit,
}


def place_of_daemon(name: str) -> str:
    """What meets no other fault of its kind while it is down: YARN, HDFS or ZooKeeper."""
    return {"rm": "yarn", "zk": "zookeeper"}.get(name, "yarn" if name.startswith("nm") else "hdfs")


_PLACES = {
    **{
        f"{how} {daemon}": {place_of_daemon(names[0])}
        for daemon, names in DAEMONS.items()
        for how in ("kill", "freeze", "restart")
    },
    # It keeps its records in ZooKeeper, and starts only if that is there.
    **{f"{how} resourcemanager": {"yarn", "zookeeper"} for how in ("kill", "restart")},
    "kill active namenode": {"pair"},
    "kill standby namenode": {"pair"},
    "full disk": {"yarn"},
    "hdfs quota": {"hdfs"},
    "clock off": {"clocks"},
    **{
        f"{how} {whom}": {f"the way of {whom}"}
        for whom in ("agents and am", *(f"jobs and {each}" for each in WAYS))
        for how in ("cut", "stall", "slow")
    },
}


def places_of(kind: str) -> set[str]:
    """Where one fault at a time may be; none: any number of this kind."""
    return _PLACES.get(kind, set())


NEEDS_MOUNT = frozenset({"full disk"})
