"""Inputs found to be corrupt while a job runs: the real cluster."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hdfs_utils.blacklist.locations import OPEN_DIRECTORY, OPEN_PERMISSION
from tests.integration.submit_world import SubmitWorld
from tests.unit.hdfs_utils.validation import samples

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
FILES = 20
PROVED, COMPLAINED, PICKY = "03.tfrecord", "07.tfrecord", "11.tfrecord"

TRAIN = f"""
    import json, os, time
    import hdfs_utils
    from yarnam import train

    fs = hdfs_utils.connect(train.input("numbers"))
    out = os.environ["REPORTS"]
    for epoch in range(200):
        excluded = sorted(train.excluded_files("numbers", epoch))
        told = {{"rank": train.rank(), "epoch": epoch, "excluded": excluded, "at_s": time.time()}}
        fs.write_atomic(f"{{out}}/{{epoch:03}}-{{train.rank()}}.json", json.dumps(told).encode())
        if train.rank() == 1 and epoch == 1:
            train.skip(train.input("numbers") + "/{COMPLAINED}", 1, "ValueError: bad checksum")
            train.skip(train.input("numbers") + "/{PICKY}", 4, "ValueError: not my taste")
        train.report(step=epoch, total_steps=200)
        if {{"{PROVED}", "{COMPLAINED}"}} <= set(excluded) and "{PICKY}" not in excluded:
            break
        time.sleep(0.5)
    else:
        raise SystemExit("never left out")
"""


HOSTILE = """
    import sys
    import hdfs_utils
    from hdfs_utils.blacklist import encode
    from hdfs_utils.blacklist.locations import open_directory
    from tests.unit.hdfs_utils.blacklist.makers import claim, entry

    prefix, path = sys.argv[1:]
    claims = [claim(job=f"job{n}") for n in range(4000)]
    fs = hdfs_utils.connect()
    files = [
        b"[" * 3000, b'{"yarnam-blacklist": 1, "entries": ' + b"[" * 9999, b"\\xff",
        encode([entry(path, length=7)]).replace(b": 7", b": 1e400"),
        *(encode([entry(f"{path}.{n}", *claims)]) for n in range(12)),
    ]
    for number, content in enumerate(files):
        fs.write_bytes(f"{open_directory()}/{prefix}-{number}.json", content)
"""


@pytest.fixture
def hostile(
    world: SubmitWorld, unique_name: Callable[[str], str]
) -> Iterator[Callable[[str], None]]:
    """Another user, who may write nothing but the open place; fills it with entries about a
    path."""
    places = []
    world.files.mkdirs(OPEN_DIRECTORY)
    world.files.chmod(OPEN_DIRECTORY, OPEN_PERMISSION)

    def write(path: str) -> None:
        places.append(unique_name("hostile"))
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(HOSTILE), places[-1], path],
            env={**world.environ, "HADOOP_USER_NAME": "mallory", "PYTHONPATH": str(ROOT)},
            check=True,
            timeout=120,
        )

    yield write
    for status in world.files.list(OPEN_DIRECTORY):
        if any(f"/{place}-" in status.path for place in places):
            world.files.delete(status.path)


@pytest.fixture
def world(submit_world: SubmitWorld) -> SubmitWorld:
    return submit_world


@pytest.fixture
def data(world: SubmitWorld, unique_name: Callable[[str], str]) -> Iterator[str]:
    """Twenty files, two of them with a changed byte that nobody knows of yet."""
    home = f"/tmp/{unique_name('running-inputs')}"
    rng = random.Random(1)

    def write(name: str) -> None:
        content = bytearray(samples.tfrecord(rng, [400] * 5))
        if name in (PROVED, COMPLAINED):
            content[600] ^= 1
        world.files.write_bytes(f"{home}/numbers/{name}", bytes(content))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, [f"{n:02}.tfrecord" for n in range(FILES)]))
    yield f"{home}/numbers"
    world.files.delete(home, recursive=True)


def reports(world: SubmitWorld, place: str) -> dict[int, dict[int, dict[str, Any]]]:
    """By epoch and rank."""
    found: dict[int, dict[int, dict[str, Any]]] = {}
    for status in world.files.list(place):
        if not status.path.endswith(".json"):
            continue  # being written
        told = json.loads(world.files.read_bytes(status.path))
        found.setdefault(told["epoch"], {})[told["rank"]] = told
    return found


@pytest.mark.long
def test_a_running_job_learns_leaves_out_and_looks_into_complaints(
    world: SubmitWorld,
    data: str,
    unique_name: Callable[[str], str],
    hostile: Callable[[str], None],
) -> None:
    """Whatever others leave in the open place of the blacklist, before the submit and then."""
    hostile(data)
    place = f"{data.rpartition('/')[0]}/reports"
    world.files.mkdirs(place)
    world.folder.joinpath("train.py").write_text(textwrap.dedent(TRAIN))
    name = unique_name("epochs")
    spec = world.spec(
        name,
        ["python3", "train.py"],
        gpus=2,
        files=["train.py"],
        env={"REPORTS": place},
        placement={"strategy": "spread"},
        data={"inputs": [{"path": data, "name": "numbers", "on_corrupt": "skip",
                          "max_skipped": "20 %"}]},
    )  # fmt: skip
    application = world.submit(spec)
    world.await_state(application, "RUNNING")
    while len(reports(world, place)) < 2:
        time.sleep(0.2)

    hostile(f"{data}/{PROVED}")
    # Somebody else proves a file; the job hears of it within seconds.
    said_s = time.time()
    assert world.run("data", "verify", f"{data}/{PROVED}", "--add").code == 65
    status = world.await_state(application, "SUCCEEDED", "FAILED", limit_s=90)
    assert status["state"] == "SUCCEEDED", status

    told = reports(world, place)
    lists = {
        epoch: {tuple(t["excluded"]) for t in by_rank.values()} for epoch, by_rank in told.items()
    }
    assert {epoch: found for epoch, found in lists.items() if len(found) > 1} == {}
    assert {len(by_rank) for by_rank in told.values()} == {2}
    assert lists[0] == {()}
    assert lists[max(lists)] == {(PROVED, COMPLAINED)}
    first = min(t["at_s"] for e in told.values() for t in e.values() if PROVED in t["excluded"])
    assert first - said_s < 20, "heard of after more than 20 s"

    suspects = {Path(s["path"]).name: s for s in status["suspects"]}
    assert suspects[COMPLAINED]["state"] == "proved"
    assert suspects[PICKY]["state"] == "cleared"
    assert "seen on" in suspects[COMPLAINED]["why"]
    assert (status["excluded_files"][0]["files"], status["excluded_files"][0]["later"]) == (2, 0)
    words = world.run("status", application).out
    assert "2 files are excluded from input numbers as corrupt, 10.000% of it, in epoch" in words
    assert f"{COMPLAINED} is corrupt: the checksum of the record's data does not fit" in words
    listed = world.run("blacklist", "ls", data, "--json").json
    assert {Path(e["path"]).name: e["state"] for e in listed if e["state"] != "cleared"} == {
        PROVED: "proved",
        COMPLAINED: "proved",
    }

    # The next one is refused at submit, with the list.
    spec = world.spec(unique_name("fails"), "true", data={"inputs": [{"path": data}]})
    refused = world.run("submit", spec, "--json")
    assert refused.code == 65
    assert "2 files are known to be corrupt" in refused.json["error"]["message"]


@pytest.mark.long
def test_a_crash_that_names_its_input_is_looked_into_before_the_verdict(
    world: SubmitWorld, data: str, unique_name: Callable[[str], str]
) -> None:
    code = """
        import sys
        from yarnam import train
        sys.exit("DataLossError: corrupted record at 600 in " + train.input("numbers") + "/%s")
    """
    world.folder.joinpath("train.py").write_text(textwrap.dedent(code) % COMPLAINED)
    spec = world.spec(
        unique_name("crash"),
        ["python3", "train.py"],
        files=["train.py"],
        data={"inputs": [{"path": data, "name": "numbers", "on_corrupt": "skip"}]},
        retry={"max_restarts": 0},
    )
    done = world.run("submit", spec, "--watch")
    assert done.code == 90
    assert f"{data}/{COMPLAINED} is corrupt: the checksum" in done.out
    (entry,) = world.run("blacklist", "ls", data, "--json").json
    assert (Path(entry["path"]).name, entry["state"]) == (COMPLAINED, "proved")


@pytest.mark.long
def test_proof_ends_a_job_whose_policy_is_to_fail(
    world: SubmitWorld, data: str, unique_name: Callable[[str], str]
) -> None:
    spec = world.spec(
        unique_name("fails"),
        ["/bin/sh", "-c", "sleep 100"],
        data={"inputs": [{"path": data, "name": "numbers"}]},
    )
    application = world.submit(spec)
    world.await_state(application, "RUNNING")
    assert world.run("data", "verify", f"{data}/{PROVED}", "--add").code == 65
    status = world.await_state(application, "FAILED", limit_s=60)
    assert status["verdict"]["exit_code"] == 65
    assert "input 'numbers': 1 file is known to be corrupt" in status["verdict"]["message"]
    assert PROVED in status["verdict"]["message"]
