"""The job page: it has what the status has, and text of others is text on it."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest

from tests.unit.accounting.records import record
from tests.unit.web.html_pages import HOSTILE, Page
from tests.unit.web.job_values import NOW_S, USAGE, cause, everything, running, with_every_text
from yarnam.core.model.job_spec import AdvisedSize
from yarnam.core.model.job_status import FlatLoss, JobState, JobStatus, PredictedEnd, StartForecast
from yarnam.core.model.job_status import WaitQueueStatus as Queue
from yarnam.core.model.metrics import Measured
from yarnam.core.model.outcomes import Verdict, VerdictKind
from yarnam.web.job_page import JobView, job_page, waits_since_s
from yarnam.web.rendering import content_security_policy, number
from yarnam.web.training_series import Series

SERIES = Series("tokens <per> s", ((NOW_S - 20, 1.0), (NOW_S - 10, 3.0), (NOW_S, 2.0)), "1/s")


def page(status: JobStatus, **more: object) -> Page:
    return Page(job_page(replace(JobView(status, NOW_S), **more)))  # type: ignore[arg-type]


def test_a_running_job_shows_what_it_does_and_where() -> None:
    shown = page(
        running(),
        series=(SERIES,),
        step_times={0: 1.0, 1: 1.0, 2: 1.0, 3: 4.0},
        saved_step=400,
        events=((NOW_S, "gang launched"),),
    ).words
    for text in (
        "RUNNING", "all processes run", "root.dl", "ada", "2 of 3", "Step 420 of 1,000, loss 0.5",
        "tokens_per_s", "n3.example", "/rack1", "6-7", "4 nodes in 2 racks", "4 s (slow)",
        "a node was lost", "in progress", "90% of 16m40s was training", "2 GPU hours",
        "of step 400", "bad.example", "CUDA failure", "gang launched", "1 to 3",
        "3.2 cores", "3.0 GiB", "5.0 MiB/s", "97%, 70.0 GiB, 312 W",
    ):  # fmt: skip
        assert text in shown, text


def test_a_waiting_job_says_for_what_and_since_when() -> None:
    start = StartForecast(NOW_S, NOW_S + 600, NOW_S + 1500, NOW_S + 7000)
    waiting = running(
        0, state=JobState.QUEUED, history=(), holdings=(), ledger=None, step=None,
        reason="3 jobs ahead",
        wait_queue=Queue(4, 3, "application_1_1", "big", 64, "", "8 GPUs", start),
    )  # fmt: skip
    shown = page(waiting).words
    assert "For 16m40s, since" in shown
    assert "3 jobs ahead in the wait queue. First is big with 64 GPUs." in shown
    assert "Does not fit now: 8 GPUs" in shown
    assert "Likely to start in 25m00s, 9 in 10 such jobs within 1h56m (if gangs end" in shown


def test_a_wait_begins_with_the_attempt_or_with_the_end_of_the_one_before() -> None:
    waiting = running(state=JobState.ACQUIRING)
    assert waits_since_s(waiting) == NOW_S - 490
    assert waits_since_s(replace(waiting, history=waiting.history[:1])) == NOW_S - 500
    assert waits_since_s(replace(waiting, history=())) == NOW_S - 1000
    assert waits_since_s(running()) is None


def test_a_failed_job_shows_its_verdict_with_the_evidence() -> None:
    verdict = Verdict(VerdictKind.FAILED, 90, "out of memory", "Use less.", NOW_S, cause())
    shown = page(running(state=JobState.FAILED, verdict=verdict))
    for text in (
        "exit code 90", "Use less.", "worker-3, rank 6", "gpu-out-of-memory",
        "CUDA out of memory", "Ruled out: gloo: a later failure", "Then rank 7",
    ):  # fmt: skip
        assert text in shown.words, text
    assert ("main", {"id": "main", "data-live": "no"}) in shown.tags


def test_an_ended_job_shows_where_it_ran() -> None:
    kept = record()
    shown = page(running(0, state=JobState.SUCCEEDED), placements=kept.placements).words
    assert all(node.node in shown for one in kept.placements for node in one.nodes)


def test_text_of_others_never_becomes_markup() -> None:
    plain = everything()
    # The column stands only where a task has ended.
    ended = tuple(replace(task, exit_text="exit code 1") for task in plain.tasks)
    plain = replace(plain, tasks=ended)
    hostile = with_every_text(plain, HOSTILE)
    views = []
    for status in (plain, hostile):
        text = HOSTILE if status is hostile else "t"
        views.append(
            page(
                status,
                series=(Series(text, SERIES.points, text),),
                events=((NOW_S, text),),
                placements=with_every_text(record().placements, text),
            )
        )
    calm, attacked = views
    assert [tag for tag, _ in calm.tags] == [tag for tag, _ in attacked.tags]
    assert [set(found) for _, found in calm.tags] == [set(found) for _, found in attacked.tags]
    assert "alert(1)" in attacked.text
    assert "{{7*7}}" in attacked.text
    assert "\u202e" not in attacked.text
    assert "\x1b" not in attacked.text


@pytest.mark.parametrize("value", [nan, inf, -inf, 1e300, 0.0])
def test_any_number_can_be_shown(value: float) -> None:
    status = running(loss=Measured(value), metrics=(("m", Measured(value)),))
    odd = tuple((name, Measured(value)) for name in USAGE)
    status = replace(status, tasks=(replace(status.tasks[0], usage=odd),))
    assert number(value) in page(status, series=(SERIES,), step_times={0: 1e9}).words


def test_times_beyond_the_calendar_are_shown_as_none() -> None:
    assert "-" in page(running(submitted_at_s=1e20)).words


def test_the_link_to_a_jobs_own_page_is_a_link() -> None:
    for url, count in (("http://rm:8088/proxy/a/", 1), ("javascript:alert(1)", 0), ("", 0)):
        shown = page(running(tracking_url=url), home="/")
        links = [found for tag, found in shown.tags if tag == "a" and found["href"] == url]
        assert len(links) == count
    assert "its own page" not in page(running(tracking_url="http://rm/")).words


def test_tasks_are_in_the_order_in_which_people_count() -> None:
    """Ten comes after nine, in the names of racks as of nodes."""
    status = running(12)
    places = [("/r10", "n1"), ("/r9", "n10.x"), ("/r9", "n9.x"), ("/r9", "n9.x"), ("", "")]
    tasks = [
        replace(task, task=f"named-{number}", rack=rack, node=node)
        for number, ((rack, node), task) in enumerate(zip(places, status.tasks, strict=False))
    ]
    shown = page(replace(status, tasks=tuple(reversed(tasks)))).words
    order = sorted(range(5), key=lambda number: shown.index(f"named-{number}"))
    assert order == [4, 2, 3, 1, 0]


def logs_of(status: JobStatus, **more: object) -> list[str]:
    tags = page(status, **more).tags
    return [found["href"] or "" for tag, found in tags if tag == "a" and "log" in str(found)]


def test_a_task_leads_to_its_containers_logs_on_the_node_where_yarn_says_who_may_read() -> None:
    status = running(1)
    there = replace(status.tasks[0], http_address="n0.example:8042", container="container_e1_1_02")
    status = replace(status, tasks=(there,), user="a/b")
    url = "http://n0.example:8042/node/containerlogs/container_e1_1_02/a%2Fb"
    assert logs_of(status) == [url]
    assert logs_of(status, node_scheme="https") == [url.replace("http", "https", 1)]
    assert logs_of(replace(status, state=JobState.SUCCEEDED)) == []
    for wrong in ("", "n0.example", "evil.example/x?:80", "n0:8042#", "a@evil:80"):
        other = replace(there, http_address=wrong)
        assert logs_of(replace(status, tasks=(other,))) == []
    assert logs_of(replace(status, tasks=(replace(there, container="../x"),))) == []


def test_where_log_text_can_be_read_the_page_leads_to_it() -> None:
    verdict = Verdict(VerdictKind.FAILED, 90, "out of memory", "", NOW_S, cause())
    failed = running(1, state=JobState.FAILED, verdict=verdict)
    assert logs_of(failed, logs="/jobs/a/logs", home="/") == [
        "/jobs/a/logs", "/jobs/a/logs?rank=6", "/jobs/a/logs?rank=0",
    ]  # fmt: skip
    assert "log of rank" not in page(failed).words


def test_every_picture_and_scrolling_table_has_a_name() -> None:
    """For who does not see it, or has no mouse."""
    shown = page(everything(), series=(SERIES,), placements=record().placements)
    for tag, found in shown.tags:
        if tag == "svg":
            assert found.get("aria-label") or found.get("aria-hidden")
        if found.get("class") == "wide":
            assert found["tabindex"] == "0"
            assert found.get("aria-label") or found.get("aria-labelledby")
        if tag == "th":
            assert found["scope"] in {"row", "col"}
    ids = [found["id"] for _, found in shown.tags if "id" in found]
    assert len(ids) == len(set(ids))
    named = {found["aria-labelledby"] for _, found in shown.tags if "aria-labelledby" in found}
    assert named <= set(ids)


def test_nothing_is_loaded_from_anywhere_and_no_style_stands_in_an_element() -> None:
    shown = page(everything(), series=(SERIES,))
    for _, found in shown.tags:
        assert not {"src", "style"} & set(found)
        assert not any(name.startswith("on") for name in found)
        assert not (found.get("href") or "").startswith(("http", "//"))
    policy = content_security_policy()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_predicted_end_and_a_flat_loss_are_shown_while_it_trains() -> None:
    flat = FlatLoss(12_000, 12_000.0, 0.34)
    end = PredictedEnd(8000, NOW_S + 7200.0, is_by_loss=True, flat=flat)
    shown = page(replace(running(), predicted_end=end))
    assert "Expected to end in 2h00m (8000 steps left, by its loss)" in shown.text
    assert "The loss has been flat since step 12000, for 34% of its steps (3h20m)" in shown.text
    over = page(replace(running(), state=JobState.SUCCEEDED, predicted_end=end))
    assert "Expected to end" not in over.text


def test_a_size_by_advice_has_the_predicted_step_beside_the_measured_one() -> None:
    advised = AdvisedSize("4 GPUs in one node", 0.2, 0.15, 0.3).words(0.21)
    shown = page(running(advised=advised)).words
    assert "Size by advice: 4 GPUs in one node; predicted step 0.2 s (0.15 to 0.3)" in shown
    assert "measured 0.21 s" in shown
    assert "Size by advice" not in page(running()).words
