"""The task in which a session is opened."""

from __future__ import annotations

import pytest

from tests.unit.client.world import status, task
from yarnam.client.monitor.sessions.port_forwarding import PortPair, parse_pair
from yarnam.client.monitor.sessions.task_choice import ChosenTask, all_tasks, choose_task
from yarnam.core.model.job_status import JobState
from yarnam.errors import UsageError

GANG = status(tasks=(task("worker-1", (2, 3)), task("worker-0", (0, 1)), task("ps-0", ())))


@pytest.mark.parametrize(
    ("name", "rank", "chosen"),
    [
        (None, None, ChosenTask("worker-0", "a1.worker-0", 0)),
        ("worker-1", None, ChosenTask("worker-1", "a1.worker-1", 0)),
        (None, 3, ChosenTask("worker-1", "a1.worker-1", 1)),
        ("worker-1", 3, ChosenTask("worker-1", "a1.worker-1", 1)),
    ],
)
def test_chosen(name: str | None, rank: int | None, chosen: ChosenTask) -> None:
    assert choose_task(GANG, name, rank) == chosen


@pytest.mark.parametrize(
    ("name", "rank", "words"),
    [
        ("worker-9", None, "there is no task worker-9"),
        ("ps-0", None, "there is no task ps-0"),
        (None, 4, "there is no rank 4"),
        ("worker-0", 3, "rank 3 is in worker-1, not in worker-0"),
    ],
)
def test_refused(name: str | None, rank: int | None, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        choose_task(GANG, name, rank)


def test_a_job_without_processes_is_refused() -> None:
    waiting = status(JobState.ACQUIRING, tasks=(task("", ()),))
    with pytest.raises(UsageError, match="has no process now: it is ACQUIRING"):
        choose_task(waiting, None, None)
    with pytest.raises(UsageError):
        all_tasks(waiting)


def test_all_in_the_order_of_ranks() -> None:
    assert [one.name for one in all_tasks(GANG)] == ["worker-0", "worker-1"]


@pytest.mark.parametrize(
    ("text", "pair"),
    [("8080:80", (8080, 80)), ("80", (80, 80)), (":80", (0, 80)), ("0:80", (0, 80))],
)
def test_pairs(text: str, pair: tuple[int, int]) -> None:
    assert parse_pair(text) == PortPair(*pair)


@pytest.mark.parametrize("text", ["", ":", "80:", "a:80", "1:2:3", "70000", "1:0", "٣:80", "-1:80"])
def test_nonsense_is_no_pair(text: str) -> None:
    with pytest.raises(UsageError, match="is not a pair of ports"):
        parse_pair(text)
