"""The pages over all jobs and queues."""

from __future__ import annotations

import re
from dataclasses import replace
from html import escape

import pytest

from tests.unit.accounting.records import many, record
from tests.unit.queues.test_waiting import FULL, job, leaf, now, other
from tests.unit.web.html_pages import HOSTILE, Page
from tests.unit.web.job_values import NOW_S, running, with_every_text
from tests.unit.web.large_cluster import large_cluster, made_use
from yarnam.core.accounting.job_summary import summary_of
from yarnam.core.model.job_status import JobState
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Scheduler
from yarnam.core.queues.waiting import why_waiting
from yarnam.web.cluster_pages import (
    ENDED_SHOWN,
    JobFilter,
    JobsView,
    UseView,
    jobs_page,
    problem_page,
    queues_page,
    view_of_record,
)
from yarnam.web.job_page import job_page

ENDED = [summary_of(one) for one in many(8)]
ACTIVE = (
    running(name="one"),
    running(
        name="two",
        application="application_1700000000000_0043",
        user="bob",
        queue="root.other",
        state=JobState.QUEUED,
        step=None,
    ),
)


def jobs(**chosen: str) -> str:
    return Page(jobs_page(JobsView(NOW_S, ACTIVE, ENDED, JobFilter(**chosen)))).words


def test_active_and_ended_jobs_are_listed_and_added_up() -> None:
    shown = jobs()
    assert "Active jobs: 2" in shown
    assert "Ended: 8" in shown
    for text in ("one", "two", "RUNNING", "QUEUED", "step 420 of 1,000, loss 0.5",
                 "train-3", "7 succeeded, 1 failed, 0 cancelled"):  # fmt: skip
        assert text in shown, text


@pytest.mark.parametrize(
    ("chosen", "active", "ended"),
    [
        ({"queue": "root.dl"}, 1, 0), ({"queue": "root.team1"}, 0, 2), ({"queue": "root.te"}, 0, 0),
        ({"user": "bob"}, 1, 0), ({"user": "user1"}, 0, 3), ({"state": "FAILED"}, 0, 1),
        ({"state": "QUEUED", "user": "bob"}, 1, 0), ({"state": "no <such> state"}, 0, 0),
    ],
)  # fmt: skip
def test_jobs_are_filtered(chosen: dict[str, str], active: int, ended: int) -> None:
    shown = jobs(**chosen)
    assert f"Active jobs: {active}" in shown
    assert f"Ended: {ended}" in shown
    assert "All jobs" in shown


def test_of_many_ended_jobs_the_newest_are_listed_and_all_are_counted() -> None:
    found = [summary_of(one) for one in many(ENDED_SHOWN + 50)]
    shown = Page(jobs_page(JobsView(NOW_S, (), found)))
    assert sum(tag == "tr" for tag, _ in shown.tags) == ENDED_SHOWN + 1
    assert f"Ended: {ENDED_SHOWN + 50}" in shown.words
    assert f"The newest {ENDED_SHOWN} are listed." in shown.words


def test_queues_show_shares_and_why_jobs_wait() -> None:
    small = leaf("root.b", maximum=Resources(9000, 9, 4), used=Resources(800, 8, 4))
    waiting = replace(job(), name="wants <more>", since_s=40.0)
    seen = now(leaf(), small, nodes=FULL, jobs=(waiting, other(1)))
    page = queues_page(seen)
    shown = Page(page).words
    for text in ("32 GPUs, 0 free", "Waiting: 1", "Running: 1", "wants <more>", "1m00s", "other"):
        assert text in shown, text
    wait = why_waiting(waiting, seen)
    assert wait.change
    lines = f'data-column="Why, and what would start it">{escape(wait.reason)}\n'
    lines += f"{escape(wait.change)}</td>"
    assert lines in page.decode(), "each on a line of its own"


def test_queues_show_their_use_over_time() -> None:
    seen, use = large_cluster(10, 20), made_use()
    page = queues_page(seen, (), use).decode()
    charts = page[page.index('id="use"') : page.index('id="waiting"')]
    assert charts.count("<figure>") == 1 + len(seen.root.children[0].children)
    assert charts.count('class="limit"') == 1, "of the whole cluster alone it is known"
    assert "root: on average" in charts
    assert "Not counted: 3 ended jobs, the oldest." in charts
    assert 'id="use"' not in queues_page(seen, (), UseView(900.0, {})).decode()
    paths = re.findall(r' d="M([^"]+)"', charts)
    assert all(0 <= float(y) <= 200 for path in paths for y in re.findall(r"\S+ (\S+)", path))


def test_under_the_capacity_scheduler_queues_show_capacities() -> None:
    one = leaf(minimum=Resources(900, 9, 12), user_limit=Resources(700, 7, 6))
    fair = now(one, nodes=FULL)
    capacity = queues_page(replace(fair, scheduler=Scheduler.CAPACITY)).decode()
    assert "the rest of the capacity." in capacity
    assert "fair share" not in capacity.lower()
    titles = ("Used", "Pending", "Capacity", "Max", "One user", "Can take")
    assert "".join(f'<th scope="col" class="n">{title}</th>' for title in titles) in capacity
    row = capacity[capacity.index('class="level1"') :].split("</tr>")[0]
    # Nothing is free on these nodes, and the queue has no maximum of its own.
    amounts = ("0", "0", "12", "-", "6", "0")
    cells = zip(titles, amounts, strict=True)
    shown = (f'<td data-column="{title}" class="n">{amount}</td>' for title, amount in cells)
    assert "".join(shown) in row
    assert "Fair share</th>" in queues_page(fair).decode()


def test_an_ended_job_is_shown_from_its_record() -> None:
    found = record(fails=True)
    view = view_of_record(found, NOW_S, "/")
    assert view.status.state is JobState.FAILED
    assert view.status.holdings == found.holdings
    shown = Page(job_page(view)).words
    assert found.verdict.message.split("\n")[0] in shown
    assert "of step 60" in shown or not found.checkpoint


def test_text_of_others_never_becomes_markup() -> None:
    queues = now(leaf(), jobs=(job(), other(1)))
    hostile = now(
        leaf(), jobs=(replace(job(), name=HOSTILE, user=HOSTILE), replace(other(1), name=HOSTILE))
    )
    ended = [with_every_text(record(), HOSTILE)]
    for calm, attacked in (
        (queues_page(queues), queues_page(hostile)),
        (problem_page("m", "h"), problem_page(HOSTILE, HOSTILE)),
        (
            jobs_page(JobsView(NOW_S, ACTIVE[:1], ENDED[:1], JobFilter("q", "u", "s"), ("t",))),
            jobs_page(
                JobsView(
                    NOW_S,
                    [with_every_text(ACTIVE[0], HOSTILE)],
                    [summary_of(one) for one in ended],
                    JobFilter("q", HOSTILE, HOSTILE),
                    (HOSTILE,),
                )
            ),
        ),
    ):
        tags = [tag for tag, _ in Page(attacked).tags]
        assert set(tags) <= {tag for tag, _ in Page(calm).tags} | {"a"}
        assert tags.count("script") == 1
        assert b"<img" not in attacked
        assert b"\xe2\x80\xae" not in attacked


def test_a_cell_names_its_column_for_a_phone() -> None:
    """There a row stands in lines, without the headings."""
    page = queues_page(now(leaf(), nodes=FULL)).decode()
    for body in re.findall(r"<tbody>(.*?)</tbody>", page, re.DOTALL):
        cells = re.findall(r'<(?:td|th scope="row")[^>]*>', body)
        assert cells
        assert all(re.search(r'data-column="[^"]+"', cell) for cell in cells)
