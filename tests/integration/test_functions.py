"""Python functions, arrays and interrupts on the real cluster."""

from __future__ import annotations

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
