"""200 random moments of saving and staging, and something dies at each: a rank, all ranks, a
client that puts data, a DataNode, the NameNode; or HDFS goes into safe mode.

No torn checkpoint is ever restored, no partial input is ever there, and the losses of both ranks
are those of one run. ``YARNAM_CHAOS_MOMENTS`` changes how many moments there are, and
``YARNAM_CHAOS_SEED`` plays a run again as far as the machine does.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil
import pytest

import hdfs_utils
from hdfs_utils import FileSystem, checkpoints
from tests.integration.checkpoint_training import SIZE
from tests.integration.hdfs_faults import own_cluster, safe_mode, start

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

pytestmark = [pytest.mark.hdfs, pytest.mark.slow, pytest.mark.chaos, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[2]
TRAINING = [sys.executable, "-m", "tests.integration.checkpoint_training", "gang"]
MOMENTS = int(os.environ.get("YARNAM_CHAOS_MOMENTS", "200"))
FAULTS = {"rank": 35, "gang": 35, "client": 10, "datanode": 8, "namenode": 6, "safe mode": 6}
"""Of a hundred moments."""
PUT_FILES, PUT_BYTES = 12, 200_000
LIMIT_S = 300.0


class Chaos:
    """A training that always runs, and what is done to it."""

    def __init__(self, own: EmbeddedCluster, folder: Path, dice: random.Random) -> None:
        self.own = own
        self.dice = dice
        self.fs: FileSystem = hdfs_utils.connect(conf_dir=str(own.conf_dir), timeout_s=10.0)
        self.home = f"/tmp/chaos-{os.getpid()}"
        self.folder = folder
        self.attempt = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.done: Counter[str] = Counter()
        self.reached: list[int] = []
        self.puts = 0
        self.life_s = 1.0
        self.put_s = 1.0

    def run(self, steps: int = 10**6) -> subprocess.Popen[bytes]:
        """A new attempt of the gang, if none runs."""
        if self.process is not None and self.process.poll() is None:
            return self.process
        self.attempt += 1
        local = self.folder / f"attempt-{self.attempt}"
        local.mkdir()
        command = [*TRAINING, f"{self.home}/checkpoints", str(steps), str(self.attempt), str(local)]
        with (local / "errors").open("wb") as errors:
            self.process = subprocess.Popen(
                command, env=self.own.environ(), cwd=ROOT, stderr=errors, start_new_session=True
            )
        return self.process

    def errors(self) -> str:
        return (self.folder / f"attempt-{self.attempt}" / "errors").read_text()

    def moment(self) -> None:
        fault = self.dice.choices(list(FAULTS), list(FAULTS.values()))[0]
        process = self.run()
        deadline = time.monotonic() + LIMIT_S
        while len(self.ranks()) < 2:
            assert process.poll() is None, self.errors()
            assert time.monotonic() < deadline, "the ranks do not start"
            time.sleep(0.01)
        # The beginning is the restore: some die there too.
        time.sleep(self.dice.uniform(0.0, self.life_s))
        assert process.poll() is None, f"it died by itself before {fault}: {self.errors()}"
        self.done[fault] += 1
        {
            "rank": self.kill_rank,
            "gang": self.kill_gang,
            "client": self.kill_client,
            "datanode": self.kill_data_node,
            "namenode": self.kill_name_node,
            "safe mode": self.enter_safe_mode,
        }[fault]()

    def ranks(self) -> list[psutil.Process]:
        """Those that live."""
        assert self.process is not None
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self.process.pid).children()
        return []

    def measure(self) -> None:
        """What a restore and a few saves take now: the machine may be busy."""
        began = time.monotonic()
        found = checkpoints.latest(
            f"{self.home}/checkpoints", fs=self.fs, report=lambda _skipped: None
        )
        process = self.run((found.step if found else 0) + 4)
        assert process.wait(LIMIT_S) == 0, self.errors()
        self.life_s = time.monotonic() - began
        began = time.monotonic()
        target = self.put(LIMIT_S)
        self.put_s = time.monotonic() - began
        assert self.is_whole(target)

    def kill_rank(self) -> None:
        """The other one is ended then, as an agent would."""
        assert self.process is not None
        with contextlib.suppress(psutil.NoSuchProcess):
            self.dice.choice(self.ranks()).kill()
        self.process.wait(LIMIT_S)

    def kill_gang(self) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(LIMIT_S)

    def put(self, lasts_s: float) -> str:
        """A client puts a tree, and is killed after so long; gives the target."""
        self.puts += 1
        source, target = self.folder / "tree", f"{self.home}/input-{self.puts}"
        if not source.exists():
            source.mkdir()
            for number in range(PUT_FILES):
                (source / f"part-{number}").write_bytes(bytes([number]) * PUT_BYTES)
        yarnam = [sys.executable, "-m", "yarnam", "data", "put", str(source), target]
        with subprocess.Popen(
            yarnam, env=self.own.environ(), cwd=ROOT, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as client:  # fmt: skip
            with contextlib.suppress(subprocess.TimeoutExpired):
                client.wait(lasts_s)
            client.kill()
        return target

    def is_whole(self, target: str) -> bool:
        """False: it is not there; anything else would be part of it."""
        if not self.fs.exists(target):
            return False
        found = {s.path.rpartition("/")[2]: s.length for s in self.fs.list(target)}
        parts = {name: size for name, size in found.items() if name.startswith("part-")}
        assert parts == {f"part-{n}": PUT_BYTES for n in range(PUT_FILES)}, "a part of an input"
        return True

    def kill_client(self) -> None:
        """It is there whole, or not at all."""
        target = self.put(self.dice.uniform(0.1, 1.2) * self.put_s)
        self.done["client, too late"] += self.is_whole(target)

    def kill_data_node(self) -> None:
        name = self.dice.choice([one for one in self.own.plan.daemons if one.startswith("dn")])
        self.own.daemon(name).kill()
        time.sleep(self.dice.uniform(0.0, 2.0))
        start(self.own, name)

    def kill_name_node(self) -> None:
        self.own.daemon("nn").kill()
        time.sleep(self.dice.uniform(0.0, 2.0))
        start(self.own, "nn")

    def enter_safe_mode(self) -> None:
        safe_mode(self.own, "enter")
        try:
            time.sleep(self.dice.uniform(0.0, 4.0))
        finally:
            safe_mode(self.own, "leave")

    def note(self) -> None:
        """Between two moments: the newest checkpoint never goes back."""
        found = checkpoints.latest(
            f"{self.home}/checkpoints", fs=self.fs, report=lambda _skipped: None
        )
        self.reached.append(found.step if found else 0)

    def finish(self) -> tuple[int, list[list[float]]]:
        """One attempt runs to its end."""
        self.kill_gang_if_any()
        self.note()
        total = self.reached[-1] + 3
        process = self.run(total)
        assert process.wait(LIMIT_S) == 0, self.errors()
        local = self.folder / f"attempt-{self.attempt}"
        return total, [json.loads((local / f"losses-{r}.json").read_text()) for r in range(2)]

    def kill_gang_if_any(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill_gang()


def reference(rank: int, steps: int) -> list[float]:
    half = SIZE // 2
    mine = slice(rank * half, (rank + 1) * half)
    target = np.linspace(-1, 1, SIZE)[mine]
    weights, losses = np.zeros(half), []
    for step in range(steps):
        noise = np.random.default_rng(step).normal(size=SIZE)[mine] * 0.01
        gradient = weights - target + noise
        losses.append(float(np.square(gradient).mean()))
        weights = weights - 0.05 * gradient
    return losses


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with own_cluster(f"chaos-{os.getpid()}", tmp_path_factory.mktemp("state")) as started:
        yield started


def test_at_random_moments(own: EmbeddedCluster, tmp_path: Path) -> None:
    seed = int(os.environ.get("YARNAM_CHAOS_SEED", random.randrange(10**6)))
    print(f"seed {seed}")
    chaos = Chaos(own, tmp_path, random.Random(seed))
    try:
        for number in range(MOMENTS):
            if number % 25 == 0:
                chaos.kill_gang_if_any()
                chaos.measure()
            chaos.moment()
            if number % 10 == 9:
                chaos.note()
        total, losses = chaos.finish()
    finally:
        chaos.kill_gang_if_any()
    print(f"{chaos.attempt} attempts, {dict(chaos.done)}, steps reached {chaos.reached}", end="; ")
    print(f"{total} steps, each moment within {chaos.life_s:.1f} s of a start")
    assert losses == [reference(rank, total) for rank in range(2)]
    assert chaos.reached == sorted(chaos.reached), "a whole checkpoint was lost"
    assert total > MOMENTS // 10, "it hardly got anywhere: the kills hit nothing but the start"
    names = [
        status.path.rpartition("/")[2] for status in chaos.fs.list(f"{chaos.home}/checkpoints")
    ]
    assert not [name for name in names if name.startswith("corrupt-")], "a kill corrupts nothing"
