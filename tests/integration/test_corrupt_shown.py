"""The care of inputs, on a cluster of its own with two DataNodes: damage of twelve kinds, from the
check to the mended file; and bad blocks under a job that runs."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
import struct
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.integration.replicas import damage_one_replica
from tests.integration.submit_world import SubmitWorld
from tests.unit.hdfs_utils.validation import broken_dataset as breaks
from tests.unit.hdfs_utils.validation import samples
from yarnam.adapters.yarn.addresses import read_settings

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

pytestmark = [
    pytest.mark.yarn,
    pytest.mark.hdfs,
    pytest.mark.slow,
    pytest.mark.chaos,
    pytest.mark.timeout(900),
]

YARNAM = str(Path(sys.executable).parent / "yarnam")
COUNTERS_S = 12.0
"""JMX shows counters at most every 10 s anew (MetricsSourceAdapter)."""
FILES, ROWS, PER_WAY = 300, 40, 3
KINDS = (".jsonl", ".jsonl.gz", ".csv", ".tfrecord", ".npy", ".json.txt")
WAYS: dict[str, tuple[str, breaks.Break]] = {
    "truncated tfrecord": (".tfrecord", lambda data, rng: data[: -rng.randrange(1, 16)]),
    "bit flip in a tfrecord": (".tfrecord", breaks._flip),
    "bad crc of a tfrecord": (".tfrecord", breaks._crc),
    "bit flip in a gzip": (".jsonl.gz", breaks._flip_gzip),
    "truncated gzip": (".jsonl.gz", breaks._cut),
    "zeros in json lines": (".jsonl", breaks._zero_block),
    "broken line of json": (".jsonl", breaks._broken_line),
    "no bytes": (".jsonl", breaks._nothing),
    "lost column": (".csv", breaks._lost_column),
    "bad encoding": (".json.txt", breaks._latin),
    "wrong magic": (".npy", breaks._magic),
    "truncated npy": (".npy", breaks._cut),
}

READ = """
    import csv, gzip, io, json, struct
    import numpy as np

    def rows_of(name, data):
        if name.endswith(".npy"):
            return np.load(io.BytesIO(data)).tolist()
        if name.endswith(".csv"):
            lines = list(csv.reader(io.StringIO(data.decode())))
            return [[float(value) for value in line] for line in lines[1:]]
        if name.endswith(".tfrecord"):
            rows, at = [], 0
            while at < len(data):
                length = struct.unpack_from("<Q", data, at)[0]
                rows.append(json.loads(data[at + 12 : at + 12 + length].rstrip(b" ")))
                at += 16 + length
            return rows
        if name.endswith(".gz"):
            data = gzip.decompress(data)
        return [json.loads(line) for line in data.decode().splitlines()]

    def accuracy(rows):
        table = np.array(rows)
        x, y = table[:, :4], table[:, 4]
        weights = np.zeros(4)
        for _ in range(200):
            weights -= 0.5 * x.T @ (1 / (1 + np.exp(-x @ weights)) - y) / len(y)
        return float(np.mean((x @ weights > 0) == (y > 0.5)))
"""
TRAIN = (
    READ
    + """
    import hdfs_utils
    from yarnam import train

    fs = hdfs_utils.connect(train.input("numbers"))
    excluded = train.excluded_files("numbers", 0)
    rows = []
    for status in fs.list(train.input("numbers")):
        name = status.path.rpartition("/")[2]
        if not name.startswith(".") and name not in excluded:
            rows += rows_of(name, fs.read_bytes(status.path))
    result = {"rows": len(rows), "accuracy": accuracy(rows), "excluded": sorted(excluded)}
    print("RESULT", json.dumps(result))
"""
)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    from yarnam.cluster import EmbeddedCluster
    from yarnam.cluster.cluster_paths import clusters_dir

    state = {**os.environ, "XDG_STATE_HOME": str(tmp_path_factory.mktemp("state"))}
    state["PATH"] = f"{Path(YARNAM).parent}{os.pathsep}{state['PATH']}"
    name = f"corrupt-{os.getpid()}"
    shape = ["--nodes=2", "--racks=1", "--datanodes=2", "--gpus", "simulated", "--quiet"]
    try:
        subprocess.run([YARNAM, "cluster", "up", "--name", name, *shape], env=state, check=True)
        yield EmbeddedCluster(name=name, state_root=clusters_dir(state))
    finally:
        subprocess.run([YARNAM, "cluster", "down", "--name", name], env=state, check=True)


@pytest.fixture
def world(own: EmbeddedCluster, tmp_path: Path) -> SubmitWorld:
    return SubmitWorld(tmp_path, own.environ(), own.conf_dir)


def rows(number: int) -> list[list[float]]:
    rng = np.random.default_rng(number)
    x = rng.normal(size=(ROWS, 4))
    y = (x @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=ROWS) > 0).astype(float)
    return [[*map(float, a), float(b)] for a, b in zip(x, y, strict=True)]


def framed(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + samples.masked(length) + data + samples.masked(data)


def content(kind: str, number: int) -> bytes:
    table = rows(number)
    if kind == ".npy":
        file = io.BytesIO()
        np.save(file, np.array(table))
        return file.getvalue()
    if kind == ".csv":
        text = io.StringIO()
        csv.writer(text).writerows([["a", "b", "c", "d", "y"], *table])
        return text.getvalue().encode()
    if kind == ".tfrecord":
        return b"".join(framed(json.dumps(row).encode()) for row in table)
    lines = "".join(json.dumps(row) + "\n" for row in table).encode()
    return gzip.compress(lines) if kind == ".jsonl.gz" else lines


def bytes_read(cluster: EmbeddedCluster) -> int:
    """By clients, from all DataNodes since they started: as they count themselves."""
    time.sleep(COUNTERS_S)
    total = 0
    confs = sorted(cluster.conf_dir.parent.glob("daemons/dn*/conf"))
    assert len(confs) == 2
    for conf in confs:
        address = read_settings(conf, "hdfs-site.xml")["dfs.datanode.http.address"]
        query = "Hadoop:service=DataNode,name=DataNodeActivity*"
        with urllib.request.urlopen(f"http://{address}/jmx?qry={query}", timeout=10) as told:
            total += sum(int(bean["BytesRead"]) for bean in json.load(told)["beans"])
    return total


def test_twelve_kinds_of_damage_from_the_check_to_the_mended_file(
    own: EmbeddedCluster, world: SubmitWorld
) -> None:
    data, rng = "/data-sets/numbers/v1", random.Random(7)
    plan = [(KINDS[n % len(KINDS)], "") for n in range(FILES - PER_WAY * len(WAYS))]
    plan += [(kind, way) for way, (kind, _) in WAYS.items() for _ in range(PER_WAY)]
    rng.shuffle(plan)
    names = [f"{number:03}{kind}" for number, (kind, _) in enumerate(plan)]
    broken = {name: way for name, (_, way) in zip(names, plan, strict=True) if way}
    whole = {
        name: content(kind, n) for n, (name, (kind, _)) in enumerate(zip(names, plan, strict=True))
    }
    stored = {n: WAYS[broken[n]][1](whole[n], rng) if n in broken else whole[n] for n in names}
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda n: world.files.write_bytes(f"{data}/{n}", stored[n]), names))

    checked = world.run("data", "verify", data, "--add", "--json")
    assert checked.code == 65
    found = {Path(f["path"]).name for f in checked.json["findings"]}
    assert found == broken.keys()  # all of them, and nothing else
    assert checked.json["clean"] == FILES - len(broken)

    size = sum(map(len, stored.values()))
    before = bytes_read(own)
    assert before > size / 2  # the check has read them
    given: dict[str, Any] = {"path": data, "name": "numbers"}
    refused = world.run("submit", world.spec("fails", "true", data={"inputs": [given]}), "--json")
    assert refused.code == 65
    assert f"{len(broken)} files are known to be corrupt" in refused.json["error"]["message"]
    skip = {**given, "on_corrupt": "skip", "max_skipped": "15 %"}
    dry = world.run("submit", world.spec("dry", "true", data={"inputs": [skip]}), "--dry-run")
    assert dry.code == 0, dry.err
    read = bytes_read(own) - before
    print(f"  two submits read {read} bytes, the data have {size}")
    assert read < size / 10

    world.folder.joinpath("train.py").write_text(textwrap.dedent(TRAIN))
    spec = world.spec("skips", ["python3", "train.py"], files=["train.py"], data={"inputs": [skip]})
    done = world.run("submit", spec, "--watch")
    assert done.code == 0, done.out + done.err
    told = world.run("logs", "skips").out
    result = json.loads(told[told.index("RESULT ") + 7 :].splitlines()[0])
    assert result["excluded"] == sorted(broken)
    local: dict[str, Any] = {}
    exec(textwrap.dedent(READ), local)  # the very same training
    clean = [row for name in names if name not in broken for row in rows(int(name[:3]))]
    assert result["rows"] == len(clean)
    assert result["accuracy"] == pytest.approx(local["accuracy"](clean), abs=0.005)
    print(f"  accuracy {result['accuracy']:.4f} without {len(broken)} of {FILES} files")

    for name in broken:
        world.files.write_bytes(f"{data}/{name}", whole[name], overwrite=True)
    mended = world.run(
        "submit", world.spec("mended", "true", data={"inputs": [given]}), "--dry-run"
    )
    assert mended.code == 0, mended.err


LOOP = """
    import os, sys, time
    import hdfs_utils
    from yarnam import train

    fs = hdfs_utils.connect(train.input("numbers"))
    path = train.input("numbers") + "/a.tfrecord"
    for step in range(2000):
        try:
            data = fs.read_bytes(path)
        except Exception as error:
            sys.exit(f"cannot read {path}: {error}")
        train.report(step=step, total_steps=2000)
        if train.should_stop():
            break
        time.sleep(0.2)
"""


def test_bad_blocks_under_a_running_job_are_the_storages_fault(
    own: EmbeddedCluster, world: SubmitWorld
) -> None:
    data = "/data-sets/blocks/v1"
    world.files.mkdirs(data)
    with world.files.open_writer(f"{data}/a.tfrecord", replication=2) as writer:
        writer.write(samples.tfrecord(random.Random(1), [1000] * 500))
    world.folder.joinpath("train.py").write_text(textwrap.dedent(LOOP))
    given = {"path": data, "name": "numbers", "on_corrupt": "skip", "max_skipped": "100 %"}
    spec = world.spec(
        "blocks", ["python3", "train.py"], files=["train.py"], data={"inputs": [given]}
    )
    application = world.submit(spec)
    world.await_state(application, "RUNNING")
    damage_one_replica(own, f"{data}/a.tfrecord", replicas=2)
    step = world.await_state(application, "RUNNING")["step"] or 0
    deadline = time.monotonic() + 60
    while (status := world.await_state(application, "RUNNING"))["step"] < step + 30:
        assert time.monotonic() < deadline, "the job does not go on beside the good replica"
        time.sleep(1)
    assert status["suspects"] == []
    assert world.run("blacklist", "ls", data, "--json").json == []

    # Now all that is left of the block is damaged: the job ends, with the true cause.
    for stored in own.paths.data.glob("hdfs/**/current/**/blk_*"):
        content = stored.read_bytes()
        if stored.suffix != ".meta" and len(content) > 400_000:
            stored.write_bytes(content[:1000] + bytes([content[1000] ^ 1]) + content[1001:])
    status = world.await_state(application, "FAILED", limit_s=120)
    (suspect,) = status["suspects"]
    assert "a.tfrecord cannot be read from HDFS" in status["verdict"]["message"], status["suspects"]
    assert suspect["state"] == "storage"
    states = {e["state"] for e in world.run("blacklist", "ls", data, "--json").json}
    assert "proved" not in states
