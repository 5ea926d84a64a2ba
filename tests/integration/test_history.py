"""The records of real jobs, what is listed and added up of them, and what YARN says of the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from tests.integration.fault_world import AM, MARKS, kill_now
from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.model.events import JobStarted
from yarnam.core.model.job_status import Phase, Use

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.long, pytest.mark.timeout(400)]

SHUTDOWN_S = 60.0
"""From the verdict until YARN has taken everything back, on a machine that has much else to do."""

TRAINS = """
import time
from yarnam import train
for step in range(1, 31):
    time.sleep(0.1)
    train.report(step=step, total_steps=30)
"""

YARN_STATES = {"SUCCEEDED": "SUCCEEDED", "FAILED": "FAILED", "CANCELLED": "KILLED"}


@pytest.fixture(scope="module")
def jobs(world: FaultWorld) -> Mapping[str, Job]:
    """One succeeds, one fails, of one the only AM attempt is killed, and one is killed by YARN."""
    once = {"am": {"attempts": 1}}
    found = {
        "trains": world.submit("history-trains", ["python3", "-c", TRAINS]),
        "fails": world.submit("history-fails", "sleep 2; exit 3"),
        "am-lost": world.submit("history-am-lost", "sleep 300", worker={"tasks": 1}, **once),
        "killed": world.submit("history-killed", "sleep 300", worker={"tasks": 1}),
    }
    world.until_phase(found["am-lost"], Phase.RUNNING)
    kill_now(world.am_pid(found["am-lost"], AM))
    world.until_phase(found["killed"], Phase.RUNNING)
    world.client.site.rm.kill(found["killed"].id)
    for job in found.values():
        world.end_of(job)
    return found


def records(world: FaultWorld, jobs: Mapping[str, Job]) -> dict[str, HistoryRecord]:
    return {name: world.client.history.record(job.id) for name, job in jobs.items()}


def first_attempt_s(world: FaultWorld, job: Job) -> float:
    """When YARN started the first ApplicationMaster."""
    attempts = world.rm(f"apps/{job.id}/appattempts")["appAttempts"]["appAttempt"]
    found = attempts if isinstance(attempts, list) else [attempts]
    return min(int(attempt["startTime"]) for attempt in found) / 1000


def test_each_job_has_its_record_and_yarn_agrees(
    world: FaultWorld, jobs: Mapping[str, Job]
) -> None:
    found = records(world, jobs)
    states = {name: one.verdict.kind.value for name, one in found.items()}
    assert states == {
        "trains": "SUCCEEDED", "fails": "FAILED", "am-lost": "FAILED", "killed": "CANCELLED",
    }  # fmt: skip
    assert {name: one.written_by for name, one in found.items()} == {
        "trains": "am", "fails": "am", "am-lost": "client", "killed": "client",
    }  # fmt: skip
    for name, job in jobs.items():
        one, app = found[name], world.rm(f"apps/{job.id}")["app"]
        assert app["finalStatus"] == YARN_STATES[one.verdict.kind.value]
        late_s = app["finishedTime"] / 1000 - one.ended_at_s
        assert -1.0 < late_s < SHUTDOWN_S, name
        assert one.ledger is not None
        wall_s = one.ended_at_s - one.submitted_at_s
        assert one.ledger.wall_s == pytest.approx(wall_s, rel=1e-3)
        # Each task has one core and one GPU; the AM's own core is counted as well.
        am_s = job.record().job.am.resources.vcores * app["elapsedTime"] / 1000
        # A killed AM has not heard of its last grants, nor written down the last seconds. Skein's
        # Java asks for the first containers before the AM's Python has begun to write them down.
        deaf_s = world.events(job, JobStarted)[0].at_s - first_attempt_s(world, job)
        slack = ((8.0 if name == "am-lost" else 4.0) + late_s + deaf_s) * one.gpus
        assert app["vcoreSeconds"] - am_s - slack <= one.ledger.gpu_s, name
        assert one.ledger.gpu_s <= app["vcoreSeconds"] + slack, name
        assert {node.node for run in one.placements for node in run.nodes}
    cause = found["fails"].cause
    assert cause is not None
    assert cause.ended == "exited with code 3"
    trained = found["trains"]
    assert trained.step == 30
    assert trained.ledger is not None
    assert trained.ledger.of(Use.KEPT).wall_s > 1.0
    lost = found["am-lost"].ledger
    assert lost is not None
    assert (lost.of(Use.KEPT).wall_s, lost.of(Use.LOST).wall_s > 0) == (0.0, True)


def test_the_commands_show_and_add_up_the_same(world: FaultWorld, jobs: Mapping[str, Job]) -> None:
    repaired = world.yarnam("history", "repair", "--json").wait()
    assert repaired.code == 0, repaired
    mine = {job.id for job in jobs.values()}
    assert not mine & {row["application"] for row in json.loads(repaired.out)}
    listing = world.yarnam("history", "list", "--name", "history-", "--json").wait()
    assert listing.code == 0, listing
    rows = [row for row in json.loads(listing.out)["jobs"] if row["application"] in mine]
    assert len(rows) == len(jobs)
    world.client.history.compact()
    again = world.yarnam("history", "list", "--name", "history-", "--json").wait()
    assert json.loads(again.out) == json.loads(listing.out)
    usage = world.yarnam("usage", "--name", "history-", "--by", "queue", "--json").wait()
    assert usage.code == 0, usage
    (group,) = json.loads(usage.out)
    total = json.loads(listing.out)["sum"]
    assert group["held_gpu_s"] == pytest.approx(total["held_gpu_s"])
    assert group["jobs"] == total["jobs"] >= len(jobs)
    shown = world.yarnam("history", "show", jobs["fails"].id).wait()
    assert "exited with code 3" in shown.out, shown
    status = world.yarnam("status", jobs["trains"].id).wait()
    assert "ETTR" in status.out, status
