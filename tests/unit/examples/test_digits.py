"""The digits example without a cluster: the same scripts on local files, as plain processes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DIGITS = Path(__file__).parents[3] / "docs" / "examples" / "digits"
LIMIT_S = 240
XLA_FLAGS = "--xla_backend_optimization_level=0"
"""Nearly all the time of a process goes into compiling: half of it without LLVM's optimizations."""

pytestmark = pytest.mark.slow


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(**more: str) -> dict[str, str]:
    outside = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("YARNAM_", "HADOOP_", "JAX_", "XLA_"))
    }
    return {**outside, "XLA_FLAGS": XLA_FLAGS, **more}


def prepare(target: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, DIGITS / "prepare.py", target],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    target = f"file://{tmp_path_factory.mktemp('data')}/digits"
    done = prepare(target)
    assert done.returncode == 0, done.stderr
    assert "1797 digits in 12 shards" in done.stdout
    return target


def train(data: str, output: Path, processes: int, epochs: int) -> tuple[dict[str, Any], str]:
    """Run the training as that many processes; the result that it wrote, and rank 0's output."""
    port = str(free_port())
    command = [
        *(sys.executable, str(DIGITS / "train.py"), "--data", data),
        *("--output", f"file://{output}", "--epochs", str(epochs)),
    ]
    started = []
    for rank in range(processes):
        # The variables that yarnam gives to a job with `framework: jax`.
        contract = {
            "COORDINATOR_ADDRESS": "127.0.0.1",
            "COORDINATOR_PORT": port,
            "NUM_PROCESSES": str(processes),
            "PROCESS_ID": str(rank),
        }
        started.append(
            subprocess.Popen(
                command,
                env=environment(**contract),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        outputs = [process.communicate(timeout=LIMIT_S)[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert [process.returncode for process in started] == [0] * processes, "\n".join(outputs)
    return json.loads((output / "result.json").read_text()), outputs[0]


@pytest.fixture(scope="module")
def alone(data: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    result, output = train(data, tmp_path_factory.mktemp("alone"), processes=1, epochs=40)
    assert f"test accuracy {result['test_accuracy']:.4f}" in output
    return result


def test_one_process_learns_the_digits(alone: dict[str, Any]) -> None:
    assert alone["test_accuracy"] >= 0.95
    assert alone["losses"][-1] < alone["losses"][0] / 10


@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.parametrize("processes", [2, pytest.param(3, marks=pytest.mark.long)])
def test_more_processes_walk_the_same_curve(
    data: str, alone: dict[str, Any], tmp_path: Path, processes: int
) -> None:
    """Eight shards over two processes divide evenly, over three they do not."""
    epochs = 6
    together, _ = train(data, tmp_path, processes, epochs)
    # Sums in another order: float32 noise only. Another batch would be off in the first epoch.
    assert together["losses"] == pytest.approx(alone["losses"][:epochs], rel=1e-3)


def test_a_run_goes_on_from_its_checkpoint(
    data: str, alone: dict[str, Any], tmp_path: Path
) -> None:
    train(data, tmp_path, processes=1, epochs=3)
    result, output = train(data, tmp_path, processes=1, epochs=6)
    assert "going on from the checkpoint after epoch 3" in output
    assert result["losses"] == pytest.approx(alone["losses"][:6], rel=1e-5)


def test_a_broken_shard_is_named(data: str, tmp_path: Path) -> None:
    broken = tmp_path / "digits"
    source = Path(data.removeprefix("file://"))
    for path in source.rglob("*.*"):
        copy = broken / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    shard = broken / "train" / "003.rec"
    content = shard.read_bytes()
    shard.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(AssertionError, match=r"train/003\.rec: SHA-256 is"):
        train(f"file://{broken}", tmp_path / "output", processes=1, epochs=1)


def test_prepare_twice_is_harmless_and_never_overwrites(data: str, tmp_path: Path) -> None:
    assert "is there already" in prepare(data).stdout
    (tmp_path / "manifest.json").write_text(
        json.dumps({"record_bytes": 65, "train": [], "test": []})
    )
    refused = prepare(f"file://{tmp_path}")
    assert refused.returncode != 0
    assert "holds something else" in refused.stderr
