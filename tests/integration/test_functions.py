"""Python functions, arrays and interrupts on the real cluster."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.submit_world import SubmitWorld
from yarnam import Client
from yarnam.client import RemoteTraceback
from yarnam.core.model.events import ContainersMarked
from yarnam.core.model.job_status import JobState

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs]

SPEC: dict[str, Any] = {
    "queue": "root.dl",
    "gpus": 1,
    "memory_per_gpu": "512 MiB",
    "vcores_per_gpu": 1,
    "environment": {"python": sys.executable},
}


@pytest.mark.long
def test_functions_return_and_raise(submit_world: SubmitWorld, unique_name: Any) -> None:
    def invert(x: float) -> dict[str, Any]:
        import os

        return {"value": 1 / x, "rank": os.environ["YARNAM_RANK"]}

    with Client(submit_world.conf_dir) as client:
        run = client.executor({**SPEC, "name": unique_name("fn")})
        found = run.map_array(invert, [4.0, 0.0], idempotency_key=unique_name("key"))
        assert found[0].result(120) == {"value": 0.25, "rank": "0"}
        with pytest.raises(ZeroDivisionError) as caught:
            found[1].result(120)
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert "in invert" in str(caught.value.__cause__)


@pytest.mark.long
def test_an_array_is_submitted_listed_and_interrupted(
    submit_world: SubmitWorld, unique_name: Any
) -> None:
    """Its members stop as for a preemption, start again for free, and then end well."""
    script = submit_world.folder / "member.sh"
    script.write_text(
        "trap 'exit 0' TERM\n"
        "echo index=$YARNAM_ARRAY_INDEX attempt=$YARNAM_ATTEMPT\n"
        "[ $YARNAM_ATTEMPT -gt 1 ] || sleep 100 & wait\n"
    )
    spec = submit_world.spec(
        unique_name("array"), ["bash", "member.sh"], files=[str(script)], retry={"max_restarts": 0}
    )
    with (
        submit_world.start("submit", spec, "--array", "3,7", "--watch") as submit,
        Client(submit_world.conf_dir) as client,
    ):
        deadline = time.monotonic() + 90
        running: list[Any] = []
        while len(running) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.5)
            name = Path(spec).stem
            running = client.jobs(state=JobState.RUNNING, name=name)
        jobs = [client.job(one.application) for one in running]
        array_id = next(
            tag.rpartition("-")[2]
            for tag in client.site.rm.application(jobs[0].id).tags  # type: ignore[union-attr]
            if tag.startswith("yarnam-array-")
        )
        listed = submit_world.run("ps", "--array", array_id, "--json").json
        assert sorted(row["name"][-2:] for row in listed) == ["-3", "-7"]
        for job in jobs:
            job.interrupt()
        assert submit.wait(120) == 0, submit.stderr.read() if submit.stderr else ""
        for job in jobs:
            marks = [one for one in job.events() if isinstance(one, ContainersMarked)]
            assert [one.by for one in marks] == [client.site.user]
            assert job.status().attempt > 1


SWEEP = """\
import subprocess
import sys
import yarnam

conf, queue, name, folder, python = sys.argv[1:]


def note(number: int) -> int:
    from pathlib import Path

    with (Path(folder) / str(number)).open("a") as stream:
        stream.write("x")
    return number * number


with yarnam.Client(conf) as client:
    run = client.executor({
        "name": name, "queue": queue, "gpus": 1, "memory_per_gpu": "512 MiB", "vcores_per_gpu": 1,
        "environment": {"python": python},
    })
    calls = run.map_array(note, range(100), calls_per_job=20, idempotency_key=name)
    for one in calls.array.futures:
        print(one.result().id, flush=True)
    print(sum(calls.results(240)), flush=True)
"""


@pytest.mark.long
def test_a_hundred_calls_and_a_killed_client_run_none_twice(
    submit_world: SubmitWorld, unique_name: Any
) -> None:
    """The client is killed when its first job is submitted, and run again by another one."""
    name = unique_name("sweep")
    folder = submit_world.folder / "ran"
    folder.mkdir()
    program = submit_world.folder / "sweep.py"
    program.write_text(SWEEP)
    command = [
        *(sys.executable, str(program), str(submit_world.conf_dir), submit_world.queue, name),
        *(str(folder), sys.executable),
    ]
    with subprocess.Popen(
        command, env=submit_world.environ, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        submitted = first.stdout.readline().strip()
        first.kill()
    assert submitted.startswith("application_")
    done = subprocess.run(
        command, env=submit_world.environ, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    *jobs, total = done.stdout.split()
    assert int(total) == sum(number * number for number in range(100))
    assert submitted in jobs
    assert len(jobs) == len(set(jobs)) == 5
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        str(number): "x" for number in range(100)
    }
