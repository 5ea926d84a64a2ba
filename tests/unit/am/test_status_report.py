"""What the AM adds to what the gang knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.client.world import job_spec
from tests.unit.client.world import status as world_status
from yarnam.am import status_report
from yarnam.am.status_report import addressed, excluded_files_of, with_suspects
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_spec import DataInput
from yarnam.core.model.job_status import SizeStatus, SuspectStatus, TaskStatus, WaitQueueStatus
from yarnam.core.model.metrics import AgentMetrics, Measured
from yarnam.core.model.outcomes import Verdict, VerdictKind
from yarnam.core.queue_client.wait_status import waiting_text


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (SizeStatus("worker", 2, 2, 4, 1), "2 of 2 to 4 worker tasks, 1 GPU each"),
        (SizeStatus("worker", 0, 2, 4, 0), "0 of 2 to 4 worker tasks"),
        (
            SizeStatus("worker", 2, 1, 4, 8, 3),
            "2 of 1 to 4 worker tasks, 8 GPUs each; a user asked for 3",
        ),
    ],
)
def test_a_size_in_words(size: SizeStatus, words: str) -> None:
    assert size.words == words


def test_what_is_excluded_files_of_the_inputs_is_in_the_status() -> None:
    given = DataInput("set", "/d", skipped=("a", "b"), skipped_share=0.0125)
    job = replace(job_spec(), inputs=(given, DataInput("all", "/e")))
    (told,) = excluded_files_of(job)
    assert told.words == "2 files are excluded from input set as corrupt, 1.250% of it"


def test_a_hint_names_the_job_itself() -> None:
    hint = "Read all of its output with: yarnam logs JOB --task JOB-1"
    verdict = Verdict(VerdictKind.FAILED, 90, "JOB failed", hint)
    told = addressed(verdict, "application_1_0002")
    assert told.hint == ("Read all of its output with: yarnam logs application_1_0002 --task JOB-1")
    assert told.message == "JOB failed"


def test_what_agents_measure_is_added_up_and_is_no_metric_of_the_program() -> None:
    ask = AskId(1, "worker", 0)

    def report(rank: int, step: int | None, **values: float) -> AgentMetrics:
        given = tuple((name, Measured(value)) for name, value in values.items())
        return AgentMetrics(ask, rank, 1.0, step, None, given)

    shown = TaskStatus("worker-0", str(ask), "started", ranks=(0, 1))
    found = [
        report(0, None, cpu_cores=1.0, gpu_percent=90.0),
        report(1, 7, cpu_cores=2.0, gpu_percent=30.0, loss=0.5),
    ]
    task = status_report._measured(shown, {one.rank: one for one in found})
    assert dict(task.usage) == {"cpu_cores": 3.0, "gpu_percent": 60.0}
    assert (task.step, task.loss, dict(task.metrics)) == (7, 0.5, {"loss": 0.5})
    job = status_report._measured_job(world_status(), found)
    assert (job.step, dict(job.metrics)) == (7, {"loss": 0.5})
    assert status_report._measured_job(world_status(), found[:1]).step is None


HEAD = {"head": "application_1_0007", "head_name": "big", "head_gpus": 16}


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (
            WaitQueueStatus(9, 2, **HEAD, reason="r"),  # type: ignore[arg-type]
            "waiting behind 2 jobs (big (application_1_0007) needs 16 GPUs): r",
        ),
        (
            WaitQueueStatus(
                9, 1, head="application_1_0007", reason="r", missing="3 free, 4 wanted"
            ),
            "waiting behind 1 job (application_1_0007 is first): 3 free, 4 wanted",
        ),
        (
            WaitQueueStatus(
                9, 0, reason="first in the queue (expected in 40 s)", missing="3 free, 4 wanted"
            ),
            "waiting for free GPUs: first in the queue (expected in 40 s): 3 free, 4 wanted",
        ),
        (
            WaitQueueStatus(9, 0, reason="the queue is full", missing="3 free, 4 wanted"),
            "waiting for free GPUs: 3 free, 4 wanted",
        ),
        (
            WaitQueueStatus(9, 0, reason="first in the queue"),
            "waiting for free GPUs: first in the queue",
        ),
    ],
)
def test_a_place_in_the_queue_as_text(place: WaitQueueStatus, words: str) -> None:
    assert waiting_text(place) == words


def test_a_failed_jobs_verdict_names_the_inputs_that_were_found_corrupt() -> None:
    suspects = [
        SuspectStatus("/d/a.npy", "proved", "cut; seen on n1 and n2"),
        SuspectStatus("/d/b.npy", "cleared", "nothing wrong"),
        SuspectStatus("/d/c.npy", "storage", "no replica"),
    ]
    failed = Verdict(VerdictKind.FAILED, 90, "worker-0 exited with code 1")
    assert with_suspects(failed, suspects).message == (
        "worker-0 exited with code 1\n"
        "/d/a.npy is corrupt: cut; seen on n1 and n2\n"
        "/d/c.npy cannot be read from HDFS: no replica"
    )
    many = [SuspectStatus(f"/d/{n}", "proved") for n in range(15)]
    assert with_suspects(failed, many).message.endswith("and 5 more inputs")
    well = Verdict(VerdictKind.SUCCEEDED, 0, "all well")
    assert with_suspects(well, suspects) == well
