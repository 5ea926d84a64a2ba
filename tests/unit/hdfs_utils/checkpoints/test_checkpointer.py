"""Groups of ranks, saving in the background, spooling, setting aside, pins."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdfs_utils import checkpoints
from hdfs_utils.checkpoints import (
    MANIFEST,
    Best,
    Checkpointer,
    Limits,
    LocalFile,
    Part,
    PerRank,
    Retention,
    SkippedCheckpoint,
    Spool,
    StartPoint,
    Token,
    catalog,
    pruning,
)
from hdfs_utils.checkpoints.format.shard_file import Identity
from hdfs_utils.errors import (
    AlreadyExists,
    CorruptData,
    Fenced,
    HdfsError,
    NotFound,
    PermissionDenied,
    QuotaExceeded,
    SafeMode,
    Unavailable,
)
from tests.fakes.files import MemoryFiles

HOME = "/ckpt"
JOB = "application_1700000000000_0001"
QUICK = Limits(patience_s=0.05, commit_s=5.0, agree_s=5.0)


@pytest.fixture
def fs() -> MemoryFiles:
    return MemoryFiles()


def single(fs: MemoryFiles, attempt: int = 1, **options: Any) -> Checkpointer:
    options.setdefault("limits", QUICK)
    return Checkpointer(HOME, token=Token(JOB, (attempt,)), fs=fs, **options)


def group(fs: MemoryFiles, size: int, attempt: int = 1, **options: Any) -> list[Checkpointer]:
    return [single(fs, attempt, rank=rank, world_size=size, **options) for rank in range(size)]


def on_all(ranks: list[Checkpointer], call: Callable[[Checkpointer], Any]) -> list[Any]:
    """The same call on all ranks at once; an error comes back in its rank's place."""
    results: list[Any] = [None] * len(ranks)

    def work(rank: int) -> None:
        try:
            results[rank] = call(ranks[rank])
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(len(ranks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def rows(array: np.ndarray, rank: int, size: int) -> Part:
    bounds = [len(array) * n // size for n in range(size + 1)]
    return Part(array[bounds[rank] : bounds[rank + 1]], array.shape, (bounds[rank], 0))


def state(step: int) -> np.ndarray:
    return np.arange(40.0).reshape(10, 4) * step


def save_rows(step: int) -> Callable[[Checkpointer], Any]:
    def call(one: Checkpointer) -> Any:
        part = rows(state(step), one.rank, one.world_size)
        values = {"w": part, "shared": b"same", "rng": PerRank(b"rank %d" % one.rank)}
        return one.save(step, values, {"step": step})

    return call


def flip(fs: MemoryFiles, path: str, at: int = 5) -> None:
    data = bytearray(fs.read_bytes(path))
    data[at] ^= 1
    fs.write_bytes(path, bytes(data), overwrite=True)


def test_a_group_saves_one_checkpoint_and_each_rank_has_its_own(fs: MemoryFiles) -> None:
    ranks = group(fs, 3)
    saved, *others = on_all(ranks, save_rows(5))
    assert others == [None, None]
    assert (saved.step, saved.world_size, len(saved.shards)) == (5, 3, 3)
    assert saved.writer["owner"] == JOB
    values = checkpoints.load(saved, fs=fs)
    np.testing.assert_array_equal(values.pop("w"), state(5))
    assert values == {"shared": b"same", **{f"rng/rank-{n}": b"rank %d" % n for n in range(3)}}


def test_it_is_restored_by_a_group_of_another_size(fs: MemoryFiles) -> None:
    on_all(group(fs, 3), save_rows(5))

    def part(one: Checkpointer) -> Any:
        bounds = [10 * n // one.world_size for n in range(one.world_size + 1)]
        first, stop = bounds[one.rank], bounds[one.rank + 1]
        region = checkpoints.Region((first, 0), (stop - first, 4))
        return one.restore(lambda opened: opened.array("w", region))

    found = on_all(group(fs, 4, attempt=2), part)
    assert [checkpoint.step for checkpoint, _ in found] == [5] * 4
    np.testing.assert_array_equal(np.concatenate([array for _, array in found]), state(5))


def test_ranks_agree_though_a_manifest_appears_while_they_look(fs: MemoryFiles) -> None:
    """A zombie commits after rank 0 has chosen: it cannot, and nobody sees it."""
    on_all(group(fs, 2, attempt=1), save_rows(1))
    # Patient: on a busy machine it would put the checkpoint into its spool before it is refused.
    old = single(fs, attempt=1, limits=Limits(patience_s=30.0, commit_s=30.0, agree_s=30.0))
    old.save(1, {"w": state(0)})
    new = group(fs, 2, attempt=2)
    chosen: list[Any] = []

    def restore(one: Checkpointer) -> Any:
        def read(opened: checkpoints.OpenCheckpoint) -> str:
            if one.rank == 0:
                with pytest.raises(Fenced):
                    old.save(9, {"w": state(9)})
            return opened.checkpoint.path

        return one.restore(read)

    chosen = on_all(new, restore)
    assert chosen[0][1] == chosen[1][1]


def test_a_save_that_failed_always_says_so(fs: MemoryFiles) -> None:
    """However the saving thread and the caller take turns."""
    old = single(fs, attempt=1)
    old.save(1, {"w": state(1)})
    single(fs, attempt=2).save(2, {"w": state(2)})
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for step in range(3, 1503):
            with pytest.raises(Fenced):
                old.save(step, {"w": b""})
    finally:
        sys.setswitchinterval(interval_s)


@pytest.mark.parametrize("bad_rank", [0, 2])
def test_when_one_rank_cannot_read_all_take_the_one_before(fs: MemoryFiles, bad_rank: int) -> None:
    first = on_all(group(fs, 3), save_rows(1))[0]
    second = on_all(group(fs, 3, attempt=2), save_rows(2))[0]
    flip(fs, f"{second.path}/{second.shards[bad_rank].file}")
    skipped: list[SkippedCheckpoint] = []

    def part(one: Checkpointer) -> Any:
        # Each reads only the shard of its own number.
        bounds = [10 * n // 3 for n in range(4)]
        extent = bounds[one.rank + 1] - bounds[one.rank]
        region = checkpoints.Region((bounds[one.rank], 0), (extent, 4))
        return one.restore(lambda opened: opened.array("w", region))

    found = on_all(group(fs, 3, attempt=3, report=skipped.append), part)
    assert [checkpoint.path for checkpoint, _ in found] == [first.path] * 3
    np.testing.assert_array_equal(np.concatenate([array for _, array in found]), state(1))
    [one] = skipped
    assert one.was == second.path
    assert one.path.startswith(f"{HOME}/corrupt-step-")
    assert fs.exists(one.path)


def test_a_lost_rank_is_named(fs: MemoryFiles) -> None:
    limits = Limits(patience_s=0.05, commit_s=0.3, agree_s=0.3)
    ranks = group(fs, 3, limits=limits)
    errors = on_all(ranks[:2], save_rows(1))
    assert "1 of 3 shards did not come: shard-00002-of-00003" in str(errors[0])
    assert "rank 0 has not committed" in str(errors[1])
    assert checkpoints.latest(HOME, fs=fs) is None
    alone = group(fs, 2, attempt=2, limits=limits)[1]
    with pytest.raises(Unavailable, match=r"rank 0 of .* has claimed no epoch"):
        alone.restore(lambda opened: opened)


def test_parts_that_do_not_cover_their_array_are_refused(fs: MemoryFiles) -> None:
    one = single(fs)
    with pytest.raises(ValueError, match="the parts of all ranks hold 2 of 4 elements"):
        one.save(1, {"w": Part(np.zeros(2), (4,), (0,))})
    with pytest.raises(ValueError, match="not within"):
        one.save(1, {"w": Part(np.zeros(2), (4,), (3,))})
    assert catalog.list_checkpoints(fs, HOME) == []
    one.save(2, {"w": [Part(np.zeros(2), (4,), (0,)), Part(np.ones(2), (4,), (2,))]})


def test_a_group_needs_a_token() -> None:
    with pytest.raises(ValueError, match="token"):
        Checkpointer("file:///x", rank=0, world_size=2)
    with pytest.raises(ValueError, match="not one of"):
        Checkpointer("file:///x", rank=2, world_size=2)


def test_in_the_background_one_save_is_behind_and_the_loop_may_go_on(fs: MemoryFiles) -> None:
    gate = threading.Event()

    def slow(operation: str, _path: str) -> None:
        if operation == "write":
            gate.wait(5)

    fs.fail = slow
    weights, losses = np.zeros(1000), [1.0]
    with single(fs, background=True) as one:
        assert one.save(1, {"w": weights}, {"losses": losses}) is None
        weights += 1  # copies were taken
        losses.append(2.0)
        assert len(one.behind) == 1
        done = threading.Event()
        second = threading.Thread(target=lambda: (one.save(2, {"w": weights}), done.set()))
        second.start()
        assert not done.wait(0.2), "two saves are behind"
        gate.set()
        second.join()
    assert [found.name.step for found in catalog.list_checkpoints(fs, HOME)] == [2, 1]
    found = one.load()
    assert found is not None
    assert set(found[1]["w"]) == {1.0}
    saved = checkpoints.open_checkpoint(catalog.list_checkpoints(fs, HOME)[1].path, fs=fs)
    assert set(saved.array("w")) == {0.0}
    assert saved.checkpoint.metadata == {"losses": [1.0]}


def test_an_error_in_the_background_is_raised_by_the_next_call(fs: MemoryFiles) -> None:
    def full(operation: str, _path: str) -> None:
        if operation == "write":
            raise QuotaExceeded("full")

    fs.fail = full
    one = single(fs, background=True)
    one.save(1, {"w": b"1"})
    with pytest.raises(QuotaExceeded):
        one.wait()
    fs.fail = lambda _operation, _path: None
    one.save(2, {"w": b"2"})
    one.close()
    assert [found.name.step for found in catalog.list_checkpoints(fs, HOME)] == [2]


def in_safe_mode(fs: MemoryFiles) -> None:
    """As the NameNode: questions are answered, nothing is changed."""

    def refuse(operation: str, _path: str) -> None:
        if operation in ("create", "rename", "mkdirs", "delete"):
            raise SafeMode("Name node is in safe mode")

    fs.fail = refuse


def test_in_safe_mode_a_save_is_spooled_and_lands_later(fs: MemoryFiles, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    one = single(fs, spool=spool)
    one.save(1, {"w": state(1)})
    in_safe_mode(fs)
    for step in (2, 3):
        assert one.save(step, {"w": state(step)}, {"step": step}) is None
    assert len(one.spooled) == 2
    assert len(list(spool.directory.glob("*.shard"))) == 2
    with pytest.raises(Unavailable, match="not saved within"):
        one.wait(0.1)
    fs.fail = lambda _operation, _path: None
    one.wait(10.0)
    assert [found.name.step for found in catalog.list_checkpoints(fs, HOME)] == [3, 2, 1]
    assert not spool.directory.exists()
    found = one.load()
    assert found is not None
    np.testing.assert_array_equal(found[1]["w"], state(3))


@pytest.mark.parametrize("made", ["open", "link", "foreign"])
def test_a_spool_that_somebody_else_has_made_is_refused(tmp_path: Path, made: str) -> None:
    directory = tmp_path / "spool"
    if made == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        directory.symlink_to(tmp_path / "elsewhere")
    else:
        directory.mkdir(mode=0o700)
    if made == "open":
        directory.chmod(0o777)
    if made == "foreign":
        if os.geteuid() != 0:
            pytest.skip("gives a directory to another user")
        os.chown(directory, 65534, -1)
    with pytest.raises(PermissionDenied, match="another user"):
        Spool(directory).put("s", Identity(1, 1, 0, 1), [])
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_without_a_spool_it_fails_and_the_limit_is_named(fs: MemoryFiles, tmp_path: Path) -> None:
    one = single(fs)
    one.save(1, {"w": b""})
    in_safe_mode(fs)
    with pytest.raises(SafeMode):
        one.save(2, {"w": b""})
    fs.fail = lambda _operation, _path: None
    other = single(fs, spool=Spool(tmp_path, limit_s=0.2, max_bytes=3))
    other.save(3, {"w": b""})
    in_safe_mode(fs)
    with pytest.raises(QuotaExceeded):
        other.save(4, {"w": b"1234"})
    other.save(5, {"w": b"123"})
    with pytest.raises(Unavailable, match="given up"):
        other.wait()


def test_a_spooled_shard_that_the_disk_changed_does_not_land(
    fs: MemoryFiles, tmp_path: Path
) -> None:
    one = single(fs, spool=Spool(tmp_path))
    one.save(1, {"w": b"1" * 100})
    in_safe_mode(fs)
    one.save(2, {"w": b"2" * 100})
    [path] = tmp_path.glob("*.shard")
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"3" + path.read_bytes()[1:])
    damaged.rename(path)
    fs.fail = lambda _operation, _path: None
    with pytest.raises(CorruptData, match="local disk"):
        one.wait()
    assert [found.name.step for found in catalog.list_checkpoints(fs, HOME)] == [1]


def test_who_was_fenced_is_told_and_lands_nothing(fs: MemoryFiles, tmp_path: Path) -> None:
    zombie = single(fs, spool=Spool(tmp_path))
    zombie.save(1, {"w": b""})
    in_safe_mode(fs)
    zombie.save(2, {"w": b""})
    fs.fail = lambda _operation, _path: None
    successor = single(fs, attempt=2)
    found = successor.load()
    assert found is not None
    with pytest.raises(Fenced, match=f"{JOB}:2"):
        wait_and_save(zombie)
    assert [found.name.step for found in catalog.list_checkpoints(fs, HOME)] in ([1], [2, 1])


def wait_and_save(one: Checkpointer) -> None:
    one.wait()
    one.save(3, {"w": b""})


def test_corrupt_ones_are_set_aside_until_a_whole_one_is_found(fs: MemoryFiles) -> None:
    one = single(fs)
    saved = [one.save(step, {"w": state(step)}) for step in (1, 2, 3)]
    assert all(saved)
    paths = [checkpoint.path for checkpoint in saved if checkpoint]
    flip(fs, f"{paths[2]}/shard-00000-of-00001")
    fs.write_bytes(f"{paths[1]}/{MANIFEST}", b"{}", overwrite=True)
    skipped: list[SkippedCheckpoint] = []
    found = single(fs, attempt=2, report=skipped.append).load()
    assert found is not None
    assert found[0].path == paths[0]
    assert [one.was for one in skipped] == [paths[2], paths[1]]
    assert [f.state.value for f in catalog.list_checkpoints(fs, HOME)] == [
        "whole",
        "set aside",
        "set aside",
    ]


def test_missing_blocks_prove_nothing(fs: MemoryFiles) -> None:
    """A DataNode that is away: the checkpoint before is taken, but this one stays in its place."""
    one = single(fs)
    first, second = one.save(1, {"w": b""}), one.save(2, {"w": b"2"})
    assert first
    assert second

    def away(operation: str, path: str) -> None:
        if operation == "open" and path.startswith(second.path) and "shard" in path:
            raise CorruptData("BlocksNotFound", path=path)

    fs.fail = away
    skipped: list[SkippedCheckpoint] = []
    found = single(fs, attempt=2, report=skipped.append).load()
    assert found is not None
    assert found[0] == first
    assert skipped[0].was == ""
    fs.fail = lambda _operation, _path: None
    assert checkpoints.latest(HOME, fs=fs) == second


def test_when_none_can_be_read_now_training_does_not_begin_afresh(fs: MemoryFiles) -> None:
    one = single(fs)
    for step in (1, 2):
        one.save(step, {"w": b"2"})

    def away(operation: str, path: str) -> None:
        if operation == "open" and "shard" in path:
            raise Unavailable("All DataNodes failed", path=path, operation="read")

    fs.fail = away
    skipped: list[SkippedCheckpoint] = []
    with pytest.raises(Unavailable, match="cannot be read now"):
        single(fs, attempt=2, report=skipped.append).load()
    with pytest.raises(Unavailable):
        checkpoints.load_latest(HOME, fs=fs)
    assert len(skipped) == 2
    fs.fail = lambda _operation, _path: None
    found = single(fs, attempt=2).load()
    assert found is not None
    assert found[0].step == 2


def test_where_to_start(fs: MemoryFiles) -> None:
    earlier = Checkpointer(HOME, token=Token("earlier"), fs=fs, limits=QUICK)
    for step in (10, 20, 30):
        earlier.save(step, {"w": state(step)})

    def begins_with(start: StartPoint, attempt: int = 1) -> int | None:
        found = single(fs, attempt, start=start).load()
        return found[0].step if found else None

    assert begins_with(StartPoint.parse("newest")) == 30
    assert begins_with(StartPoint.parse("20")) == 20
    assert begins_with(StartPoint.parse("none")) is None
    with pytest.raises(NotFound, match="no whole checkpoint of step 25"):
        begins_with(StartPoint(step=25))
    with pytest.raises(ValueError):
        StartPoint.parse("last")
    # It went on from 20 and saved 25: the next attempt takes that, not the 30 of another run.
    single(fs, start=StartPoint(step=20)).save(25, {"w": state(25)})
    for text in ("20", "none", "newest"):
        assert begins_with(StartPoint.parse(text), attempt=2) == 25


def test_who_is_read_is_not_cleared_away(fs: MemoryFiles) -> None:
    one = single(fs, retention=Retention(keep=1))
    first = one.save(1, {"w": b"1"})
    assert first
    with catalog.pinned(fs, first.path):
        one.save(2, {"w": b"2"})
        assert checkpoints.load(first, fs=fs) == {"w": b"1"}
    one.save(3, {"w": b"3"})
    assert [found.name.step for found in catalog.list_checkpoints(fs, HOME)] == [3]


def test_a_save_has_cleared_away_what_it_replaces(
    fs: MemoryFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if whoever waits for it looks in between."""
    one = single(fs, retention=Retention(keep=1))
    one.save(1, {"w": b"1"})
    prune = pruning.prune

    def slowly(*arguments: Any) -> list[str]:
        with one._changed:
            one._changed.notify_all()
        time.sleep(0.1)
        return prune(*arguments)

    monkeypatch.setattr(pruning, "prune", slowly)
    one.save(2, {"w": b"2"})
    assert [found.name.step for found in catalog.list_checkpoints(fs, HOME)] == [2]


def test_a_pin_between_look_and_rename_brings_it_back(fs: MemoryFiles) -> None:
    one = single(fs, retention=Retention(keep=2))
    first = one.save(1, {"w": b"1"})
    assert first
    pins: list[Any] = []

    def pin_now(operation: str, path: str) -> None:
        if operation == "rename" and path == first.path:
            fs.fail = lambda _operation, _path: None
            pins.append(catalog.pinned(fs, first.path))
            pins[0].__enter__()

    fs.fail = pin_now
    assert not catalog.remove(fs, first.path)
    assert checkpoints.load(first, fs=fs) == {"w": b"1"}
    pins[0].__exit__(None, None, None)
    assert catalog.remove(fs, first.path)


def test_the_best_stay(fs: MemoryFiles) -> None:
    one = single(fs, retention=Retention(keep=1, best=Best("loss", "min", 2)))
    for step, loss in enumerate([5.0, 1.0, 3.0, 2.0, 4.0]):
        one.save(step, {"w": b""}, metrics={"loss": loss})
    assert [found.name.step for found in catalog.list_checkpoints(fs, HOME)] == [4, 3, 1]


def test_a_local_file_is_saved_without_being_held(fs: MemoryFiles, tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"x" * (9 << 20))
    saved = single(fs).save(1, {"model.bin": LocalFile(tmp_path / "model.bin")})
    assert saved
    assert checkpoints.load(saved, fs=fs)["model.bin"] == b"x" * (9 << 20)


def test_the_same_save_twice_is_one_and_another_is_refused(fs: MemoryFiles) -> None:
    """As when a program makes two checkpointers for one rank."""
    on_all(group(fs, 2), save_rows(1))
    again = on_all(group(fs, 2), save_rows(1))
    assert isinstance(again[0], AlreadyExists)  # it says another time

    def other(one: Checkpointer) -> Any:
        return one.save(1, {"w": rows(state(7), one.rank, 2)})

    assert any(isinstance(found, HdfsError) for found in on_all(group(fs, 2), other))
    found = checkpoints.load_latest(HOME, fs=fs)
    assert found is not None
    np.testing.assert_array_equal(found[1]["w"], state(1))


def test_the_worker_ends_with_its_work(fs: MemoryFiles) -> None:
    before = threading.active_count()
    with single(fs, background=True) as one:
        one.save(1, {"w": b""})
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


class TroubledFiles:
    """The same storage seen from a node that cannot change anything for a while."""

    def __init__(self, inner: MemoryFiles) -> None:
        self.inner = inner
        self.is_in_trouble = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name in ("write_atomic", "open_writer", "mkdirs", "rename") and self.is_in_trouble:
            raise Unavailable("no route to the NameNode", operation=name)
        return found


def test_a_rank_in_trouble_does_not_hold_the_others_up(fs: MemoryFiles, tmp_path: Path) -> None:
    """Its shard waits on its disk; the other ranks train on, and the checkpoint is there later."""
    troubled = TroubledFiles(fs)
    options: dict[str, Any] = {"background": True, "limits": QUICK, "world_size": 2}
    ranks = [
        Checkpointer(HOME, rank=0, token=Token(JOB), fs=fs, **options),
        Checkpointer(HOME, rank=1, token=Token(JOB), fs=troubled, spool=Spool(tmp_path), **options),
    ]
    on_all(ranks, save_rows(1))
    on_all(ranks, lambda one: one.wait())
    troubled.is_in_trouble = True
    for step in (2, 3):
        began = time.monotonic()
        assert on_all(ranks, save_rows(step)) == [None, None]
        assert time.monotonic() - began < QUICK.commit_s / 2
    deadline = time.monotonic() + 5
    while len(ranks[1].spooled) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert ranks[0].behind
    troubled.is_in_trouble = False
    assert on_all(ranks, lambda one: one.wait(10)) == [None, None]
    assert [f.name.step for f in catalog.list_checkpoints(fs, HOME) if f.checkpoint] == [3, 2, 1]
    found = checkpoints.load_latest(HOME, fs=fs)
    assert found is not None
    np.testing.assert_array_equal(found[1]["w"], state(3))


def test_who_only_reads_takes_nothing_over(
    fs: MemoryFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook looks at the checkpoints of a living job."""
    monkeypatch.delenv("YARNAM_CHECKPOINT_TOKEN", raising=False)
    job = single(fs)
    job.save(1, {"w": b"1"})
    notebook = Checkpointer(HOME, fs=fs, limits=QUICK)
    for step in (1, 2, 3):
        found = notebook.load()
        assert found is not None
        assert found[0].step == step
        job.save(step + 1, {"w": b"2"})
    notebook.save(9, {"w": b"mine"})
    with pytest.raises(Fenced):
        job.save(10, {"w": b""})


def test_a_reader_without_permission_passes_a_corrupt_one_over(fs: MemoryFiles) -> None:
    first, second = (single(fs).save(step, {"w": b"%d" % step}) for step in (1, 2))
    assert first
    assert second
    flip(fs, f"{second.path}/{second.shards[0].file}", at=0)

    def read_only(operation: str, path: str) -> None:
        if operation in ("rename", "mkdirs", "delete", "create"):
            raise PermissionDenied("not yours", path=path)

    fs.fail = read_only
    skipped: list[SkippedCheckpoint] = []
    reader = Checkpointer(HOME, token=Token("process-reader"), fs=fs, report=skipped.append)
    found = reader.load()
    assert found is not None
    assert found[0] == first
    assert [one.path for one in skipped] == [second.path]
