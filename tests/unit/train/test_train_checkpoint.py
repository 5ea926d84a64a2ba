"""yarnam.train.checkpoint: what the spec says reaches the checkpointer."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdfs_utils.checkpoints import Best, Part, Region, Retention, StartPoint, Token
from tests.unit.train.sdk_settings import set_sdk
from yarnam import train
from yarnam.core.model.actions import GangMember
from yarnam.core.model.ids import AskId, NodeId, RackId, TaskId
from yarnam.core.model.job_spec import CheckpointSpec, JobSpec, RoleSpec
from yarnam.core.model.plans import Placed
from yarnam.core.model.resources import Resources
from yarnam.train import checkpoint
from yarnam.train._reports import reporting
from yarnam.wire.rendezvous import environments

JOB = "application_1700000000000_0007"
SPEC = {
    "keep": 5,
    "keep_every": 1000,
    "best": {"metric": "top,5", "mode": "max", "keep": 2},
    "every": 50,
    "background": True,
    "restore": "700",
    "spool_limit_s": 60.5,
    "spool_max_mib": 16,
}


@pytest.fixture(autouse=True)
def forgets_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process has reported goes into all of its later reports."""
    monkeypatch.setattr(reporting, "_of_checkpoints", {})
    monkeypatch.setattr(reporting, "_last", {})


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("YARNAM_") or name == "LOCAL_DIRS":
            monkeypatch.delenv(name)


def test_outside_of_a_job(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"checkpoint\.directory"):
        train.checkpoint.open()
    with train.checkpoint.open(f"file://{tmp_path}/c") as saved:
        assert saved.load() is None
        assert not any(saved.is_due(step) for step in range(100))
        saved.save(1, {"w": np.ones(3)})
        found = saved.load()
    assert found is not None
    assert found[0].step == 1
    assert saved.inner.retention == Retention(CheckpointSpec().keep)


def test_outside_of_a_job_nobody_knows_the_spool_s_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names = set()
    for _ in range(2):
        with train.checkpoint.open(f"file://{tmp_path}/c") as saved:
            assert saved.inner._spool is not None
            names.add(saved.inner._spool.directory)
    assert len(names) == 2
    assert {path.parent for path in names} == {tmp_path}


def test_in_a_job_the_spec_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = {
        "YARNAM_RANK": "1",
        "YARNAM_WORLD_SIZE": "4",
        "YARNAM_CHECKPOINT_DIR": f"file://{tmp_path}/c",
        "YARNAM_CHECKPOINT_TOKEN": f"{JOB}:3",
        "LOCAL_DIRS": f"/no/such,{tmp_path}",
    }
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    set_sdk(monkeypatch, checkpoint=SPEC)
    saved = checkpoint.open("/elsewhere")
    inner = saved.inner
    assert (inner.root, inner.rank, inner.world_size) == (f"{tmp_path}/c", 0, 1)
    assert inner.retention == Retention(5, 1000, Best("top,5", "max", 2))
    assert (inner._token, inner._start) == (Token(JOB, (3,)), StartPoint(step=700))
    assert inner._background
    assert inner._spool is not None
    assert inner._spool.directory.parent == tmp_path
    assert (inner._spool.limit_s, inner._spool.max_bytes) == (60.5, 16 << 20)
    assert [step for step in range(201) if saved.is_due(step)] == [50, 100, 150, 200]
    sharded = checkpoint.open(sharded=True, background=False).inner
    assert (sharded.rank, sharded.world_size, sharded._background) == (1, 4, False)
    set_sdk(monkeypatch, checkpoint={**SPEC, "spool_limit_s": 0.0})
    assert checkpoint.open().inner._spool is None


@pytest.mark.parametrize(
    "spec",
    [
        CheckpointSpec(),
        CheckpointSpec(keep=7, in_background=True, every=5, keep_every=50, restore="none"),
        CheckpointSpec(best_metric="top,5", best_mode="max", best_keep=2, spool_max_mib=9),
    ],
)
def test_the_sdk_reads_what_the_am_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: CheckpointSpec
) -> None:
    role = RoleSpec("worker", 1, Resources(1, 1, 0), ("x",))
    job = JobSpec(
        "j", "root.q", "ann", "command", (role,),
        checkpoint=replace(spec, directory=f"file://{tmp_path}/c"),
    )  # fmt: skip
    placed = Placed("worker", NodeId("n1"), RackId("/r1"), (), 1, "h1", (("coordinator", 9),))
    member = GangMember(AskId(1, "worker", 0), TaskId("worker", 0), placed)
    ((env,),) = environments(job, [member], 1, JOB)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    saved = checkpoint.open()
    inner = saved.inner
    best = Best(spec.best_metric, spec.best_mode, spec.best_keep) if spec.best_metric else None
    assert inner.retention == Retention(spec.keep, spec.keep_every, best)
    assert (inner._background, saved.every) == (spec.in_background, spec.every)
    assert inner._start == StartPoint.parse(spec.restore)
    assert inner._spool is not None
    assert inner._spool.limit_s == spec.spool_limit_s
    assert inner._spool.max_bytes == (spec.spool_max_mib << 20 or None)
    assert train.checkpoint_keep() == spec.keep


def test_all_ranks_of_an_attempt_save_and_restore_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("YARNAM_CHECKPOINT_DIR", f"file://{tmp_path}/c")
    array = np.arange(12.0).reshape(6, 2)
    results: dict[int, Any] = {}

    def work(rank: int) -> None:
        saved = checkpoint.open(sharded=True, rank=rank, world_size=2)
        found = saved.restore(lambda opened: opened.array("w", Region((3 * rank, 0), (3, 2))))
        part = Part(array[3 * rank : 3 * rank + 3], (6, 2), (3 * rank, 0))
        saved.save(1, {"w": part})
        saved.close()
        results[rank] = None if found is None else found[1]

    for attempt in (1, 2):
        monkeypatch.setenv("YARNAM_CHECKPOINT_TOKEN", f"{JOB}:{attempt}")
        ranks = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
        for thread in ranks:
            thread.start()
        for thread in ranks:
            thread.join()
        if attempt == 1:
            assert results == {0: None, 1: None}
    np.testing.assert_array_equal(np.concatenate([results[0], results[1]]), array)


def test_saves_are_reported_for_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(reporting, "_send", lambda _, data: sent.append(json.loads(data)["values"]))
    monkeypatch.setattr(reporting, "setting", lambda _: "@socket")
    with checkpoint.open(f"file://{tmp_path}", background=True) as saved:
        reporting.report(1, loss=0.5)
        saved.save(1, {"w": np.ones(3)})
        reporting.report(2, loss=0.25)
        saved.save(2, {"w": np.ones(3)})
        saved.wait()
    # The pauses of the saves are reports too, and repeat what was reported last.
    seen = list(dict.fromkeys((one.get("saved_step"), one["loss"]) for one in sent))
    assert seen == [(None, 0.5), (None, 0.25), (1.0, 0.25), (2.0, 0.25)]
    assert sent[-1]["saving_s"] > 0
    with checkpoint.open(f"file://{tmp_path}") as saved:
        saved.load()
        reporting.report(3)
    assert (sent[-1]["resumed_step"], sent[-1]["saved_step"]) == (2.0, 2.0)
    assert "restored_step" not in sent[-1]


def test_a_save_is_a_pause_until_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(reporting, "_send", lambda _, data: sent.append(json.loads(data)))
    monkeypatch.setattr(reporting, "setting", lambda _: "@socket")
    with checkpoint.open(f"file://{tmp_path}") as saved:
        reporting.report(7)
        saved.save(7, {"w": np.ones(3)})
        saved.load()
    pauses = list(dict.fromkeys(one["pause"] for one in sent))
    assert pauses == ["", "checkpoint", "restore of a checkpoint"]
    assert sent[-1]["pause"] == ""
    assert {one["step"] for one in sent} == {7}, "a pause does not hide the step"
