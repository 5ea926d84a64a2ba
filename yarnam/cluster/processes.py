"""Start, recognise and end processes. A process is its pid *and* its start time.

A pid alone may belong to somebody else by the time it is used; with the start time from
``/proc/<pid>/stat`` and the boot it happened in, it cannot.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from yarnam.cluster.commands import MARKER, Command

_POLL_S = 0.05
PROC = Path("/proc")
# Daemons outlive the objects that started them. Kept here so that their end can be collected:
# a child nobody collects stays behind as a zombie.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True)
class ProcessId:
    pid: int
    start_ticks: int
    boot_id: str

    def is_alive(self) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        found = _stat(self.pid)
        return (
            found is not None
            and found.state not in "ZX"
            and found.start_ticks == self.start_ticks
            and self.boot_id == boot_id()
        )

    def send(self, number: int) -> bool:
        """Signal this very process; False when it is gone."""
        if not self.is_alive():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class _Stat:
    state: str
    parent: int
    terminal: int
    start_ticks: int


def boot_id() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _stat(pid: int) -> _Stat | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The command's name may itself hold blanks and brackets: what counts follows the last one.
    fields = text.rpartition(")")[2].split()
    return _Stat(fields[0], int(fields[1]), int(fields[4]), int(fields[19]))


def identify(pid: int) -> ProcessId | None:
    found = _stat(pid)
    return None if found is None else ProcessId(pid, found.start_ticks, boot_id())


def start(command: Command, out: Path, record: Path) -> subprocess.Popen[bytes]:
    """Start a daemon in a session of its own and write down who it is before anything else.

    The session keeps a terminal's Ctrl-C away from it: ending daemons is the launcher's work.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("wb") as stream:
        process = subprocess.Popen(
            command.argv,
            env=dict(command.environment),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            # No daemon stands in a folder that somebody may want to unmount or delete.
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


def _pids() -> Iterator[int]:
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def processes_of(
    cluster_id: str | None, roots: Iterable[ProcessId], work: Iterable[Path]
) -> list[ProcessId]:
    """Every living process of a cluster: daemons, containers, and what containers started.

    Three signs, since each can be missing: the marker in the environment (a process may clear
    it), descent from a recorded daemon (lost when a parent dies), and a working directory below
    ``work``, where every container starts. Only processes of this user count, and with the last
    sign only those without a terminal: a person may have gone there to look around.
    """
    found: dict[int, _Stat] = {}
    for pid in _pids():
        stat = _stat(pid)
        if stat is not None and stat.state not in "ZX":
            found[pid] = stat
    marker = f"{MARKER}={cluster_id}".encode() if cluster_id else None
    folders = tuple(work)
    ours = {root.pid for root in roots if root.is_alive()}
    ours |= {pid for pid, stat in found.items() if _is_ours(pid, stat, marker, folders)}
    ours |= _descendants(ours, found)
    # Whoever asks may itself run inside the cluster.
    ours -= _ancestry(os.getpid(), found)
    boot = boot_id()
    return [ProcessId(pid, found[pid].start_ticks, boot) for pid in sorted(ours) if pid in found]


def _is_ours(pid: int, stat: _Stat, marker: bytes | None, folders: tuple[Path, ...]) -> bool:
    here = PROC / str(pid)
    try:
        if here.stat().st_uid != os.getuid():
            return False
        if marker is not None and marker in (here / "environ").read_bytes().split(b"\0"):
            return True
        if stat.terminal:
            return False
        cwd = (here / "cwd").readlink()
    except OSError:
        return False
    return any(cwd.is_relative_to(folder) for folder in folders)


def _descendants(ours: set[int], found: dict[int, _Stat]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, stat in found.items():
        children.setdefault(stat.parent, []).append(pid)
    reached: set[int] = set()
    frontier = list(ours)
    while frontier:
        for child in children.get(frontier.pop(), []):
            if child not in reached:
                reached.add(child)
                frontier.append(child)
    return reached


def _ancestry(pid: int, found: dict[int, _Stat]) -> set[int]:
    line = set()
    while pid in found and pid not in line:
        line.add(pid)
        pid = found[pid].parent
    return line


def end(processes: list[ProcessId], grace_s: float, limit_s: float) -> list[ProcessId]:
    """SIGTERM, then SIGKILL after ``grace_s``; returns who still lives after ``limit_s``."""
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


def resident_mib(process: ProcessId) -> float | None:
    """Proportional set size: pages that daemons share count once over all of them."""
    try:
        text = (PROC / str(process.pid) / "smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return None


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a file, and how far it was read: following goes on from there."""

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
    found = content.decode("utf-8", errors="replace").splitlines()
    return Tail(found[-lines:], start + len(content))


def tail(path: Path, lines: int) -> list[str]:
    return read_tail(path, lines).lines
