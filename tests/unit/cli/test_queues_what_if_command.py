"""``yarnam queues what-if``, as its user sees it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.fakes.cluster_view import cluster
from tests.unit.accounting.records import many
from tests.unit.cli.terminal import in_pipes
from tests.unit.client.world import World
from yarnam.adapters.hdfs.history_store import HistoryStore
from yarnam.cli.shell import Shell, run
from yarnam.client.planning.snapshot_file import save_snapshot
from yarnam.errors import ExitCode

QUEUES = """<allocations><defaultQueueSchedulingPolicy>drf</defaultQueueSchedulingPolicy>
<queue name="a"><maxResources>memory-mb=9999999,vcores=9999,yarn.io/gpu={}</maxResources></queue>
<queue name="b"/></allocations>"""

SITE = "<configuration></configuration>"


def trace(jobs: int) -> str:
    """Jobs of 8 GPUs for ten minutes, two a minute, in two queues; the last one never ran."""
    rows = [
        {
            "status": "Pass", "vc": "ab"[number % 2], "jobid": f"j{number}", "user": "ada",
            "submitted_time": f"2026-01-01 10:{number // 2:02}:00",
            "attempts": [
                {"start_time": "2026-01-01 12:00:00", "end_time": "2026-01-01 12:10:00",
                 "detail": [{"ip": "n1", "gpus": [f"gpu{one}" for one in range(8)]}]}
            ] if number < jobs - 1 else [],
        }
        for number in range(jobs)
    ]  # fmt: skip
    return json.dumps(rows)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "old.xml").write_text(QUEUES.format(16))
    (tmp_path / "new.xml").write_text(QUEUES.format(8))
    (tmp_path / "trace.json").write_text(trace(13))
    for name in ("core-site.xml", "yarn-site.xml"):
        (tmp_path / name).write_text(SITE)
    save_snapshot(cluster(nodes=4, gpus=8), str(tmp_path / "cluster.json"))
    return tmp_path


def what_if(files: Path, *more: str) -> tuple[int, str, str]:
    arguments = (
        "queues", "what-if", "--allocation", str(files / "new.xml"), "--baseline",
        str(files / "old.xml"), "--trace", str(files / "trace.json"), "--cluster",
        str(files / "cluster.json"), "--site", str(files), *more,
    )  # fmt: skip
    with in_pipes() as (out, err):
        code = run(arguments, Shell(no_cluster))
    return code, out.content, err.content


def no_cluster(**_: object) -> object:
    raise AssertionError("nothing here needs a cluster")


def test_a_smaller_maximum_makes_its_queue_wait(files: Path) -> None:
    code, out, err = what_if(files, "--plot", str(files / "out.svg"))
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0] == "12 jobs, submitted within 5m00s, simulated on 32 GPUs"
    assert lines[1] == "Each figure: with old.xml -> with new.xml"
    assert [line.split()[:2] for line in lines[3:]] == [["root.a", "6"], ["root.b", "6"],
                                                       ["all", "12"]]  # fmt: skip
    assert "->" in lines[3]
    picture = ET.parse(files / "out.svg").getroot()
    texts = [one.text for one in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"old.xml", "new.xml", "root.a", "root.b", "Mean wait"} <= set(texts)


def test_a_long_name_does_not_run_into_the_bars(files: Path) -> None:
    long = "a-team-with-a-name-that-is-much-longer-than-others"
    for name in ("old.xml", "new.xml"):
        text = (files / name).read_text()
        (files / name).write_text(text.replace('name="b"', f'name="{long}"'))
    jobs = (files / "trace.json").read_text()
    (files / "trace.json").write_text(jobs.replace('"vc": "b"', f'"vc": "{long}"'))
    code, _, err = what_if(files, "--plot", str(files / "out.svg"))
    assert code == 0, err
    picture = ET.parse(files / "out.svg").getroot()
    svg = "{http://www.w3.org/2000/svg}"
    texts = {one.text: int(one.get("x", "")) for one in picture.iter(f"{svg}text")}
    ends = texts[f"root.{long}"] + 6 * len(f"root.{long}")
    assert ends < texts["Mean wait"]
    assert texts["Gangs preempted"] + 200 < float(picture.get("width", ""))


def test_json_has_both_sides_of_each_queue(files: Path) -> None:
    code, out, _ = what_if(files, "--json")
    assert code == 0
    found = json.loads(out)
    rows = {row["queue"]: row for row in found["queues"]}
    assert set(rows) == {"root.a", "root.b", "all"}
    before, after = rows["root.a"]["before"], rows["root.a"]["after"]
    # Six gangs of 8 GPUs for ten minutes: two at a time, and one at a time. The last
    # comes after five.
    assert 880.0 < before["wait_max_s"] < 1050.0
    assert 2680.0 < after["wait_max_s"] < 3000.0
    assert before["gpu_hours"] == pytest.approx(8.0, rel=0.03)
    assert rows["root.b"]["after"]["wait_mean_s"] <= rows["root.b"]["before"]["wait_mean_s"]


def test_jobs_of_a_queue_that_is_gone_are_refused(files: Path) -> None:
    (files / "new.xml").write_text(QUEUES.format(16).replace('name="b"', 'name="c"'))
    code, out, _ = what_if(files)
    assert code == 0
    assert out.splitlines()[-1] == (
        "With new.xml, 6 jobs of root.b could not be submitted: the queue takes no jobs, or no "
        "node can hold one of their tasks."
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[", "not JSON"),
        ("{}", "an array of jobs is expected"),
        ('[{"vc": 5, "attempts": []}]', "job 1 has no `vc`"),
        ('[{"vc": "a", "attempts": [], "submitted_time": "noon"}]', "no `submitted_time`"),
        ("[]", "there is no job to simulate"),
    ],
)
def test_what_is_no_trace_is_a_usage_error(files: Path, content: str, words: str) -> None:
    (files / "trace.json").write_text(content)
    code, _, err = what_if(files)
    assert code == ExitCode.USAGE
    assert words in err


def test_the_history_is_taken_where_no_trace_is_named(files: Path, tmp_path: Path) -> None:
    world = World(tmp_path / "world")
    store = HistoryStore(world.files, world.site.paths.history)
    for one in many(4):
        store.put(replace(one, user="me", queue="root.b"))
    arguments = (
        "queues", "what-if", "--allocation", str(files / "new.xml"), "--baseline",
        str(files / "old.xml"), "--cluster", str(files / "cluster.json"), "--site", str(files),
        "--user", "me", "--json",
    )  # fmt: skip
    with in_pipes() as (out, err):
        code = run(arguments, Shell(lambda **_: world.client))
    assert code == 0, err.content
    found = json.loads(out.content)
    assert found["jobs"] == 4
    # Two tasks of two GPUs for 90 s each.
    assert found["queues"][0]["after"]["gpu_hours"] == pytest.approx(0.4, rel=0.2)
