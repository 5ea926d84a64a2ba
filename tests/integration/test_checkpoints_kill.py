"""kill -9 of real processes while they save: no torn checkpoint is ever restored."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import hdfs_utils
from tests.integration.checkpoint_training import train

ROOT = Path(__file__).parents[2]
TRAINING = [sys.executable, "-m", "tests.integration.checkpoint_training"]
LIMIT_S = 120.0


@pytest.mark.parametrize("kills", [50, pytest.param(200, marks=pytest.mark.long)])
def test_killed_on_a_local_disk_the_losses_are_those_of_one_run(tmp_path: Path, kills: int) -> None:
    seed = random.randrange(10**6)
    command = [*TRAINING, "kill-many", f"file://{tmp_path}/c", str(kills), str(seed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, f"seed {seed}: {done.stderr}"
    found = json.loads(done.stdout)
    assert found["losses"] == found["reference"]
    assert found["reached"] == sorted(found["reached"]), "a checkpoint was lost"
    assert found["reached"][-1] > kills / 10, "the kills hit nothing but the start"
    assert not found["aside"], "a kill does not corrupt a checkpoint"
    # What was left half done is cleared away by those who come after.
    left = [path.name for path in (tmp_path / "c").iterdir() if path.name.startswith("step-")]
    assert len(left) == 2


def killed_on_hdfs(env: dict[str, str], home: str, kills: int, life_s: float) -> None:
    last, attempt = 0, 0
    for _ in range(kills):
        attempt += 1
        how = ["background"] if attempt % 2 else []
        command = [*TRAINING, home, "1000000", str(attempt), *how]
        with subprocess.Popen(command, env=env, cwd=ROOT, stderr=subprocess.PIPE) as process:
            time.sleep(random.uniform(0.2, life_s))
            assert process.poll() is None, process.stderr and process.stderr.read().decode()
            process.kill()
    done = subprocess.run(
        [*TRAINING, home, "1", str(attempt + 1)],
        env=env, cwd=ROOT, capture_output=True, text=True, check=True, timeout=LIMIT_S,
    )  # fmt: skip
    last = len(json.loads(done.stdout))
    assert last > 0
    total = last + 2
    done = subprocess.run(
        [*TRAINING, home, str(total), str(attempt + 2)],
        env=env, cwd=ROOT, capture_output=True, text=True, check=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert "corrupt" not in done.stderr
    assert json.loads(done.stdout) == reference(total)


def reference(steps: int) -> list[float]:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        return train(f"file://{directory}/c", steps, 1)


@pytest.fixture
def home(cluster_env: dict[str, str], unique_name: Callable[[str], str]) -> str:
    return f"/tmp/{unique_name('checkpoints')}"


@pytest.mark.hdfs
def test_killed_on_hdfs(cluster_env: dict[str, str], home: str) -> None:
    try:
        killed_on_hdfs(cluster_env, home, kills=3, life_s=3.0)
    finally:
        hdfs_utils.connect(conf_dir=cluster_env["HADOOP_CONF_DIR"]).delete(home, recursive=True)


@pytest.mark.hdfs
@pytest.mark.chaos
@pytest.mark.slow
def test_killed_often_on_hdfs(cluster_env: dict[str, str], home: str) -> None:
    try:
        killed_on_hdfs(cluster_env, home, kills=40, life_s=3.0)
    finally:
        hdfs_utils.connect(conf_dir=cluster_env["HADOOP_CONF_DIR"]).delete(home, recursive=True)
