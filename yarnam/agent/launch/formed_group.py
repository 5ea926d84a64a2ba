"""The group that the framework of an in-place elastic gang has formed of its processes, seen on the
node of the first task."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from yarnam.agent.launch.process_activity import tree

GROUP_FILE = ".yarnam-group"
"""As in ``yarnam.agent.programs.gloo_rendezvous``, which stands alone and would load a server."""
_FIRST_WORKER = (b"LOCAL_RANK", b"0")
_TASKS = b"GROUP_WORLD_SIZE"


class FormedGroup(NamedTuple):
    number: int
    """Grows with each group."""
    tasks: int
    """How many tasks its processes are from."""


class GroupFile:
    """A group that the program beside the first process writes down."""

    def __init__(self, container: Path) -> None:
        self._path = container / GROUP_FILE
        self._path.unlink(missing_ok=True)  # an earlier launch in this container

    def read(self, _pid: int) -> FormedGroup | None:
        with suppress(OSError, ValueError):
            number, tasks = map(int, self._path.read_text().split())
            return FormedGroup(number, tasks)
        return None


class LaunchedGroup:
    """A group by the environment of the first worker that a launcher has started. torchrun starts
    its workers anew for each group, and sets in how many tasks they run (SimpleElasticAgent)."""

    def __init__(self) -> None:
        self._worker: tuple[int, str] | None = None
        self._group: FormedGroup | None = None

    def read(self, pid: int) -> FormedGroup | None:
        """``pid``: the launcher's process, or a parent of it."""
        if self._worker is not None and _identity(self._worker[0]) == self._worker:
            return self._group
        for candidate in tree(pid):
            env = _environment(candidate)
            worker = _identity(candidate)
            tasks = env.get(_TASKS, b"")
            if worker is None or _FIRST_WORKER not in env.items() or not tasks.isdigit():
                continue
            number = self._group.number + 1 if self._group is not None else 1
            self._worker, self._group = worker, FormedGroup(number, int(tasks))
            break
        return self._group


def _identity(pid: int) -> tuple[int, str] | None:
    """The process and its start, since numbers are used again; ``None`` if it has ended."""
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        return None if fields[0] == "Z" else (pid, fields[19])
    return None


def _environment(pid: int) -> dict[bytes, bytes]:
    with suppress(OSError):
        parts = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return {name: value for name, _, value in (part.partition(b"=") for part in parts)}
    return {}
