"""Checkpoints while a cluster of their own is in safe mode, or loses a NameNode or its data."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import hdfs_utils
from hdfs_utils import FileSystem
from hdfs_utils.checkpoints import (
    Checkpointer,
    Limits,
    SkippedCheckpoint,
    Spool,
    Token,
    catalog,
    latest,
)
from hdfs_utils.errors import Unavailable
from tests.integration.hdfs_faults import own_cluster, safe_mode, start

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

pytestmark = [pytest.mark.hdfs, pytest.mark.slow, pytest.mark.chaos]

LIMIT_S = 120.0
QUICK = Limits(patience_s=2.0)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with own_cluster(f"ckpt-{os.getpid()}", tmp_path_factory.mktemp("state")) as started:
        yield started


@pytest.fixture
def fs(own: EmbeddedCluster) -> FileSystem:
    return hdfs_utils.connect(conf_dir=str(own.conf_dir), timeout_s=5.0)


@pytest.fixture
def home(unique_name: Callable[[str], str]) -> str:
    return f"/tmp/{unique_name('checkpoints')}"


def checkpointer(fs: FileSystem, home: str, attempt: int = 1, **options: object) -> Checkpointer:
    options = {"limits": QUICK, **options}
    return Checkpointer(home, token=Token("job", (attempt,)), fs=fs, **options)  # type: ignore[arg-type]


def state(step: int) -> dict[str, np.ndarray]:
    return {"w": np.full(200_000, step)}


def test_in_safe_mode_saves_are_spooled_and_land_later(
    own: EmbeddedCluster, fs: FileSystem, home: str, tmp_path: Path
) -> None:
    one = checkpointer(fs, home, spool=Spool(tmp_path / "spool"))
    assert one.save(1, state(1))
    safe_mode(own, "enter")
    try:
        began = time.monotonic()
        assert one.save(2, state(2)) is None
        took_s = time.monotonic() - began
        assert one.spooled
        assert len(list((tmp_path / "spool").glob("*.shard"))) == 1
    finally:
        safe_mode(own, "leave")
    print(f"the loop waited {took_s:.1f} s for a save in safe mode, patience {QUICK.patience_s} s")
    one.wait(LIMIT_S)
    saved = latest(home, fs=fs)
    assert saved is not None
    assert saved.step == 2
    assert not (tmp_path / "spool").exists()


def test_a_restart_of_the_name_node_loses_no_save(
    own: EmbeddedCluster, fs: FileSystem, home: str, tmp_path: Path
) -> None:
    one = checkpointer(fs, home, background=True, spool=Spool(tmp_path / "spool"))
    one.save(1, state(1))
    one.wait(LIMIT_S)
    own.daemon("nn").kill()
    try:
        for step in (2, 3):
            one.save(step, state(step))
    finally:
        start(own, "nn")
    one.wait(LIMIT_S)
    found = one.load()
    assert found is not None
    assert found[0].step == 3
    assert set(found[1]["w"]) == {3}
    assert [one.name.step for one in catalog.list_checkpoints(fs, home)] == [3, 2, 1]


def test_without_data_nodes_training_does_not_begin_afresh(
    own: EmbeddedCluster, fs: FileSystem, home: str
) -> None:
    assert checkpointer(fs, home).save(1, state(1))
    nodes = [name for name in own.plan.daemons if name.startswith("dn")]
    for name in nodes:
        own.daemon(name).kill()
    skipped: list[SkippedCheckpoint] = []
    try:
        with pytest.raises(Unavailable):
            checkpointer(fs, home, 2, report=skipped.append).load()
    finally:
        start(own, *nodes)
    assert all(not one.was for one in skipped), "out of reach is not corrupt"
    patient = checkpointer(fs, home, 3, limits=Limits(patience_s=LIMIT_S))
    found = patient.load()
    assert found is not None
    assert found[0].step == 1
