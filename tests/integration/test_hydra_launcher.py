"""A sweep of Hydra's, launched by yarnam, on the real cluster."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.integration.submit_world import SubmitWorld

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs, pytest.mark.long]

PROGRAM = """\
import os
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig


@hydra.main(version_base=None, config_path="conf", config_name="config")
def train(cfg):
    job = HydraConfig.get().job
    text = f"{job.num} {cfg.lr} {cfg.model.depth} {os.environ['YARNAM_JOB_NAME']}"
    (Path(cfg.folder) / str(job.num)).write_text(text)
    if cfg.lr == 13:
        raise ValueError("no such rate")
    return cfg.lr


if __name__ == "__main__":
    train()
"""


def test_a_sweep_is_an_array_of_jobs(submit_world: SubmitWorld, unique_name: Any) -> None:
    """Its files of configuration are on this machine alone; a function that raises fails it."""
    here = submit_world.folder
    (here / "app.py").write_text(PROGRAM)
    (here / "conf" / "model").mkdir(parents=True)
    (here / "conf" / "config.yaml").write_text("defaults: [model: small]\nlr: 1\nfolder: ''\n")
    (here / "conf" / "model" / "small.yaml").write_text("depth: 2\n")
    (here / "conf" / "model" / "large.yaml").write_text("depth: 9\n")
    name = unique_name("sweep")
    spec = {
        "name": name, "queue": submit_world.queue, "gpus": 1, "memory_per_gpu": "'512 MiB'",
        "vcores_per_gpu": 1, "environment.python": sys.executable,
    }  # fmt: skip
    command = [
        *(sys.executable, "app.py", "-m", "hydra/launcher=yarnam", f"folder={here}"),
        *(f"hydra.launcher.conf_dir={submit_world.conf_dir}", "hydra.launcher.calls_per_job=2"),
        *(f"+hydra.launcher.spec.{key}={value}" for key, value in spec.items()),
    ]

    def sweep(*overrides: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *overrides],
            cwd=here,
            env=submit_world.environ,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    done = sweep("lr=1,2", "model=small,large")
    assert done.returncode == 0, done.stderr
    found = sorted((here / str(number)).read_text() for number in range(4))
    assert found == [
        f"0 1 2 {name}-0",
        f"1 1 9 {name}-0",
        f"2 2 2 {name}-1",
        f"3 2 9 {name}-1",
    ]
    failed = sweep("lr=13")
    assert failed.returncode == 1
    assert "no such rate" in failed.stderr
