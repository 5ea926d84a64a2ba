"""Inputs of a training job: streamed, copied to the nodes, cached there; on the real cluster."""

from __future__ import annotations

import hashlib
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.submit_world import SubmitWorld

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs]

FILES, LINES = 12, 50

Read = Counter[tuple[str, str]]
"""By epoch and line."""

TRAIN = """
from pathlib import Path
from yarnam import train

data = train.inputs("numbers")
for epoch in data.epochs(2):
    for part in epoch:
        if part.path.startswith("/") and Path(part.path).exists():
            lines = Path(part.path).read_text().split()
            where = "here"
        else:
            import hdfs_utils
            lines = hdfs_utils.connect(part.uri).read_bytes(part.uri).decode().split()
            where = "there"
        for line in part.records(lines):
            print("READ", epoch.number, line, where, flush=True)
"""


@pytest.fixture
def world(submit_world: SubmitWorld) -> SubmitWorld:
    return submit_world


@pytest.fixture
def data(world: SubmitWorld, unique_name: Callable[[str], str]) -> Iterator[str]:
    """A directory of numbered lines, each once."""
    directory = f"/tmp/{unique_name('staged-inputs')}"
    content = {f"{directory}/_SUCCESS": b""}
    for number in range(FILES):
        lines = "".join(f"{number}.{line}\n" for line in range(LINES + number))
        content[f"{directory}/{number % 3}/{number:02}.txt"] = lines.encode()
    write_all(world, content)
    yield directory
    world.files.delete(directory, recursive=True)


def write_all(world: SubmitWorld, content: dict[str, bytes]) -> None:
    """At once: each file takes a third of a second, whatever its size."""
    with ThreadPoolExecutor(len(content)) as pool:
        list(pool.map(world.files.write_bytes, content, content.values()))


def everything() -> Read:
    return Counter(
        (epoch, f"{number}.{line}")
        for epoch in "01"
        for number in range(FILES)
        for line in range(LINES + number)
    )


def spec(world: SubmitWorld, name: str, given: dict[str, Any], **more: Any) -> str:
    (world.folder / "train.py").write_text(TRAIN)
    document: dict[str, Any] = {
        "command": ["python3", "train.py"],
        "gpus": None,
        "memory_per_gpu": None,
        "vcores_per_gpu": None,
        "roles": {"worker": {"tasks": 2, "gpus": 1, "memory": "512 MiB", "vcores": 1}},
        "files": ["train.py"],
        "env": {"PYTHONPATH": str(Path(__file__).parents[2])},
        **more,
    }
    command = document.pop("command")
    return world.spec(name, command, data={"inputs": [given]}, **document)


def finished(world: SubmitWorld, application: str) -> dict[str, Any]:
    status = world.await_state(application, "SUCCEEDED", "FAILED", "CANCELLED", limit_s=240.0)
    assert status["state"] == "SUCCEEDED", status["verdict"]
    return status


def what_was_read(
    world: SubmitWorld, application: str
) -> tuple[Counter[tuple[str, str]], set[str]]:
    words = [line.split() for line in world.output(application).splitlines()]
    told = [each[each.index("READ") + 1 :] for each in words if "READ" in each]
    return Counter((epoch, line) for epoch, line, _ in told), {where for _, _, where in told}


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param("stream", marks=pytest.mark.long),
        pytest.param("localize", marks=pytest.mark.shapes),
    ],
)
def test_each_line_is_read_once_an_epoch(world: SubmitWorld, data: str, mode: str) -> None:
    given = {"path": data, "name": "numbers", "mode": mode, "shard": "files"}
    application = world.submit(spec(world, f"read-{mode}", given))
    status = finished(world, application)
    read, where = what_was_read(world, application)
    assert read == everything()
    assert where == ({"here"} if mode == "localize" else {"there"})
    if mode == "stream":
        assert status["staging"] is None
        return
    staging = status["staging"]
    assert (staging["files"], staging["files_done"], staging["cached"]) == (FILES, FILES, 0)
    assert staging["done"] == staging["size"] == size_of(world, data)
    # What was only localized goes with its container.
    assert not left_on_disk(world, application)


@pytest.mark.long
def test_the_second_job_reads_nothing_from_hdfs(world: SubmitWorld, data: str) -> None:
    """Its bytes come from the node's cache, by the agents' own count of what they fetched."""
    given = {"path": f"{data}/*/*.txt", "name": "numbers", "mode": "cache", "shard": "files"}
    node = {"placement": {"include_nodes": [any_node(world)]}}
    first = finished(world, world.submit(spec(world, "cold", given, **node)))
    assert (first["staging"]["cached"], first["staging"]["done"]) == (0, size_of(world, data))
    second = world.submit(spec(world, "warm", given, **node))
    staging = finished(world, second)["staging"]
    assert staging["cached"] == staging["done"] == size_of(world, data)
    read, where = what_was_read(world, second)
    assert read == everything()
    assert where == {"here"}
    shown = world.run("status", second).out
    assert f"inputs on the nodes: {FILES} files" in shown
    assert "from cache" in shown


@pytest.mark.long
def test_an_agent_killed_while_it_fetches_is_replaced(world: SubmitWorld, data: str) -> None:
    """Nobody sees a part of a file; the job goes on."""
    big = random.Random(1).randbytes(1 << 20)
    write_all(world, {f"{data}/big/{number:03}.bin": big for number in range(80)})
    check = (
        "test $(ls -L $YARNAM_LOCAL_INPUTS/numbers | wc -l) = 80 && "
        "test $(cat $YARNAM_LOCAL_INPUTS/numbers/* | wc -c) = $((80 * 1048576)) && "
        "cat $YARNAM_LOCAL_INPUTS/numbers/000.bin | md5sum"
    )
    given = {"path": f"{data}/big", "name": "numbers", "mode": "cache"}
    application = world.submit(spec(world, "killed", given, command=check, files=[]))
    agent = await_fetching(world, application)
    agent.send_signal(signal.SIGKILL)
    status = finished(world, application)
    assert status["restarts"] == 0
    story = world.run("events", application).out
    # In time: nothing ran yet. Whether another container of the attempt takes its place or the
    # next attempt does is up to what other jobs say of the node.
    assert "container failed" in story.partition("all processes started")[0]
    logs = world.run("logs", application).out
    assert logs.count(hashlib.md5(big).hexdigest()) == 2


def test_what_cannot_be_read_is_refused_at_submit(world: SubmitWorld, data: str) -> None:
    cases = [
        ({"path": f"{data}/*.parquet"}, "no file matches"),
        ({"path": f"{data}/0/00.txt", "shard": "files"}, "1 file for 2 processes"),
        ({"path": f"{data}/none"}, f"{data}/none does not exist"),
    ]
    before = world.traces()
    for given, words in cases:
        done = world.run("submit", spec(world, "refused", {"name": "numbers", **given}))
        assert done.code == 65, done.err
        assert words in done.err
    assert world.traces() == before


# ---- looking ------------------------------------------------------------------------------------


def size_of(world: SubmitWorld, data: str) -> int:
    found = world.files.walk(data)
    return sum(each.length for each in found if each.path.endswith(".txt"))


def any_node(world: SubmitWorld) -> str:
    nodes = world.run("nodes", "--json").json
    return str(min(node["node_id"] for node in nodes))


def local_dirs(world: SubmitWorld) -> list[Path]:
    root = world.conf_dir.parent / "data"
    return sorted(root.glob("nm*/local"))


def left_on_disk(world: SubmitWorld, application: str) -> list[Path]:
    deadline = time.monotonic() + 20.0
    while True:
        left = [
            path
            for root in local_dirs(world)
            for path in root.glob(
                f"usercache/*/appcache/{application}/*/yarnam-inputs-own/**/*.txt"
            )
        ]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.5)


def await_fetching(world: SubmitWorld, application: str) -> psutil.Process:
    """An agent of this job that has begun to fetch and has not come to the end."""
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        for root in local_dirs(world):
            growing = list(root.glob("usercache/*/yarnam-cache/growing/*"))
            agents = [p for p in agents_of(application) if str(root) in p.cwd()] if growing else []
            if agents:
                return agents[0]
        time.sleep(0.01)
    raise AssertionError("no agent was seen fetching")


def agents_of(application: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            is_agent = "yarnam.cli.containers.agent_process" in process.cmdline()
            if is_agent and application in process.cwd() and process.parent() is not None:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    # The keeper is its agent's child.
    own = {process.pid for process in found}
    return [process for process in found if process.ppid() not in own]
