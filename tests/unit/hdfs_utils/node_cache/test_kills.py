"""Containers killed at random moments: a reader never sees a part, and nothing stays behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hdfs_utils import connect
from hdfs_utils.node_cache import CacheDir, CacheDisk, NodeStore, WantedFile

FILES = 24
SIZE = 150_000

CONTAINER = """
import sys
from pathlib import Path
from hdfs_utils import connect
from hdfs_utils.node_cache import CacheDisk, NodeStore, WantedFile

root, name = Path(sys.argv[1]), sys.argv[2]
fs = connect("file:///")
wanted = []
for path in sorted((root / "source").iterdir()):
    status = fs.stat(str(path))
    wanted.append(WantedFile(str(path), status.length, status.mtime_ms, path.name))
store = NodeStore(
    [CacheDisk(root / "disk" / name, root / "disk" / "yarnam-cache")],
    cache_max_bytes=20 * 150_000, keep_free=0.0, range_bytes=1 << 16,
)
print("begun", flush=True)
# Not all of it fits: what the dead of earlier rounds read has to give way.
store.fetch(fs, wanted[: len(wanted) // 2], is_cached=True)
print("done", flush=True)
"""


def content(number: int) -> bytes:
    return random.Random(number).randbytes(SIZE)


def check(root: Path) -> None:
    """Whatever can be seen under a final name is whole."""
    for held in CacheDir(root / "disk" / "yarnam-cache", keep_free=0.0).everything():
        data = held.path.read_bytes()
        assert any(data == content(number) for number in range(FILES)), held.path
    for path in (root / "disk").glob("c*/part-*"):
        assert path.read_bytes() == content(int(path.name.removeprefix("part-"))), path


def kill_a_pair(root: Path, names: tuple[str, str], after_s: float) -> int:
    """Two containers that want the same; how many had not come to their end."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    pair = [
        subprocess.Popen(
            [sys.executable, str(root / "container.py"), str(root), name],
            env=environment,
            stdout=subprocess.PIPE,
        )
        for name in names
    ]
    for one in pair:
        assert one.stdout is not None
        assert one.stdout.readline() == b"begun\n"
    time.sleep(after_s)
    killed = 0
    for one in pair:
        one.send_signal(signal.SIGKILL)
        assert one.stdout is not None
        killed += b"done" not in one.stdout.read()
        one.wait(10)
        one.stdout.close()
    return killed


def delete_containers(root: Path) -> None:
    """As YARN does; and all files of the input are written again, so the old ones give way."""
    for path in (root / "disk").glob("c*/*"):
        path.unlink()
    for path in (root / "source").iterdir():
        path.touch()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("rounds", [8, pytest.param(200, marks=pytest.mark.chaos)])
def test_kill_minus_nine_while_fetching(tmp_path: Path, rounds: int) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(FILES):
        (source / f"part-{number:02}").write_bytes(content(number))
    (tmp_path / "container.py").write_text(CONTAINER)
    dice = random.Random(rounds)
    killed = 0
    for number in range(rounds):
        names = (f"c{number}-a", f"c{number}-b")
        killed += kill_a_pair(tmp_path, names, dice.uniform(0.0, 0.03))
        check(tmp_path)
        if number % 3 == 2:
            delete_containers(tmp_path)
    assert killed, "every one was done before it was killed: the test shows nothing"
    delete_containers(tmp_path)
    bring_the_rest(tmp_path)


def bring_the_rest(root: Path) -> None:
    """The next container finds a cache that works, and nothing that the dead have left."""
    fs = connect("file:///")
    wanted = []
    for path in sorted((root / "source").iterdir())[: FILES // 2]:
        status = fs.stat(str(path))
        wanted.append(WantedFile(str(path), status.length, status.mtime_ms, path.name))
    place = CacheDisk(root / "disk" / "last", root / "disk" / "yarnam-cache")
    store = NodeStore([place], cache_max_bytes=20 * SIZE, keep_free=0.0)
    found = store.fetch(fs, wanted, is_cached=True)
    for file in wanted:
        assert found[file.target].read_bytes() == Path(file.path).read_bytes()
    for name in ("growing", "claims", "locks"):
        left = list((place.cache / name).iterdir())
        # Drafts are empty, and go after a minute: one may be about to be locked.
        assert all(path.name.startswith(".") and not path.stat().st_size for path in left), left
