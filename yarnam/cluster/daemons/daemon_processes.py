"""Start, recognise and end the processes of a cluster.

A process is its pid *and* the moment it started: by the time a recorded pid is used, it may belong
to somebody else.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from hdfs_utils.concurrency.process_locks import boot_id
from yarnam.cluster.hadoop.daemon_commands import MARKER, Command

_POLL_S = 0.05
_ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
# Daemons outlive the objects that started them. Kept here so that their exit status is collected:
# a child that nobody waits for stays behind as a zombie.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True)
class ProcessId:
    """``started_s``: seconds from boot to its start, which a change of the clock does not move."""

    pid: int
    started_s: float
    boot_id: str

    def is_alive(self) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        try:
            process = psutil.Process(self.pid)
            return process.status() not in _ENDED and identify(process) == self
        except psutil.Error:
            return False

    def send(self, number: int) -> bool:
        """Signal this very process; False when it is gone."""
        if not self.is_alive():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def resident_mib(self) -> float | None:
        """Proportional set size: pages that daemons share count once over all of them."""
        try:
            return float(psutil.Process(self.pid).memory_full_info().pss) / 2**20
        except psutil.Error:
            return None


def identify(process: psutil.Process | int) -> ProcessId | None:
    """Who this is, or who has this pid now; None when nobody does."""
    try:
        found = psutil.Process(process) if isinstance(process, int) else process
        booted_s = psutil.boot_time()  # read first: older releases of psutil cache it
        started_s = round(found.create_time() - booted_s, 2)
    except psutil.Error:
        return None
    return ProcessId(found.pid, started_s, boot_id())


def start(command: Command, out: Path, record: Path) -> subprocess.Popen[bytes]:
    """Start a daemon in a session of its own and write down who it is before anything else. The
    session keeps a terminal's Ctrl-C away from it: ending daemons is the launcher's work."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("wb") as stream:
        process = subprocess.Popen(
            command.argv,
            env=dict(command.environment),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            # Not in a folder that somebody may want to unmount or delete.
            cwd="/",
            start_new_session=True,
        )
    _children[process.pid] = process
    identity = identify(process.pid)
    if identity is not None:
        write_record(record, identity)
    return process


def write_record(path: Path, identity: ProcessId) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".part")
    scratch.write_text(json.dumps(asdict(identity)), encoding="utf-8")
    scratch.replace(path)


def read_record(path: Path) -> ProcessId | None:
    try:
        return ProcessId(**json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def processes_of(
    cluster_id: str | None, roots: Iterable[ProcessId], work: Iterable[Path]
) -> list[ProcessId]:
    """Every living process of a cluster: daemons, containers, and what containers started.

    Three signs, since each can be missing: the marker in the environment (a process may clear
    it), descent from a recorded daemon (lost when a parent dies), and a working directory below
    ``work``, where every container starts. Only processes of this user count, and with the last
    sign only those without a terminal: a person's shell may be there.
    """
    running = psutil.process_iter(["ppid", "status"])
    living = {each.pid: each for each in running if each.info["status"] not in _ENDED}
    folders = tuple(work)
    marked = {root.pid for root in roots if root.is_alive()}
    marked |= {pid for pid, each in living.items() if _is_ours(each, cluster_id, folders)}
    ours = {pid for pid in living if pid in marked or marked & _ancestors(pid, living)}
    # Whoever asks may itself run inside the cluster.
    ours -= {os.getpid()} | _ancestors(os.getpid(), living)
    found = (identify(living[pid]) for pid in sorted(ours))
    return [identity for identity in found if identity is not None]


def _is_ours(process: psutil.Process, cluster_id: str | None, folders: tuple[Path, ...]) -> bool:
    try:
        if process.uids().real != os.getuid():
            return False
        if cluster_id and process.environ().get(MARKER) == cluster_id:
            return True
        where = Path(process.cwd())
        is_below = any(where.is_relative_to(folder) for folder in folders)
        return is_below and not _has_terminal(process.pid)
    except (psutil.Error, OSError):
        return False


def _has_terminal(pid: int) -> bool:
    # psutil's terminal() knows only the devices that it found when it was first called.
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()[4] != "0"


def _ancestors(pid: int, living: Mapping[int, psutil.Process]) -> set[int]:
    line: set[int] = set()
    while pid in living and (pid := living[pid].info["ppid"]) not in line:
        line.add(pid)
    return line


def end(processes: list[ProcessId], grace_s: float, limit_s: float) -> list[ProcessId]:
    """SIGTERM, then SIGKILL after ``grace_s``; returns those still alive after ``limit_s``."""
    if grace_s > 0:
        for process in processes:
            process.send(signal.SIGTERM)
            process.send(signal.SIGCONT)
    left = wait_for_end(processes, grace_s)
    for process in left:
        process.send(signal.SIGKILL)
    return wait_for_end(left, limit_s)


def wait_for_end(processes: list[ProcessId], limit_s: float) -> list[ProcessId]:
    deadline = time.monotonic() + limit_s
    left = processes
    while left:
        reap(left)
        left = [process for process in left if process.is_alive()]
        if not left or time.monotonic() >= deadline:
            break
        time.sleep(_POLL_S)
    return left


def reap(processes: Iterable[ProcessId]) -> None:
    """Collect those that are our own dead children."""
    for process in processes:
        child = _children.get(process.pid)
        if child is not None and child.poll() is not None:
            del _children[process.pid]


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a file, and how far it was read: following continues from there."""

    lines: list[str]
    position: int


def read_tail(path: Path, lines: int) -> Tail:
    """The last lines of a file, whatever bytes are in it; none where there is no file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = file.seek(max(0, size - 512 * lines - 4096))
            content = file.read()
    except OSError:
        return Tail([], 0)
    text = content.decode("utf-8", errors="replace")
    found = text.removesuffix("\n").split("\n") if text else []
    return Tail(found[-lines:], start + len(content))


def tail(path: Path, lines: int) -> list[str]:
    return read_tail(path, lines).lines
