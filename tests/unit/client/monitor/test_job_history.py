"""The history as a client sees it: of one user and of all, completed where an AM was lost."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hdfs_utils.errors import PermissionDenied
from tests.unit.accounting.records import many, numbered, record
from tests.unit.client.world import APPLICATION, World, verdict
from yarnam.adapters.hdfs.history_store import HistoryStore
from yarnam.client.monitor.history_exports import write_philly, write_summaries, write_usage
from yarnam.client.monitor.job_history import ALL_USERS, RETENTION_S
from yarnam.core.accounting.job_summary import summary_of
from yarnam.core.accounting.usage import usage
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import UsageError
from yarnam.wire.codec import encode

KEY = "20231114-221320-00000a"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "world")


def store_of(world: World, user: str = "me") -> HistoryStore:
    return HistoryStore(world.files, world.site.paths_of(user).history)


def test_ones_own_and_everybodys(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    store_of(world).put(record(user="me"))
    store_of(world, "eve").put(numbered(record(), 3))
    store_of(world, "eve").put(replace(numbered(record(), 4), user="eve"))
    world.files.mkdirs("/user/zoe/.yarnam/history/new")
    listed = world.files.list

    def guarded(path: str) -> object:
        if "/zoe/" in path:
            raise PermissionDenied("no", path=path, operation="list")
        return listed(path)

    monkeypatch.setattr(world.files, "list", guarded)
    assert [row.user for row in world.client.history.jobs().rows] == ["me"]
    everybody = world.client.history.jobs(user=ALL_USERS)
    assert sorted(row.user for row in everybody.rows) == ["eve", "me"], "nobody speaks for others"
    assert everybody.hidden == ("zoe",)


def test_one_record_by_any_of_its_names(world: World) -> None:
    made = [replace(one, user="me") for one in many(6)]
    for one in made:
        store_of(world).put(one)
    history = world.client.history
    assert history.record("last") == made[0]
    assert history.record(made[3].application) == made[3]
    assert history.record(made[3].key) == made[3]
    assert history.record("train-4") == made[4]
    with pytest.raises(UsageError, match="no job nobody"):
        history.record("nobody")


def test_a_job_whose_am_was_lost_gets_its_record_from_whoever_looks(world: World) -> None:
    job = world.job(state="KILLED", am=False, key=KEY, finished_at_s=time.time())
    assert job.status().state.value == "CANCELLED"
    (row,) = world.client.history.jobs().rows
    assert (row.application, row.state, row.key) == (APPLICATION, "CANCELLED", KEY)
    found = world.client.history.record("last")
    assert found.written_by == "client"
    written = len(world.left_on_hdfs())
    job.status()
    assert len(world.left_on_hdfs()) == written


def test_repair_completes_what_nobody_has_looked_at(world: World) -> None:
    world.job(state="FAILED", am=False, key=KEY, finished_at_s=1700.0)
    alive = "20231114-221320-00000b"
    world.job(state="RUNNING", key=alive, application="application_1700000000000_0099")
    world.put(KEY, "verdict.json", encode(verdict(VerdictKind.FAILED, 90, "boom")))
    (written,) = world.client.history.repair()
    assert (written.key, written.verdict.message) == (KEY, "boom")
    assert written.ended_at_s == 2000.0
    assert world.client.history.repair() == []
    assert world.client.history.prune(keep=0) == 1
    assert world.client.history.repair() == [], "what was pruned does not come back"


def test_a_job_that_yarn_has_forgotten(world: World) -> None:
    world.job(state="RUNNING", key=KEY)
    del world.rm.apps[APPLICATION]
    (written,) = world.client.history.repair()
    assert written.application == APPLICATION
    assert "YARN has forgotten" in written.verdict.message


def test_many_single_records_are_put_together_by_a_list(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yarnam.client.monitor.job_history.COMPACT_ABOVE", 3)
    monkeypatch.setattr("yarnam.adapters.hdfs.history_compaction.SETTLED_S", -4e9)
    for one in many(5):
        store_of(world).put(one)
    assert len(world.client.history.jobs().rows) == 5
    assert not world.files.list("/user/me/.yarnam/history/new")
    assert len(world.client.history.jobs().rows) == 5


def test_files_for_other_tools(tmp_path: Path) -> None:
    from pyarrow import parquet

    made = list(many(10))
    rows = [summary_of(one) for one in made]
    assert write_summaries(tmp_path / "jobs.parquet", rows) == 10
    table = parquet.read_table(tmp_path / "jobs.parquet").to_pylist()
    assert table[3]["application"] == made[3].application
    assert table[3]["ettr"] == pytest.approx(0.9)
    groups = usage(rows, ("user",))
    assert write_usage(tmp_path / "usage.parquet", ("user",), groups) == 3
    table = parquet.read_table(tmp_path / "usage.parquet").to_pylist()
    assert table[0]["causes"][0]["cause"] == "unknown"
    assert write_philly(tmp_path / "cluster_job_log", made) == 10
    assert len(json.loads((tmp_path / "cluster_job_log").read_text())) == 10
    with pytest.raises(UsageError, match="cannot write"):
        write_philly(tmp_path / "nowhere" / "x", made)


def test_old_records_and_those_above_the_count_go_when_records_are_put_together(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yarnam.adapters.hdfs.history_compaction.SETTLED_S", -4e9)
    now_s = time.time()
    for number in range(6):
        age_s = RETENTION_S + 7200.0 if number < 2 else 3600.0 * (6 - number)
        one = numbered(record(user="me"), number)
        store_of(world).put(replace(one, ended_at_s=now_s - age_s))
    assert len(world.client.history.jobs().rows) == 6, "a list alone removes nothing"
    world.client.history.compact()
    kept = world.client.history.jobs().rows
    assert [round((now_s - row.ended_at_s) / 3600.0) for row in kept] == [1, 2, 3, 4]
    monkeypatch.setattr("yarnam.client.monitor.job_history.RETENTION_RECORDS", 3)
    monkeypatch.setattr("yarnam.client.monitor.job_history.COMPACT_ABOVE", 0)
    store_of(world).put(replace(numbered(record(user="me"), 9), ended_at_s=now_s))
    assert len(world.client.history.jobs().rows) == 5
    kept = world.client.history.jobs().rows
    assert [round((now_s - row.ended_at_s) / 3600.0) for row in kept] == [0, 1, 2]
