"""``yarnam top`` and ``yarnam debug`` on the real cluster."""

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

PYTHON = """\
import faulthandler, signal, sys, time
faulthandler.register(signal.SIGRTMIN + 9, file=2, all_threads=True)

def train():
    print("trains", flush=True)
    time.sleep(600)

train()
"""
"""As a program that imports yarnam.train."""


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


def test_the_stacks_of_a_running_rank(submit_world: SubmitWorld) -> None:
    spec = submit_world.spec("python", ["python3", "-c", PYTHON])
    application = submit_world.submit(spec)
    try:
        submit_world.await_state(application, "RUNNING")
        deadline = time.monotonic() + LIMIT_S
        while "trains" not in submit_world.run("logs", application, "--rank", "0").out:
            assert time.monotonic() < deadline, "the program prints nothing"
            time.sleep(0.2)
        done = submit_world.run("debug", application, "--rank", "0", "--json")
        assert done.code == 0, done.err
        stacks = done.json["stacks"]
        functions = [frame["function"] for frame in stacks["threads"][-1]["frames"]]
        assert functions == ["train", "<module>"]
        shown = submit_world.run("debug", application, "--rank", "0")
        assert shown.code == 0, shown.err
        assert "  train (<string>:6)" in shown.out
        done = submit_world.run("debug", application, "--rank", "99")
        assert (done.code, "there is no rank 99" in done.err) == (64, True)
        assert submit_world.await_state(application, "RUNNING")["restarts"] == 0
        events = submit_world.run("events", application, "--json").json
        begun = [one for one in events if one["t"] == "SessionBegun"]
        assert [(one["kind"], one["what"]) for one in begun] == [("stacks", "local rank 0")] * 2
    finally:
        submit_world.run("kill", application)
