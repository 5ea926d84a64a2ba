"""Whether the kernel has killed for want of memory in this container's memory cgroup.

Where YARN gives containers no cgroup of their own, the counter is that of a larger one: a kill in
it at the moment of ours is still the best explanation that there is.
"""

from __future__ import annotations

from pathlib import Path

KILLED_FOR_MEMORY = "the kernel killed a process of this container for want of memory"
"""As the rules know it."""

_FILES = ("memory.events.local", "memory.events", "memory.oom_control")
"""Of cgroup v2 (this group alone; with those below it) and of v1."""


class MemoryKills:
    """Counts from when it is made on. ``cgroup``: this process's list of groups; ``mounts``: where
    the kernel shows them."""

    def __init__(
        self, cgroup: Path = Path("/proc/self/cgroup"), mounts: Path = Path("/sys/fs/cgroup")
    ) -> None:
        self._file = _counter_file(cgroup, mounts)
        self._before = self._count()

    def has_happened(self) -> bool:
        """Whether there was one since the last call, or since this was made."""
        before, self._before = self._before, self._count()
        return self._before > before

    def _count(self) -> int:
        if self._file is None:
            return 0
        try:
            for line in self._file.read_text(encoding="ascii").splitlines():
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count)
        except (OSError, ValueError):
            pass
        return 0


def _counter_file(cgroup: Path, mounts: Path) -> Path | None:
    """Lines are ``ID:CONTROLLERS:PATH``; of v2 ``0::PATH`` (cgroups(7))."""
    try:
        rows = [line.split(":", 2) for line in cgroup.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError):
        return None
    for row in rows:
        if len(row) != 3:
            continue
        if row[1] and "memory" not in row[1].split(","):
            continue
        folder = (mounts / "memory" if row[1] else mounts) / row[2].lstrip("/")
        for name in _FILES:
            if (folder / name).exists():
                return folder / name
    return None
