"""One suite for every OutputStore: the fake, and the real one on a fake and on the real HDFS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from hdfs_utils import FileSystem, connect
from tests.fakes.files import MemoryFiles, fail_on
from tests.fakes.output_store import FakeOutputs, OutputDisk
from yarnam.adapters.hdfs.output_store import HdfsOutputStore
from yarnam.core.model.ids import TaskId
from yarnam.core.model.job_spec import JobSpec, RoleSpec, StoringSpec
from yarnam.core.model.resources import Resources
from yarnam.errors import BadSpec, NoPermission, QuotaFull, Unavailable, YarnamError
from yarnam.ports import Superseded
from yarnam.ports.output_store import OutputStore, StoredOutputs, StoringProgress
from yarnam.wire.output_paths import partial_output_path, task_output_path

APPLICATION = "application_1700000000000_0001"
TASKS = (TaskId("worker", 0), TaskId("worker", 1))


class World(Protocol):
    """An output and what happens to it."""

    def store(self, am_attempt: int = 1) -> OutputStore: ...

    def write(self, attempt: int, task: TaskId, name: str, content: bytes) -> None: ...

    def take(self) -> None:
        """Somebody else makes the output."""

    def is_kept(self) -> bool | None:
        """What became of what was given up; None: nothing was."""


class FakeWorld:
    def __init__(self) -> None:
        self.disk = OutputDisk()

    def store(self, am_attempt: int = 1) -> OutputStore:
        return FakeOutputs(self.disk)

    def write(self, attempt: int, task: TaskId, name: str, content: bytes) -> None:
        files, size = self.disk.written.get((attempt, str(task)), (0, 0))
        self.disk.written[attempt, str(task)] = files + 1, size + len(content)

    def take(self) -> None:
        self.disk.is_taken = True

    def is_kept(self) -> bool | None:
        return self.disk.is_kept


@dataclass
class FilesWorld:
    fs: FileSystem
    home: str
    storing: StoringSpec = StoringSpec()

    @property
    def target(self) -> str:
        return f"{self.home}/out"

    def store(self, am_attempt: int = 1) -> HdfsOutputStore:
        role = RoleSpec("worker", 2, Resources(1024, 1, 0), ("train",))
        job = JobSpec("j", "root.q", "u", "command", (role,), output=self.target)
        return HdfsOutputStore(job, APPLICATION, am_attempt, self.fs)

    def write(self, attempt: int, task: TaskId, name: str, content: bytes) -> None:
        place = task_output_path(self.target, APPLICATION, attempt, str(task))
        self.fs.write_bytes(f"{place}/{name}", content)

    def take(self) -> None:
        self.fs.write_bytes(f"{self.target}/theirs", b"theirs")

    def is_kept(self) -> bool | None:
        left = {status.path for status in self.fs.list(self.home)}
        if partial_output_path(self.target, APPLICATION) in left:
            return True
        return False if not left - {self.target} else None


@pytest.fixture(params=["fake", "memory", pytest.param("hdfs", marks=pytest.mark.hdfs)])
def world(request: pytest.FixtureRequest, unique_name: Callable[[str], str]) -> Iterator[Any]:
    if request.param == "fake":
        yield FakeWorld()
        return
    if request.param == "memory":
        fs: FileSystem = MemoryFiles()
    else:
        env = request.getfixturevalue("cluster_env")
        fs = connect(conf_dir=env["HADOOP_CONF_DIR"])
    home = f"/tmp/{unique_name('outputs')}"
    fs.mkdirs(home)
    yield FilesWorld(fs, home)
    fs.delete(home, recursive=True)


def quiet(_progress: StoringProgress) -> None:
    pass


def never() -> bool:
    return False


def both_write(world: World, attempt: int = 1) -> None:
    world.write(attempt, TASKS[0], "a", b"123")
    world.write(attempt, TASKS[1], "b", b"45")


def test_stored_once_and_told_again(world: World) -> None:
    world.store().prepare(1, TASKS)
    both_write(world)
    told: list[StoringProgress] = []
    assert world.store().store(1, TASKS, told.append, never) == StoredOutputs(2, 5)
    assert (told[0].moved, told[-1]) == (0, StoringProgress(2, 5, 2))
    assert world.store().store(1, TASKS, quiet, never) == StoredOutputs(2, 5)
    assert world.store(2).store(1, TASKS, quiet, never) == StoredOutputs(2, 5)
    assert world.store(2).find_stored() == StoredOutputs(2, 5)


def test_of_the_attempt_that_it_is_told(world: World) -> None:
    both_write(world, attempt=1)
    world.write(2, TASKS[0], "a", b"1")
    assert world.store().store(2, TASKS, quiet, never) == StoredOutputs(1, 1)


def test_stopped_and_taken_up_by_a_later_am(world: World) -> None:
    both_write(world)
    assert world.store().store(1, TASKS, quiet, lambda: True) is None
    assert world.store().find_stored() is None
    assert world.store(2).store(1, TASKS, quiet, never) == StoredOutputs(2, 5)


def test_somebody_elses_output_is_refused_for_good(world: World) -> None:
    both_write(world)
    world.take()
    for am_attempt in (1, 2):
        with pytest.raises(BadSpec):
            world.store(am_attempt).store(1, TASKS, quiet, never)
    world.store(2).give_up(is_kept=True)
    assert world.is_kept() is True


@pytest.mark.parametrize("is_kept", [True, False])
def test_given_up(world: World, is_kept: bool) -> None:
    both_write(world)
    for _ in range(2):
        world.store().give_up(is_kept=is_kept)
    assert world.is_kept() is is_kept


# ---- of the real one alone ---------------------------------------------------------------------


def on_memory() -> tuple[MemoryFiles, FilesWorld]:
    fs = MemoryFiles()
    fs.mkdirs("/results")
    return fs, FilesWorld(fs, "/results")


def test_an_older_am_is_superseded() -> None:
    _, world = on_memory()
    both_write(world)
    assert world.store(2).store(1, TASKS, quiet, lambda: True) is None
    with pytest.raises(Superseded):
        world.store(1).store(1, TASKS, quiet, never)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("Unavailable", Unavailable),
        ("SafeMode", Unavailable),
        ("QuotaExceeded", QuotaFull),
        ("PermissionDenied", NoPermission),
    ],
)
def test_errors_of_hdfs_in_yarnams_own_words(error: str, kind: type[YarnamError]) -> None:
    import hdfs_utils.errors

    fs, world = on_memory()
    both_write(world)
    fs.fail = fail_on("rename", getattr(hdfs_utils.errors, error)("no"), times=99)
    with pytest.raises(kind, match="output /results/out: "):
        world.store().store(1, TASKS, quiet, never)
