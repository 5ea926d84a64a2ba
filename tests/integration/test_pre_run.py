"""One process of a job is tried in a container of its own before the gang is acquired."""

from __future__ import annotations

import pytest

from hdfs_utils import connect
from tests.integration.fault_world import MARKS, QUICK, FaultWorld
from yarnam.core.model.events import ContainerGranted
from yarnam.core.model.ids import PRE_RUN_ROLE
from yarnam.core.model.job_status import PreRunState, Use
from yarnam.core.model.outcomes import FailureClass, VerdictKind
from yarnam.errors import ExitCode

pytestmark = MARKS

STEPS = """
import os, time
from yarnam import train
assert train.is_pre_run() == (train.world_size() == 1) == ("YARNAM_PRE_RUN" in os.environ)
assert (".pre-run." in train.checkpoint_directory()) == train.is_pre_run()
for step in range(1, 12):
    time.sleep(0.1)
    train.report(step=step, total_steps=11)
assert not train.is_pre_run(), "it ends by itself"
"""
"""It never asks whether it should stop."""


def test_a_failure_of_the_program_costs_one_container(world: FaultWorld) -> None:
    job = world.submit("no-module", ["python3", "-c", "import no_such_module"], pre_run="always")
    verdict = world.end_of(job)
    assert verdict.exit_code == ExitCode.USER_FAILED, verdict
    assert verdict.message.startswith("the pre-run failed: pre-run-0 (rank 0)")
    assert verdict.cause is not None
    assert verdict.cause.finding.failure is FailureClass.IMPORT_ERROR
    granted = {event.ask.role for event in world.events(job, ContainerGranted)}
    assert granted == {PRE_RUN_ROLE}, "nothing of the gang was held"
    world.assert_cleared(job)


@pytest.mark.long
def test_what_has_passed_goes_on_to_the_gang_and_is_not_tried_again(world: FaultWorld) -> None:
    files = connect(conf_dir=str(world.cluster.conf_dir))
    place = files.own_path(f"{world.site.paths.home}/pre-run-checkpoints")
    document = world.document(
        "passes", ["python3", "-c", STEPS], checkpoint={"directory": place},
        pre_run={"mode": "auto", "min_gpus": 2}, gang={"backoff": QUICK},
    )  # fmt: skip
    first = world.client.submit(document)
    world.jobs.append(first)
    assert world.end_of(first).kind is VerdictKind.SUCCEEDED
    status = first.status()
    assert [record.is_pre_run for record in status.history] == [True, False], status.history
    assert status.pre_run is not None
    assert status.pre_run.state is PreRunState.PASSED
    assert status.pre_run.step_s is not None
    assert status.pre_run.step_s >= 0.1
    assert (status.pre_run.peak_memory_mib or 0) > 4
    assert status.ledger is not None
    assert status.ledger.of(Use.PRE_RUN).gpu_s > 0
    assert not files.exists(place) or not files.list(place), "its checkpoints are thrown away"
    planned = world.client.outlook(document).measured
    assert planned is not None, "plan shows what the pre-run has measured"
    assert planned.application == first.id
    assert (planned.step_s or 0.0) >= 0.1
    assert (planned.peak_memory_mib or 0) > 4
    second = world.client.submit(document)
    world.jobs.append(second)
    assert world.end_of(second).kind is VerdictKind.SUCCEEDED
    assert [record.is_pre_run for record in second.status().history] == [False]
    assert second.status().pre_run is None
    world.assert_cleared(second)
