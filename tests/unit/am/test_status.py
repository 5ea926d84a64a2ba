"""What the AM adds to what the gang knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.client.world import job_spec
from yarnam.am.status import addressed, left_out_of, with_suspects
from yarnam.am.turn_taking import waiting_words
from yarnam.model.job import DataInput
from yarnam.model.outcomes import Verdict, VerdictKind
from yarnam.model.status import SizeStatus, SuspectStatus, TurnStatus


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (SizeStatus("worker", 2, 2, 4, 1), "2 of 2 to 4 worker tasks, 1 GPU each"),
        (SizeStatus("worker", 0, 2, 4, 0), "0 of 2 to 4 worker tasks"),
        (
            SizeStatus("worker", 2, 1, 4, 8, 3),
            "2 of 1 to 4 worker tasks, 8 GPUs each; a user wishes for 3",
        ),
    ],
)
def test_a_size_in_words(size: SizeStatus, words: str) -> None:
    assert size.words == words


def test_what_is_left_out_of_the_inputs_is_in_the_status() -> None:
    given = DataInput("set", "/d", skipped=("a", "b"), skipped_share=0.0125)
    job = replace(job_spec(), inputs=(given, DataInput("all", "/e")))
    (told,) = left_out_of(job)
    assert told.words == "2 files are left out of input set as corrupt, 1.250% of it"


def test_a_hint_names_the_job_itself() -> None:
    hint = "Read all of its output with: yarnam logs JOB --task JOB-1"
    verdict = Verdict(VerdictKind.FAILED, 90, "JOB failed", hint)
    told = addressed(verdict, "application_1_0002")
    assert told.hint == ("Read all of its output with: yarnam logs application_1_0002 --task JOB-1")
    assert told.message == "JOB failed"


HEAD = {"head": "application_1_0007", "head_name": "big", "head_gpus": 16}


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (
            TurnStatus(9, 2, **HEAD, reason="r"),  # type: ignore[arg-type]
            "WAITING for its turn (2 ahead, head is big (application_1_0007) needing 16 GPUs): r",
        ),
        (
            TurnStatus(9, 1, head="application_1_0007", reason="r", missing="3 free, 4 wanted"),
            "WAITING for its turn (1 ahead, head is application_1_0007): 3 free, 4 wanted",
        ),
        (
            TurnStatus(9, 0, reason="first in line; expected in 40 s", missing="3 free, 4 wanted"),
            "WAITING for room: first in line; expected in 40 s (3 free, 4 wanted)",
        ),
        (
            TurnStatus(9, 0, reason="the queue is full", missing="3 free, 4 wanted"),
            "WAITING for room: 3 free, 4 wanted",
        ),
        (TurnStatus(9, 0, reason="first in line"), "WAITING for room: first in line"),
    ],
)
def test_a_place_in_the_line_in_words(place: TurnStatus, words: str) -> None:
    assert waiting_words(place) == words


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
