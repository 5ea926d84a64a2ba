"""Whoever dies or only seems to, and whenever: the output is whole, or not there at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from hdfs_utils.errors import (
    AlreadyExists,
    Fenced,
    HdfsError,
    LeaseLost,
    NotFound,
    PermissionDenied,
    Unavailable,
)
from hdfs_utils.filesystem import FileStatus
from hdfs_utils.outputs.committer import (
    MANIFEST,
    SUCCESS,
    CommitProgress,
    CommitStopped,
    CommittedOutputs,
    OutputCommitter,
)
from tests.fakes.files import MemoryFiles, fail_on

TARGET, STAGING = "/results/job", "/results/.job.app"
WRITERS = ("worker-0", "worker-1", "ps-0")
FILES = {
    "worker-0/result.json": b"{}",
    "worker-0/part/a": b"aa",
    "worker-1/part/b": b"bbb",
    "worker-1/result.json": b"other",
    "ps-0/alone/deep/x": b"",
}
WHOLE = {
    "result.json": b"{}",
    "result.json.worker-1": b"other",
    "part/a": b"aa",
    "part/b": b"bbb",
    "alone/deep/x": b"",
    SUCCESS: b"",
}
DONE = CommittedOutputs(files=5, size_bytes=12, renamed=1)


class Killed(BaseException):
    """As kill -9: nobody catches it."""


def written(fs: Any, attempt: int = 2) -> None:
    for path, content in FILES.items():
        fs.write_bytes(f"{STAGING}/attempt-{attempt}/{path}", content)


def of(fs: Any, owner: str = "app") -> OutputCommitter:
    """With one thread, so that the operations of a commit always come in the same order."""
    return OutputCommitter(fs, TARGET, STAGING, owner, threads=1)


def commit(fs: Any, epoch: int = 1, **options: Any) -> CommittedOutputs:
    return of(fs).commit(2, WRITERS, fencing_epoch=epoch, **options)


def tree(fs: MemoryFiles, path: str = TARGET) -> dict[str, bytes]:
    """Without the manifest."""
    return {
        status.path[len(path) + 1 :]: fs.read_bytes(status.path)
        for status in fs.walk(path)
        if not status.is_dir and not status.path.endswith(MANIFEST)
    }


def test_what_all_wrote_is_one_tree_with_a_manifest() -> None:
    fs = MemoryFiles()
    of(fs).prepare(2, WRITERS)
    written(fs)
    reported: list[CommitProgress] = []
    assert commit(fs, report=reported.append) == DONE
    assert tree(fs) == WHOLE
    manifest = json.loads(fs.read_bytes(f"{TARGET}/{MANIFEST}"))
    assert (manifest["owner"], manifest["files"], manifest["bytes"]) == ("app", 5, 12)
    listed = {one["path"]: (one["length"], one["writer"]) for one in manifest["listed"]}
    assert listed["result.json.worker-1"] == (5, "worker-1")
    assert [one.moved for one in reported] == sorted(one.moved for one in reported)
    assert (reported[0].moved, reported[-1].moved, reported[-1].files) == (0, 5, 5)
    assert not fs.exists(STAGING)


class SharedFiles(MemoryFiles):
    """What is named as in ``others`` belongs to somebody else, as in a directory that all may write
    to."""

    def __init__(self, *others: str) -> None:
        super().__init__()
        self.others = others

    def _status(self, plain: str, node: Any) -> FileStatus:
        status = super()._status(plain, node)
        return replace(status, owner="mallory") if plain in self.others else status


def test_what_somebody_else_has_laid_out_is_not_committed() -> None:
    """An application's id can be foretold, and so can the name of the staging directory."""
    fs = SharedFiles(STAGING)
    written(fs)
    fs.write_bytes(f"{STAGING}/storing-1/.old/planted", b"")
    for act in (lambda: of(fs).prepare(2, WRITERS), lambda: commit(fs, 2), of(fs).back_out):
        with pytest.raises(PermissionDenied, match="belongs to mallory and not to me"):
            act()
    assert not fs.exists(TARGET)
    assert [s.path for s in fs.list(STAGING) if "owner" in s.path] == []


def test_other_attempts_never_count() -> None:
    fs = MemoryFiles()
    written(fs)
    fs.write_bytes(f"{STAGING}/attempt-1/worker-0/old", b"old")
    fs.write_bytes(f"{STAGING}/attempt-3/worker-0/new", b"new")
    commit(fs)
    assert tree(fs) == WHOLE


def test_nothing_written_is_an_empty_output() -> None:
    fs = MemoryFiles()
    fs.mkdirs("/results")
    assert commit(fs) == CommittedOutputs(0, 0, 0)
    assert tree(fs) == {SUCCESS: b""}


def test_a_new_attempt_takes_the_place_of_the_older_ones() -> None:
    fs = MemoryFiles()
    written(fs)
    of(fs).prepare(3, WRITERS, drop_older=False)
    assert fs.exists(f"{STAGING}/attempt-2/worker-0/result.json")
    of(fs).prepare(3, WRITERS)
    assert [status.path for status in fs.list(STAGING)] == [f"{STAGING}/attempt-3"]


# ---- a target that is there already --------------------------------------------------------


def test_a_target_of_somebody_else_stays_as_it_is() -> None:
    fs = MemoryFiles()
    written(fs)
    fs.write_bytes(f"{TARGET}/theirs", b"theirs")
    with pytest.raises(AlreadyExists):
        commit(fs)
    assert tree(fs) == {"theirs": b"theirs"}
    assert of(fs).keep("/results/partial"), "nothing of the tasks' is lost"


def test_a_manifest_that_makes_no_sense_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    fs = MemoryFiles()
    fs.write_bytes(f"{TARGET}/_outputs.json", b"{")
    assert of(fs).committed() is None
    (text,) = caplog.messages
    assert f"{TARGET}/_outputs.json is taken for somebody else's" in text


@pytest.mark.parametrize("is_file", [True, False])
def test_or_gives_way_when_replace_is_set(is_file: bool) -> None:
    fs = MemoryFiles()
    written(fs)
    fs.write_bytes(TARGET if is_file else f"{TARGET}/theirs", b"theirs")
    assert commit(fs, replace=True) == DONE
    assert tree(fs) == WHOLE


def test_an_empty_directory_is_as_good_as_none() -> None:
    fs = MemoryFiles()
    written(fs)
    fs.mkdirs(TARGET)
    assert commit(fs) == DONE
    assert tree(fs) == WHOLE


# ---- dying ---------------------------------------------------------------------------------


def dies_at(number: int) -> Callable[[str, str], None]:
    """The committer does nothing any more from this operation on."""
    count = [0]

    def hook(_operation: str, _path: str) -> None:
        count[0] += 1
        if count[0] >= number:
            raise Killed

    return hook


@pytest.mark.parametrize("replace", [False, True])
def test_killed_at_each_operation_the_next_committer_goes_on(replace: bool) -> None:
    number, deaths = 0, 0
    while True:
        number += 1
        fs = MemoryFiles()
        written(fs)
        if replace:
            fs.write_bytes(f"{TARGET}/theirs", b"theirs")
        fs.fail = dies_at(number)
        try:
            commit(fs, 1, replace=replace)
        except Killed:
            deaths += 1
        fs.fail = lambda _operation, _path: None
        there = tree(fs) if fs.exists(TARGET) else {}
        assert there in ({}, {"theirs": b"theirs"}, WHOLE), "half an output"
        assert commit(fs, 2, replace=replace) == DONE
        assert tree(fs) == WHOLE
        assert not fs.exists(STAGING)
        if deaths < number:
            break
    assert deaths > 40, "the kills hit nothing"


def test_killed_again_and_again_it_still_comes_to_an_end() -> None:
    for step in range(2, 12):
        fs = MemoryFiles()
        written(fs)
        for epoch in range(1, 60):
            fs.fail = dies_at(step * epoch)
            try:
                commit(fs, epoch)
                break
            except Killed:
                continue
        fs.fail = lambda _operation, _path: None
        assert tree(fs) == WHOLE


@pytest.mark.parametrize("operation", ["rename", "list", "stat", "delete", "mkdirs", "create"])
def test_trouble_that_passes_is_tried_again_by_the_same_committer(operation: str) -> None:
    for times in range(1, 12):
        fs = MemoryFiles()
        written(fs)
        fs.fail = fail_on(operation, Unavailable("away"), times)
        for _ in range(20):
            try:
                done = commit(fs)
                break
            except Unavailable:
                continue
        assert done == DONE
        assert tree(fs) == WHOLE


# ---- zombies -------------------------------------------------------------------------------


class Paused:
    """A file system whose user stops before its ``number``th operation until it is woken up."""

    def __init__(self, inner: MemoryFiles, number: int) -> None:
        self._inner = inner
        self._number = number
        self._count = 0
        self.sleeps = threading.Event()
        self.wake = threading.Event()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            self._count += 1
            if self._count == self._number:
                self.sleeps.set()
                assert self.wake.wait(60)
            return found(*arguments, **options)

        return call


def zombies(
    replace: bool,
) -> Iterator[tuple[int, MemoryFiles, Paused, threading.Thread, list[Any]]]:
    number = 0
    while True:
        number += 1
        fs = MemoryFiles()
        written(fs)
        if replace:
            fs.write_bytes(f"{TARGET}/theirs", b"theirs")
        paused = Paused(fs, number)
        ends: list[Any] = []

        def run(paused: Paused = paused, ends: list[Any] = ends) -> None:
            try:
                ends.append(commit(paused, 1, replace=replace))
            except HdfsError as error:
                ends.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        while not paused.sleeps.wait(0.005) and thread.is_alive():
            pass
        if not paused.sleeps.is_set():
            thread.join(60)
            return
        yield number, fs, paused, thread, ends


@pytest.mark.parametrize("replace", [False, True])
def test_who_wakes_up_late_changes_nothing_any_more(replace: bool) -> None:
    """Committer 1 is paused before each of its operations; committer 2 does all of it; 1 goes
    on. A task of the attempt that has succeeded is a zombie too, and writes to its old place."""
    seen = 0
    for number, fs, paused, thread, ends in zombies(replace):
        seen += 1
        assert commit(fs, 2, replace=replace) == DONE
        fs.write_bytes(f"{STAGING}/attempt-2/ps-0/late", b"late")
        paused.wake.set()
        thread.join(60)
        assert tree(fs) == WHOLE, f"paused before operation {number}"
        (end,) = ends
        assert end == DONE or isinstance(end, (Fenced, NotFound, AlreadyExists)), end
    assert seen > 20


def test_who_wakes_up_in_the_middle_of_its_successors_work_does_no_harm() -> None:
    """Both are paused at each pair of operations, the older one wakes up first."""
    for first in range(1, 34, 2):
        for second in range(1, 34, 2):
            fs = MemoryFiles()
            written(fs)
            paused = Paused(fs, first), Paused(fs, second)
            threads = []
            for epoch, one in enumerate(paused, start=1):
                thread = threading.Thread(target=quietly, args=(one, epoch))
                thread.start()
                threads.append(thread)
                while not one.sleeps.wait(0.002) and thread.is_alive():
                    pass
            if not fs.exists(f"{STAGING}/attempt-2"):
                fs.write_bytes(f"{STAGING}/attempt-2/ps-0/late", b"late")
            for one, thread in zip(paused, threads, strict=True):
                one.wake.set()
                thread.join(60)
            there = tree(fs) if fs.exists(TARGET) else {}
            assert there in ({}, WHOLE), (first, second)
            assert commit(fs, 3) == DONE, (first, second)
            assert tree(fs) == WHOLE, (first, second)


def quietly(fs: Any, epoch: int) -> None:
    try:
        commit(fs, epoch)
    except HdfsError:
        pass


def test_a_file_that_is_still_open_is_closed_and_cannot_be_written_any_more() -> None:
    fs = MemoryFiles()
    written(fs)
    writer = fs.open_writer(f"{STAGING}/attempt-2/ps-0/log")
    writer.write(b"in time")
    writer.sync()
    assert commit(fs).files == 6
    writer.write(b"too late")
    with pytest.raises(LeaseLost):
        writer.sync()
    assert tree(fs) == {**WHOLE, "log": b"in time"}
    manifest = json.loads(fs.read_bytes(f"{TARGET}/{MANIFEST}"))
    assert {"path": "log", "length": 7, "writer": "ps-0"} in manifest["listed"]


def test_an_older_committer_that_comes_after_a_newer_one_is_fenced() -> None:
    fs = MemoryFiles()
    written(fs)
    with pytest.raises(CommitStopped):
        commit(fs, 2, is_stopped=lambda: True)
    with pytest.raises(Fenced, match="committer 2 has taken over from committer 1"):
        commit(fs, 1)


# ---- asked to stop --------------------------------------------------------------------------


def test_asked_to_stop_it_stops_and_puts_an_old_target_back() -> None:
    for asked in range(1, 20):
        fs = MemoryFiles()
        written(fs)
        fs.write_bytes(f"{TARGET}/theirs", b"theirs")
        count = [0]

        def is_stopped(count: list[int] = count, asked: int = asked) -> bool:
            count[0] += 1
            return count[0] >= asked

        try:
            commit(fs, replace=True, is_stopped=is_stopped)
        except CommitStopped:
            assert of(fs).back_out() is None
            assert tree(fs) == {"theirs": b"theirs"}
            assert commit(fs, 2, replace=True) == DONE, "and may be taken up again"
        assert tree(fs) == WHOLE


def test_a_committer_that_died_between_the_two_renames_is_backed_out() -> None:
    fs = MemoryFiles()
    written(fs)
    fs.write_bytes(f"{TARGET}/theirs", b"theirs")
    # The last rename is that of the whole: the old target is set aside by then.
    renames = [0]

    def hook(operation: str, path: str) -> None:
        renames[0] += operation == "rename" and path.endswith(".whole") and "storing" in path
        if operation == "rename" and path.endswith("storing-1/.whole"):
            raise Killed

    fs.fail = hook
    with pytest.raises(Killed):
        commit(fs, replace=True)
    fs.fail = lambda _operation, _path: None
    assert not fs.exists(TARGET)
    assert of(fs).back_out() is None
    assert tree(fs) == {"theirs": b"theirs"}


def test_too_late_to_stop() -> None:
    fs = MemoryFiles()
    written(fs)
    commit(fs)
    assert of(fs).back_out() == DONE


# ---- a job that has not succeeded ----------------------------------------------------------


def test_kept_or_discarded() -> None:
    fs = MemoryFiles()
    assert not of(fs).keep("/results/kept"), "nothing was written"
    written(fs)
    assert of(fs).keep("/results/kept")
    assert of(fs).keep("/results/kept"), "again, after the AM has died"
    assert fs.read_bytes("/results/kept/attempt-2/worker-0/part/a") == b"aa"
    written(fs)
    of(fs).discard()
    of(fs).discard()
    assert not fs.exists(STAGING)
