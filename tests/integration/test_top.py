"""``yarnam top`` on the real cluster."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.integration.submit_world import SubmitWorld

pytestmark = [
    pytest.mark.yarn,
    pytest.mark.hdfs,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(400),
]

LIMIT_S = 60.0
"""For an agent's first measurement to reach the job's status: it takes some 4 s."""

BUSY = "while [ ! -e stop ]; do i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; done"


def test_what_a_running_job_uses(submit_world: SubmitWorld) -> None:
    spec = submit_world.spec("busy", ["/bin/sh", "-c", BUSY])
    application = submit_world.submit(spec)
    try:
        submit_world.await_state(application, "RUNNING")
        deadline = time.monotonic() + LIMIT_S
        while True:
            found = json.loads(submit_world.run("top", "--once", "--json").out)
            [job] = [one for one in found["jobs"] if one["id"] == application]
            if job["cpu_cores"]:
                break
            assert time.monotonic() < deadline, job
            time.sleep(0.5)
        assert 0.2 < job["cpu_cores"] < 1.5 * len(job["tasks"])
        assert 0 < job["memory_bytes"] < job["memory_limit_bytes"]
        assert job["gpus"] == sum(len(task["gpu_ids"]) for task in job["tasks"]) > 0
        assert job["age_s"] is None
        table = submit_world.run("top", application)
        assert table.code == 0, table.err
        assert f"{job['tasks'][0]['id']} " in table.out
    finally:
        submit_world.run("kill", application)
    done = submit_world.run("top", application)
    assert done.code == 64
    assert "has ended" in done.err
