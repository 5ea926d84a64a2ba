"""The mirror of a directory with real processes: a program that saves files, and the one that keeps
them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hdfs_utils import checkpoints
from hdfs_utils.checkpoints import Checkpointer, Token
from hdfs_utils.checkpoints.file_sets import known_ranks, rank_directory
from yarnam.agent.data import checkpoint_mirror, mirror_process
from yarnam.agent.data.checkpoint_mirror import (
    CheckpointMirror,
    MirrorPlan,
    make_directory,
    mirror_plan,
    scan_directory,
    within_limit,
)
from yarnam.agent.launch.task_run import Graces, ProcessPlan, TaskRun
from yarnam.agent.machine.agent_directives import Launch, ProcessLaunch
from yarnam.agent.machine.mirror_machine import Scan
from yarnam.core.model.outcomes import ExitKind

JOB = "application_1700000000000_0001"
LIMIT_S = 40.0
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_mirror.mm, "SCAN_S", 0.2)
    monkeypatch.setattr(checkpoint_mirror.mm, "QUIET_S", 0.1)
    monkeypatch.setattr(checkpoint_mirror, "RESTORE_PAUSE_S", 0.05)


class Home:
    """The working directory of a task, and the place of its checkpoints."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.kept = root / "kept"
        self.work = root / "work"
        self.work.mkdir()
        self.notes = 0

    def mirror(self, attempt: int = 1, **options: Any) -> CheckpointMirror:
        request = {"directory": f"file://{self.kept}", "token": f"{JOB}:{attempt}", **options}
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        return CheckpointMirror(MirrorPlan(self.work, "ckpt", request), env, self._note)

    def _note(self) -> None:
        self.notes += 1

    def save(self, name: str, content: str = "1") -> Path:
        path = self.work / "ckpt" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("data.pkl", content)
        return path

    def clear(self) -> None:
        """As a launch does."""
        subprocess.run(["rm", "-rf", str(self.work)], check=True)
        self.work.mkdir()

    def content(self, name: str) -> str:
        with zipfile.ZipFile(self.work / "ckpt" / name) as archive:
            return archive.read("data.pkl").decode()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def play(work: Awaitable[Any]) -> Any:
    async def limited() -> Any:
        return await asyncio.wait_for(work, LIMIT_S)

    return asyncio.run(limited())


async def until(is_so: Callable[[], Any]) -> None:
    while not is_so():
        await asyncio.sleep(0.05)


def test_what_was_saved_is_there_for_the_next_attempt(home: Home) -> None:
    async def first() -> None:
        mirror = home.mirror()
        assert await mirror.restore() == ""
        running = asyncio.create_task(mirror.run(os.getpid(), lambda: False))
        home.save("epoch-1.pt")
        await until(lambda: mirror.state.kept)
        assert (mirror.state.kept.number, mirror.state.kept.files) == (1, 1)  # type: ignore[union-attr]
        home.save("epoch-2.pt", "2")
        await mirror.finish(LIMIT_S, has_succeeded=True)
        await running
        assert mirror.state.kept is not None
        assert (mirror.state.kept.number, mirror.state.kept.files) == (2, 2)

    async def second() -> None:
        mirror = home.mirror(attempt=2)
        assert await mirror.restore() == ""
        assert home.content("epoch-2.pt") == "2"
        assert mirror.state.kept is not None
        assert (mirror.state.kept.number, mirror.state.kept.files) == (2, 2)
        await mirror.finish(LIMIT_S, has_succeeded=True)
        assert mirror.state.kept.number == 2, "nothing is new"

    play(first())
    home.clear()
    play(second())
    assert home.notes >= 2


WRITER = """
import sys, time, zipfile
file = open(sys.argv[1], "wb")
with zipfile.ZipFile(file, "w") as archive:
    archive.writestr("data.pkl", "a" * 1000)
    file.flush()
    print("half", flush=True)
    time.sleep(600)
"""


def test_a_writer_that_is_killed_in_the_midst_leaves_the_save_before(home: Home) -> None:
    async def run() -> None:
        mirror = home.mirror()
        await mirror.restore()
        path = home.save("model.pt", "whole")
        running = asyncio.create_task(mirror.run(os.getpid(), lambda: False))
        await until(lambda: mirror.state.kept)
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "half\n"
        scan = scan_directory(home.work, "ckpt", os.getpid())
        assert [one.is_open for one in scan.files] == [True]
        await asyncio.sleep(1.0)
        writer.kill()
        writer.communicate()
        await mirror.finish(LIMIT_S, has_succeeded=False)
        await running
        assert mirror.state.kept is not None
        assert mirror.state.kept.number == 1

    play(run())
    home.clear()
    play(home.mirror(attempt=2).restore())
    assert home.content("model.pt") == "whole"


def test_a_directory_that_is_not_empty_is_left_as_it_is(home: Home) -> None:
    async def first() -> None:
        mirror = home.mirror()
        await mirror.restore()
        home.save("a.pt", "old")
        await mirror.finish(LIMIT_S, has_succeeded=True)

    play(first())
    home.save("a.pt", "newer")
    assert play(home.mirror(attempt=2).restore()) == ""
    assert home.content("a.pt") == "newer"


@pytest.mark.parametrize("kind", ["link", "file", "link above"])
def test_a_directory_of_somebody_else_is_refused(home: Home, kind: str) -> None:
    (home.root / "code" / "ckpt").mkdir(parents=True)
    if kind == "link":
        (home.work / "ckpt").symlink_to(home.root / "code" / "ckpt")
    elif kind == "file":
        (home.work / "ckpt").write_text("")
    mirror = home.mirror()
    if kind == "link above":
        (home.work / "out").symlink_to(home.root / "code")
        mirror.plan = mirror.plan._replace(path="out/ckpt")
    problem = play(mirror.restore())
    assert "brings along" in problem
    assert scan_directory(home.work, mirror.plan.path, 0).problem


def test_a_restore_that_fails_says_why_and_starts_nothing_from_zero(home: Home) -> None:
    play(home.mirror(attempt=5).restore())
    problem = play(home.mirror(attempt=4).restore())
    assert problem.startswith("checkpoint.mirror: ckpt is not restored: hdfs_utils.errors.Fenced:")


def test_a_full_file_system_is_a_trouble_and_no_end(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        mirror = home.mirror()
        await mirror.restore()
        home.save("a.pt")
        home.kept.rename(home.root / "away")
        home.kept.write_text("a file where a directory belongs")
        running = asyncio.create_task(mirror.run(os.getpid(), lambda: False))
        await until(lambda: mirror.state.trouble)
        assert "hdfs_utils.errors." in mirror.state.trouble
        assert not running.done()
        home.kept.unlink()
        (home.root / "away").rename(home.kept)
        await mirror.finish(LIMIT_S, has_succeeded=True)
        await running
        assert mirror.state.kept is not None
        assert mirror.state.trouble == ""

    play(run())


def test_the_last_set_has_a_limit(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        mirror = home.mirror()
        await mirror.restore()
        home.save("a.pt")
        began = time.monotonic()
        await mirror.finish(0.1, has_succeeded=True)
        assert time.monotonic() - began < 3.0
        assert mirror.state.kept is None
        assert "not kept within" in mirror.state.trouble

    play(run())
    assert checkpoints.latest(f"file://{home.kept}") is None


def test_a_stop_ends_a_restore(home: Home) -> None:
    async def run() -> str:
        mirror = home.mirror()
        asyncio.get_running_loop().call_later(0.1, mirror.stop_restoring)
        return await mirror.restore()

    assert play(run()) != ""


class NoKeeper:
    """Nothing runs, and nothing is left."""

    on_exit: object = None

    async def sweep(self) -> int:
        return 0


@pytest.mark.parametrize(("grace_s", "is_sent"), [(5.0, True), (0.1, False)])
def test_a_stop_leaves_its_grace_to_what_is_being_sent(
    grace_s: float, is_sent: bool, tmp_path: Path
) -> None:
    sent = []

    async def send(_limit_s: float) -> None:
        await asyncio.sleep(0.5)
        sent.append("the last set")

    async def run() -> None:
        keeper: Any = NoKeeper()
        task = TaskRun(keeper, 1, tmp_path / "stop", Graces(1.0, 1.0), lambda _: None, send)
        plan = ProcessPlan(0, 0, "", (), {}, tmp_path / "log", "failed", ExitKind.NON_ZERO)
        running = asyncio.create_task(task.run((plan,), tmp_path))
        await asyncio.sleep(0.1)
        await task.stop(grace_s, "the gang is stopped")
        await running

    play(run())
    assert bool(sent) == is_sent


# ---- the scan ----------------------------------------------------------------------------------


def names(scan: Scan) -> list[str]:
    return sorted(one.name for one in scan.files)


def test_a_scan_follows_no_link_and_sees_regular_files_only(home: Home) -> None:
    home.save("a.pt")
    home.save("deep/" + "n" * 255)
    directory = home.work / "ckpt"
    (directory / "link.pt").symlink_to("/etc/passwd")
    (directory / "up").symlink_to(home.root)
    os.mkfifo(directory / "pipe")
    (home.work / "ckpt" / b"\xff.pt".decode(errors="surrogateescape")).write_text("")
    scan = scan_directory(home.work, "ckpt", 0)
    assert names(scan) == ["a.pt", "deep/" + "n" * 255]
    assert scan.problem == ""


def test_a_directory_that_is_absent_has_no_files_and_no_problem(home: Home) -> None:
    scan = scan_directory(home.work, "ckpt", 0)
    assert (scan.files, scan.problem) == ((), "")


@pytest.mark.parametrize("kind", ["file", "links", "directories"])
def test_an_endless_directory_is_a_problem(
    home: Home, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_mirror, "MAX_FILES", 20)
    (home.work / "ckpt").mkdir()
    for number in range(21):
        path = home.work / "ckpt" / str(number)
        if kind == "file":
            path.write_text("")
        elif kind == "links":
            path.symlink_to("/")
        else:
            path.mkdir()
    scan = scan_directory(home.work, "ckpt", 0)
    assert (scan.files, scan.problem) == ((), "ckpt has more than 20 entries")


def test_a_deep_directory_is_a_problem(home: Home) -> None:
    home.save("/".join("d" * 40) + "/a.pt")
    assert "nested more than 32 deep" in scan_directory(home.work, "ckpt", 0).problem


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_directory_that_cannot_be_read_is_a_problem(home: Home) -> None:
    home.save("a.pt")
    (home.work / "ckpt").chmod(0)
    assert "Permission denied" in scan_directory(home.work, "ckpt", 0).problem
    (home.work / "ckpt").chmod(0o700)


def test_a_directory_is_made_once(home: Home) -> None:
    assert make_directory(home.work, "a/b")
    assert make_directory(home.work, "a/b")
    (home.work / "a" / "b" / "c").write_text("")
    assert not make_directory(home.work, "a/b")


# ---- which task, and whose ranks ---------------------------------------------------------------


class FakeJob:
    """The part of a ``TaskJob`` that counts."""

    mirror, is_each_mirrored, keep, restore = "ckpt", False, 3, "newest"
    mirror_max_bytes = 0


def launched(*ranks: int, **options: Any) -> Launch:
    processes = tuple(ProcessLaunch(rank, local) for local, rank in enumerate(ranks))
    return Launch(1, "worker", 0, processes, **options)


ENV = {
    "YARNAM_CHECKPOINT_DIR": "/c",
    "YARNAM_CHECKPOINT_TOKEN": f"{JOB}:1",
    "YARNAM_WORLD_SIZE": "8",
}


@pytest.mark.parametrize(
    ("ranks", "is_each", "expected"),
    [((0, 1), False, (0, 1)), ((2, 3), False, None), ((2, 3), True, (2, 3))],
)
def test_the_task_of_rank_0_keeps_sets_or_each(
    ranks: tuple[int, ...], is_each: bool, expected: Any, tmp_path: Path
) -> None:
    job: Any = FakeJob()
    job.is_each_mirrored = is_each
    plan = mirror_plan(job, launched(*ranks), ENV, tmp_path)
    assert (plan and (plan.request["first"], plan.request["last"])) == expected
    assert mirror_plan(job, launched(*ranks), {}, tmp_path) is None
    if plan is not None:
        assert plan.request["world_size"] == 8
        live = mirror_plan(job, launched(*ranks, members=("a:1",)), ENV, tmp_path)
        assert live is not None
        assert live.request["world_size"] == 0, "a gang that changes while it runs"


class Gang:
    """Tasks of one gang that keep their own sets, one after the other."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.attempt = 0

    def start(self, *tasks: tuple[int, int]) -> Iterator[tuple[int, Home, CheckpointMirror]]:
        self.attempt += 1
        world_size = max(last for _, last in tasks) + 1
        for first, last in tasks:
            home = Home.__new__(Home)
            home.root, home.kept, home.notes = self.root, self.root / "kept", 0
            home.work = self.root / f"work-{self.attempt}-{first}"
            home.work.mkdir()
            mirror = home.mirror(
                self.attempt, first=first, last=last, world_size=world_size, is_each=True
            )
            yield first, home, mirror

    def run(self, *tasks: tuple[int, int]) -> dict[int, list[str]]:
        """What each task finds; each then saves a file of its first rank."""
        found = {}
        for first, home, mirror in self.start(*tasks):
            assert play(mirror.restore()) == ""
            found[first] = sorted(path.name for path in (home.work / "ckpt").iterdir())
            home.save(f"rank-{first}-{self.attempt}.pt")
            play(mirror.finish(LIMIT_S, has_succeeded=True))
            assert mirror.state.kept is not None
        return found


def test_ranks_find_their_files_again_in_a_gang_of_another_shape(tmp_path: Path) -> None:
    gang = Gang(tmp_path)
    assert gang.run((0, 1), (2, 3)) == {0: [], 2: []}
    assert gang.run((0, 1), (2, 3)) == {0: ["rank-0-1.pt"], 2: ["rank-2-1.pt"]}
    # One task has all ranks: it gets the files of both.
    assert gang.run((0, 3)) == {0: ["rank-0-1.pt", "rank-0-2.pt", "rank-2-1.pt", "rank-2-2.pt"]}
    # Two tasks again: both find what the one has kept of their ranks, and nothing older.
    found = gang.run((0, 1), (2, 3))
    assert found[0] == found[2]
    assert "rank-0-3.pt" in found[2]


def test_a_rank_that_comes_back_after_a_smaller_gang_finds_nothing_old(tmp_path: Path) -> None:
    gang = Gang(tmp_path)
    gang.run((0, 0), (1, 1), (2, 2))
    gang.run((0, 0))
    assert gang.run((0, 0), (1, 1)) == {0: ["rank-0-1.pt", "rank-0-2.pt"], 1: []}


def test_sets_of_a_later_attempt_are_not_taken_for_outdated(tmp_path: Path) -> None:
    gang = Gang(tmp_path)
    gang.run((0, 0), (1, 1))
    root = f"file://{tmp_path}/kept"
    Checkpointer(rank_directory(root, 1), token=Token(JOB, (9,))).enter()
    gang.run((0, 0))
    assert checkpoints.latest(rank_directory(root, 1)) is not None
    fs = checkpoints.Checkpointer(root).fs
    assert known_ranks(fs, str(tmp_path / "kept")) == [0, 1]


def test_the_first_task_of_a_live_gang_removes_nothing() -> None:
    assert mirror_process.outdated(0, 0, 0, [0, 1, 2]) == []
    assert mirror_process.outdated(0, 0, 2, [0, 1, 2]) == [2]
    assert mirror_process.outdated(0, 3, 8, [0, 2, 4]) == [2]
    assert mirror_process.outdated(4, 7, 8, [0, 4, 6, 9]) == [6]


def test_what_torch_does_not_need_the_agent_does_not_load() -> None:
    code = (
        "import sys, yarnam.agent.data.checkpoint_mirror\n"
        "heavy = {'torch', 'numpy', 'zipfile', 'hdfs_utils.checkpoints', 'hdfs_native'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert printed.stdout.strip() == "[]"


def test_a_directory_that_holds_too_much_is_not_kept(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (home.work / "ckpt").mkdir()
    (home.work / "ckpt" / "data.bin").write_bytes(b"x" * (2 << 20))
    scan = scan_directory(home.work, "ckpt", 0)
    small, large = (MirrorPlan(home.work, "ckpt", {}, most << 20) for most in (1, 2))
    assert within_limit(large, scan) == scan
    assert within_limit(MirrorPlan(home.work, "ckpt", {}), scan) == scan
    found = within_limit(small, scan)
    assert found.files == ()
    assert found.problem == (
        "ckpt holds 2 MiB, more than the 1 MiB that are kept (notebook.max_size): move data out "
        "of it"
    )
