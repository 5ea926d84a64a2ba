"""``yarnam history`` and ``yarnam usage``."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import parquet

from tests.unit.accounting.records import many
from tests.unit.cli.terminal import in_pipes
from tests.unit.client.submit.test_job_removal import Ended
from tests.unit.client.world import World
from yarnam.adapters.hdfs.history_store import HistoryStore
from yarnam.cli.shell import Shell, run
from yarnam.errors import ExitCode, Unavailable


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "world")
    store = HistoryStore(world.files, world.site.paths.history)
    for one in many(20):
        store.put(replace(one, user="me"))
    return world


def call(world: World, *arguments: str) -> tuple[int, str, str]:
    with in_pipes() as (out, err):
        code = run(arguments, Shell(lambda **_: world.client))
    return code, out.content, err.content


def test_a_list_with_its_sum(world: World) -> None:
    code, out, err = call(world, "history", "list", "-n", "3", "--state", "failed")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == (
        ["ENDED", "ID", "NAME", "USER", "QUEUE", "STATE", "GPUS", "WALL", "GPU-H", "ETTR", "CAUSE"]
    )
    assert len(lines) == 5
    assert "FAILED" in lines[1]
    assert lines[1].endswith("60%   unknown")
    assert lines[-1] == (
        "4 jobs (0 succeeded, 4 failed, 0 cancelled), 0.40 GPU hours "
        "(0.27 training, 0.13 lost, 0.00 overhead), ETTR 60%"
    )
    assert err == "1 older jobs are not shown: use --limit.\n"


def test_the_sum_alone_and_as_json(world: World) -> None:
    _, out, _ = call(world, "history", "list", "--sum")
    assert out.startswith("20 jobs (16 succeeded")
    _, out, _ = call(world, "history", "list", "--json", "--queue", "root.team1")
    plain = json.loads(out)
    assert plain["sum"]["jobs"] == len(plain["jobs"]) == 5
    assert plain["jobs"][0]["ettr"] == 0.9


def test_one_job(world: World) -> None:
    _, out, _ = call(world, "history", "show", "train-4")
    assert "FAILED (exit code 90): worker-0 (rank 0) on n1 exited with code 3" in out
    assert "ETTR 60%: training 1m00s, training lost 30s, waiting 10s; 0.1 GPU hours" in out
    assert "tasks: 2 worker (2 GPUs, 1024 MiB, 2 vcores each)" in out
    assert "last step 90, last saved 60" in out
    assert "n1, n2" in out
    _, out, _ = call(world, "history", "show", "train-4", "--json")
    assert json.loads(out)["placements"][0]["nodes"][0]["node"] == "n1"


def test_files(world: World, tmp_path: Path) -> None:
    for kind in ("parquet", "philly"):
        path = tmp_path / kind
        code, _, err = call(world, "history", "export", "--format", kind, "-o", str(path))
        assert (code, err) == (0, f"Jobs written to {path}: 20.\n")
        assert path.stat().st_size > 100


def test_upkeep(world: World) -> None:
    assert call(world, "history", "prune", "--keep", "15")[2] == "Records removed: 5.\n"
    assert call(world, "history", "prune", "--before", "1d")[2] == "Records removed: 15.\n"
    assert call(world, "history", "list")[2] == "No jobs found.\n"
    assert call(world, "history", "repair")[2] == "Records written: 0.\n"
    assert call(world, "history", "compact")[2] == "Records put together: 0.\n"
    assert call(world, "history", "prune")[0] == ExitCode.USAGE


def test_the_files_of_ended_jobs(world: World) -> None:
    old = Ended(world)
    forever = Ended(world, keeps_files=True)
    code, out, err = call(world, "history", "prune", "--jobs", "--dry-run")
    assert (code, err) == (0, "Jobs whose files would be removed: 1.\n")
    assert f"{old.key}  {old.application}  would be removed" in out
    assert f"{forever.key}  {forever.application}  stays: its spec says keep: forever" in out
    assert old.is_there
    plain = json.loads(call(world, "history", "prune", "--jobs", "--json")[1])
    assert [each["key"] for each in plain if not each["why_kept"]] == [old.key]
    assert (old.is_there, forever.is_there) == (False, True)
    assert "SUCCEEDED, step 70: all well" in call(world, "status", old.application)[1]
    assert "all well" in call(world, "explain", old.application)[1]
    for wrong in (["--jobs", "--keep", "3"], ["--dry-run"], ["--jobs", "--before", "3d"]):
        assert call(world, "history", "prune", *wrong)[0] == ExitCode.USAGE


def test_usage(world: World, tmp_path: Path) -> None:
    code, out, _ = call(world, "usage", "--by", "queue")
    assert code == 0
    lines = out.splitlines()
    assert len(lines) == 6
    assert lines[1].split()[0].startswith("root.team")
    assert "unknown 0." in out
    _, out, _ = call(world, "usage", "--json")
    rows = json.loads(out)
    assert {row["user"] for row in rows} == {"me"}
    assert sum(row["jobs"] for row in rows) == 20
    path = tmp_path / "usage.parquet"
    assert call(world, "usage", "--parquet", str(path))[0] == 0
    assert path.exists()


def test_use_over_time(world: World, tmp_path: Path) -> None:
    """The jobs of the history took 100 s of four GPUs each, one every ten minutes until T0."""
    world.rm.add("application_1_0001", user="me", queue="root.dl", started_at_s=time.time() - 60)
    period = ("--since", "2023-11-14 00:00", "--until", "2023-11-15 12:00", "--every", "6h")
    _, out, err = call(world, "usage", *period, "--json")
    rows = json.loads(out)
    assert {row["queue"] for row in rows} >= {"root", "root.team0", "root.team0.prod"}
    assert sum(row["used_gpus"] for row in rows if row["queue"] == "root") * 6 * 3600 == (
        pytest.approx(20 * 4 * 90, rel=0.03)
    )
    assert {row["free_gpus"] for row in rows} == {None}, "others' jobs are not counted"
    rows = json.loads(call(world, "usage", *period, "-u", "*", "--json")[1])
    assert all((row["free_gpus"] is None) == (row["queue"] != "root") for row in rows)
    path = tmp_path / "use.parquet"
    assert call(world, "usage", *period, "--parquet", str(path))[0] == 0
    assert parquet.read_table(path).num_rows == len(rows)
    world.rm.failure = Unavailable("no answer from the ResourceManager")
    code, out, err = call(world, "usage", *period)
    assert code == 0
    assert "Only ended jobs count: no answer from the ResourceManager" in err
    assert out.splitlines()[0].split() == ["FROM", "QUEUE", "USED", "IN", "VAIN", "WAITING", "FREE"]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (("--every", "1s"), "more than 2000 intervals"), (("--every", "2d"), "between 0 and 1d00h"),
        (("--every", "0s"), "between 0"), (("--every", "1h", "--by", "user"), "without --by"),
        (("--every", "soon"), "--every"),
    ],
)  # fmt: skip
def test_intervals_that_make_no_sense_are_refused(
    world: World, more: tuple[str, ...], text: str
) -> None:
    code, _, err = call(world, "usage", *more)
    assert code == ExitCode.USAGE
    assert text in err


@pytest.mark.parametrize(
    "arguments",
    [("usage", "--by", "colour"), ("history", "list", "--since", "noon"),
     ("history", "list", "--since", "2026-13-99"), ("history", "show", "nobody")],
)  # fmt: skip
def test_what_makes_no_sense_is_said(world: World, arguments: tuple[str, ...]) -> None:
    code, _, err = call(world, *arguments)
    assert code == ExitCode.USAGE
    assert arguments[-1] in err
