"""mpirun in one task, and its helpers in the others through their launch daemons: real agents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.integration.agent_world import World, small_job, world
from tests.integration.framework_venvs import framework_python
from yarnam.core.model.job_spec import EnvironmentSpec, JobSpec
from yarnam.wire.pb import yarnam_pb2 as pb

pytestmark = [pytest.mark.grpc, pytest.mark.asyncio]

MPIRUN = """\
#!/bin/bash
# Its helper on every host of the file, all at once; the worst exit code is its own.
while read -r host slots; do "$OMPI_MCA_plm_rsh_agent" "$host" "$@" & helpers+=($!); done \\
  < "$OMPI_MCA_orte_default_hostfile"
for helper in "${helpers[@]}"; do wait "$helper" || code=$?; done
exit ${code:-0}
"""
ASKS = ("a1.worker.0", "a1.worker.1")


def mpi_job(command: Sequence[str], **changes: Any) -> JobSpec:
    return small_job(command, tasks=2, framework="mpi", **changes)


async def launched(here: World, job: JobSpec, **changes: Any) -> None:
    for ask in ASKS:
        here.container(job, ask=ask, **changes).start()
    for ask in ASKS:
        await here.am.until(ask, pb.READY, limit_s=60)
    await here.am.launch(job, ASKS)


async def ended_well(here: World) -> list[str]:
    """Logs of both tasks."""
    for ask in ASKS:
        report = await here.am.until(ask, pb.EXITED, limit_s=120)
        assert report.processes[0].kind == "ok", logs(here)
    return logs(here)


def logs(here: World) -> list[str]:
    return [
        container.log(index=number).decode() for number, container in enumerate(here.containers)
    ]


@pytest.fixture
def mpirun(tmp_path: Path) -> str:
    path = tmp_path / "mpirun"
    path.write_text(MPIRUN)
    path.chmod(0o755)
    return str(path)


async def test_every_task_runs_its_helper_and_all_end_with_mpirun(
    mpirun: str, tmp_path: Path
) -> None:
    async with world(tmp_path) as here:
        job = mpi_job([mpirun, "echo", "'helper  of'", "$YARNAM_ROLE-$YARNAM_TASK_INDEX"])
        await launched(here, job)
        output = await ended_well(here)
    assert output == ["helper  of worker-0\n", "helper  of worker-1\n"]


async def test_the_code_of_a_helper_is_mpiruns_and_the_others_wait_for_the_stop(
    mpirun: str, tmp_path: Path
) -> None:
    async with world(tmp_path) as here:
        job = mpi_job([mpirun, "exit", "$YARNAM_TASK_INDEX"])
        await launched(here, job)
        report = await here.am.until(ASKS[0], pb.EXITED, limit_s=60)
        assert (report.processes[0].kind, report.processes[0].code) == ("non-zero", 1)
        other = here.containers[1]
        assert other.user_processes(), "its launch daemon serves still"
        stop = pb.Stop(attempt=1, grace_s=10, reason="the gang stops")
        await here.am.mailbox.order(ASKS[1], stop=stop)
        await here.am.until(ASKS[1], pb.EXITED)
        assert not other.user_processes()


EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "mpi" / "pi.py"


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", ["openmpi", "mpich"])
async def test_the_example_runs_with_a_real_mpi(kind: str, tmp_path: Path) -> None:
    python = framework_python(kind)
    job = mpi_job(
        ["mpirun", "python3", "-m", "mpi4py", str(EXAMPLE)],
        gpus=2,
        environment=EnvironmentSpec(str(python)),
    )
    async with world(tmp_path) as here:
        await launched(here, job, env={"YARNAM_NODE_GPUS": "sim:0,1,2,3"})
        output, _ = await ended_well(here)
    for rank in range(4):
        assert f"rank {rank} of 4 has added 0.78539" in output
    assert "pi is 3.1415926536" in output
