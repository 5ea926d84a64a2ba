"""The examples and the tutorial's jobs, as their reader types them, on the real cluster."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from hdfs_utils import checkpoints, connect
from tests.unit.docs.pages import blocks
from tests.unit.docs.test_code_blocks import TUTORIAL

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
YARNAM = str(Path(sys.executable).with_name("yarnam"))
JOB_S = 240

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs, pytest.mark.usefixtures("no_leftovers")]

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(cluster_env: dict[str, str]) -> Run:
    def run(*command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=cwd,
            env=cluster_env,
            capture_output=True,
            text=True,
            timeout=JOB_S,
            check=False,
        )

    return run


def submit(run: Run, spec: Path, name: str) -> str:
    """Submit, follow to the end; returns what all processes printed."""
    done = run(YARNAM, "submit", "--watch", "--name", name, str(spec))
    assert done.returncode == 0, done.stdout + done.stderr
    logs = run(YARNAM, "logs", name)
    assert logs.returncode == 0, logs.stderr
    return logs.stdout


def digits_spec(folder: Path, root: str) -> Path:
    """The example's spec with places of its own on HDFS."""
    plain = yaml.safe_load((EXAMPLES / "digits" / "spec.yaml").read_text())
    plain["code"] = str(EXAMPLES / "digits")
    plain["data"]["inputs"][0]["path"] = f"{root}/data"
    plain["data"]["outputs"]["path"] = f"{root}/output"
    plain["checkpoint"]["directory"] = f"{root}/checkpoints"
    spec = folder / "spec.yaml"
    spec.write_text(yaml.safe_dump(plain))
    return spec


@pytest.mark.slow
@pytest.mark.timeout(2 * JOB_S)
@pytest.mark.long
def test_the_digits_are_learnt_by_four_processes_on_two_nodes(
    run: Run, cluster: EmbeddedCluster, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    name = unique_name("digits")
    root = f"/test/{name}"
    storage = connect(cluster.namenode_uri, conf_dir=str(cluster.conf_dir))
    prepared = run(sys.executable, str(EXAMPLES / "digits" / "prepare.py"), f"hdfs://{root}/data")
    assert prepared.returncode == 0, prepared.stderr
    spec = digits_spec(tmp_path, root)

    output = submit(run, spec, name)
    assert "test accuracy" in output
    result = json.loads(storage.read_bytes(f"{root}/output/result.json"))
    assert result["processes"] == 4
    assert result["test_accuracy"] >= 0.95
    ranks = {int(rank) for rank in re.findall(r"^worker-\d\[(\d)\]", output, re.MULTILINE)}
    assert ranks == {0, 1, 2, 3}

    saved = checkpoints.latest(f"{cluster.namenode_uri}{root}/checkpoints", fs=storage)
    assert saved is not None
    assert saved.step == 240

    # Submitted again, it goes on from there: nothing is left to train.
    again = submit(run, spec, f"{name}-again")
    assert "going on from the checkpoint after epoch 40" in again
    second = json.loads(storage.read_bytes(f"{root}/output/result.json"))
    assert second["test_accuracy"] == result["test_accuracy"]

    # One process alone, on the same data: the same within noise.
    alone = run(
        *(sys.executable, str(EXAMPLES / "digits" / "train.py")),
        *("--data", f"hdfs://{root}/data", "--output", f"hdfs://{root}/alone"),
    )
    assert alone.returncode == 0, alone.stderr
    single = json.loads(storage.read_bytes(f"{root}/alone/result.json"))
    assert single["processes"] == 1
    assert result["losses"] == pytest.approx(single["losses"], rel=1e-2)
    assert abs(single["test_accuracy"] - result["test_accuracy"]) <= 3 / 357


@pytest.mark.long
def test_the_tutorials_jobs(run: Run, unique_name: Callable[[str], str], tmp_path: Path) -> None:
    files = [block for block in blocks("yaml", "python", pages=[TUTORIAL]) if block.file]
    assert [block.file for block in files] == ["job.yaml", "train.py", "job.yaml"]
    first, script, second = files
    spec = tmp_path / "job.yaml"
    spec.write_text(first.text)
    output = submit(run, spec, unique_name("first"))
    assert [f"worker-{rank}[{rank}]: rank {rank} of 3" in output for rank in range(3)] == [True] * 3

    (tmp_path / "train.py").write_text(script.text)
    spec.write_text(second.text)
    output = submit(run, spec, unique_name("second"))
    assert "worker-0[0]: step 60: 4 processes" in output

    spec.write_text(second.text.replace("gpus: 2", "gpus: 9"))
    refused = run(YARNAM, "submit", "--dry-run", str(spec))
    assert refused.returncode == 91
    assert "9 GPUs" in refused.stderr
