"""XGBoost, LightGBM, Dask, Paddle and Ray for real: the examples, in two agents' processes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.agent_world import World, small_job, world
from tests.integration.framework_venvs import framework_python
from yarnam.core.model.job_spec import EnvironmentSpec, JobSpec
from yarnam.wire.pb import yarnam_pb2 as pb

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
ASKS = ("a1.worker.0", "a1.worker.1")
RUN_S = 400
"""Imports alone take a minute on a busy machine."""

pytestmark = [
    pytest.mark.grpc,
    pytest.mark.asyncio,
    pytest.mark.long,
    pytest.mark.timeout(1500),
]


def framework_job(framework: str, program: Path) -> JobSpec:
    python = EnvironmentSpec(str(framework_python(framework)))
    command = ["python3", str(program)]
    return small_job(command, tasks=2, framework=framework, environment=python)


async def run(here: World, job: JobSpec) -> list[str]:
    """The logs of both tasks, which succeed."""
    for ask in ASKS:
        here.container(job, ask=ask).start()
    for ask in ASKS:
        await here.am.until(ask, pb.READY, limit_s=120)
    await here.am.launch(job, ASKS)
    for ask in ASKS:
        report = await here.am.until(ask, pb.EXITED, limit_s=RUN_S)
        assert report.processes[0].kind == "ok", "\n".join(logs(here))
    return logs(here)


def logs(here: World) -> list[str]:
    return [one.log(index=number).decode() for number, one in enumerate(here.containers)]


@pytest.mark.parametrize("framework", ["xgboost", "lightgbm"])
async def test_trees_are_boosted_by_two_ranks(framework: str, tmp_path: Path) -> None:
    job = framework_job(framework, EXAMPLES / framework / "train.py")
    async with world(tmp_path) as here:
        output = await run(here, job)
    for number, log in enumerate(output):
        assert re.search(rf"rank {number} of 2 has learnt from 71[89] digits", log), log
    (accuracy,) = re.findall(r"test accuracy (0\.\d+)", output[0])
    assert float(accuracy) > 0.9
    assert "test accuracy" not in output[1]


async def test_dasks_workers_in_both_tasks_and_all_end_with_the_program(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        first, second = await run(here, framework_job("dask", EXAMPLES / "dask" / "pi.py"))
    assert "darts of worker-0, worker-1" in first
    assert re.search(r"pi is 3\.14", first)
    assert "pi is" not in second


async def test_paddles_two_ranks_have_the_mean_of_their_gradients(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        output = await run(here, framework_job("paddle", EXAMPLES / "paddle" / "train.py"))
    for number, log in enumerate(output):
        assert f"rank {number} of 2: y = 3.000 x -1.000" in log


async def test_rays_head_and_raylet_work_for_one_program(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        first, _ = await run(here, framework_job("ray", EXAMPLES / "ray" / "pi.py"))
    assert "darts of 2 nodes" in first
    assert re.search(r"pi is 3\.14", first)
    assert not list(Path("/tmp").glob("ray-1_1.*"))
