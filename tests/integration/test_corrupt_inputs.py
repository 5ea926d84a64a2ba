"""A data set with broken files, from the check to the jobs that read it: the real cluster."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.integration.submit_world import SubmitWorld

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs]

FILES, ROWS = 40, 50
BROKEN = {"007.jsonl": "cut", "021.jsonl": "zeros", "033.jsonl": "no bytes"}

TRAIN = """
    import json, sys
    import numpy as np
    import hdfs_utils
    from yarnam import train

    excluded = {uri.rpartition("/")[2] for uri in train.excluded_uris("numbers")}
    fs = hdfs_utils.connect(train.input("numbers"))
    rows = []
    for status in fs.list(train.input("numbers")):
        name = status.path.rpartition("/")[2]
        if name.startswith(".") or name in excluded:
            continue
        lines = fs.read_bytes(status.path).splitlines()
        rows += train.decoded(lines, json.loads, fs.uri + status.path, errors=(ValueError,))
    x = np.array([row["x"] for row in rows])
    y = np.array([row["y"] for row in rows])
    weights = np.zeros(x.shape[1])
    for step in range(200):
        error = 1 / (1 + np.exp(-x @ weights)) - y
        weights -= 0.5 * x.T @ error / len(y)
    accuracy = float(np.mean((x @ weights > 0) == (y > 0.5)))
    train.report(step=200, accuracy=accuracy)
    result = {"rows": len(rows), "accuracy": accuracy, "excluded": sorted(excluded),
              "skipped": train.skipped()}
    fs.write_bytes(train.output_directory() + "/result.json", json.dumps(result).encode())
"""


@pytest.fixture
def world(submit_world: SubmitWorld) -> SubmitWorld:
    return submit_world


@pytest.fixture
def home(world: SubmitWorld, unique_name: Callable[[str], str]) -> Iterator[str]:
    directory = f"/tmp/{unique_name('corrupt-inputs')}"
    yield directory
    world.files.delete(directory, recursive=True)


def rows_of(number: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(number)
    x = rng.normal(size=(ROWS, 4))
    y = (x @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=ROWS) > 0).astype(int)
    return x, y


def content(number: int) -> bytes:
    x, y = rows_of(number)
    rows = ({"x": list(a), "y": int(b)} for a, b in zip(x, y, strict=True))
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def damaged(data: bytes, how: str) -> bytes:
    middle = len(data) // 2
    if how == "cut":
        return data[:middle]
    return b"" if how == "no bytes" else data[:middle] + bytes(500) + data[middle + 500 :]


def accuracy_on_the_clean_subset() -> float:
    """The same training, on the files that are whole, without yarnam."""
    clean = [n for n in range(FILES) if f"{n:03}.jsonl" not in BROKEN]
    parts = [rows_of(number) for number in clean]
    x, y = np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
    weights = np.zeros(4)
    for _ in range(200):
        weights -= 0.5 * x.T @ (1 / (1 + np.exp(-x @ weights)) - y) / len(y)
    return float(np.mean((x @ weights > 0) == (y > 0.5)))


def test_from_the_check_to_the_mended_file(
    world: SubmitWorld, home: str, unique_name: Callable[[str], str]
) -> None:
    data = f"{home}/numbers"
    world.files.mkdirs(data)

    def write(number: int) -> None:
        name = f"{number:03}.jsonl"
        whole = content(number)
        broken = damaged(whole, BROKEN[name]) if name in BROKEN else whole
        world.files.write_bytes(f"{data}/{name}", broken)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, range(FILES)))

    checked = world.run("data", "verify", data, "--add", "--json")
    assert checked.code == 65
    assert {Path(f["path"]).name for f in checked.json["findings"]} == BROKEN.keys()
    assert (checked.json["clean"], checked.json["added"]) == (FILES - 3, 3)

    # A job that does not skip is refused with the list, and nothing is read again.
    given = {"path": data, "name": "numbers"}
    spec = world.spec(unique_name("fails"), "true", data={"inputs": [given]})
    refused = world.run("submit", spec, "--json")
    assert refused.code == 65
    assert "3 files are known to be corrupt" in refused.json["error"]["message"]
    assert all(name in refused.json["error"]["message"] for name in BROKEN)
    few = {**given, "on_corrupt": "skip"}  # 3 of 40 is more than the default of 0.1 %
    spec = world.spec(unique_name("few"), "true", data={"inputs": [few]})
    assert "more than max_skipped" in world.run("submit", spec, "--json").json["error"]["message"]

    # One that skips trains on the rest.
    world.folder.joinpath("train.py").write_text(textwrap.dedent(TRAIN))
    skipping = {**given, "on_corrupt": "skip", "max_skipped": "10 %"}
    name = unique_name("skips")
    spec = world.spec(
        name,
        ["python3", "train.py"],
        files=["train.py"],
        data={"inputs": [skipping], "outputs": f"{home}/out"},
    )
    done = world.run("submit", spec, "--watch")
    assert done.code == 0, done.err
    assert "3 files are excluded" in done.err
    told = world.run("status", name)
    assert "3 files are excluded from input numbers as corrupt, 7.5" in told.out
    result = json.loads(world.files.read_bytes(f"{home}/out/result.json"))
    assert result["excluded"] == sorted(BROKEN)
    assert (result["rows"], result["skipped"]) == ((FILES - 3) * ROWS, 0)
    assert result["accuracy"] == pytest.approx(accuracy_on_the_clean_subset(), abs=0.005)

    # A file that is written again is taken back by itself.
    for name in BROKEN:
        world.files.write_bytes(f"{data}/{name}", content(int(name[:3])), overwrite=True)
    spec = world.spec(unique_name("mended"), "true", data={"inputs": [given]})
    mended = world.run("submit", spec, "--dry-run")
    assert mended.code == 0, mended.err
    assert world.run("blacklist", "ls", data, "--json").json == []
