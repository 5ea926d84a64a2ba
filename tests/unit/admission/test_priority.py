"""Priority within a queue, and aging."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from yarnam.core.admission.wait_queue import PRIORITY_STEP_S, by_priority
from yarnam.core.model.resources import Resources
from yarnam.core.model.tickets import Demand, Ticket

NOW_S = 100_000.0


def ticket(number: int, priority: int = 0, waited_s: float = 0.0, queue: str = "root.a") -> Ticket:
    demands = (Demand(Resources(1024, 1, 1), 1),)
    return Ticket(
        number, f"job{number}", "name", queue, demands, NOW_S - waited_s, priority=priority
    )


def order(*tickets: Ticket, now_s: float = NOW_S) -> list[int]:
    return [one.number for one in by_priority(tickets, now_s)]


def test_the_higher_goes_first_and_those_alike_stay_as_they_were() -> None:
    assert order(ticket(2), ticket(1), ticket(4, 1), ticket(3, -1)) == [4, 2, 1, 3]


def test_where_nobody_asks_for_more_nothing_changes() -> None:
    line = [ticket(3, 5), ticket(1, 5, 90_000.0), ticket(2, -1, queue="root.b")]
    assert order(*line) == [3, 1, 2]


def test_waiting_raises_a_job_step_by_step() -> None:
    late, early = ticket(2, 2), ticket(1)
    for steps, expected in ((0.0, [2, 1]), (1.9, [2, 1]), (2.0, [1, 2]), (9.0, [1, 2])):
        assert order(replace(early, taken_at_s=NOW_S - steps * PRIORITY_STEP_S), late) == expected


def test_waiting_never_raises_above_the_highest_that_was_asked_for() -> None:
    """Else the order among jobs that have waited long would be by age alone."""
    assert order(ticket(2, 1), ticket(1, 0, 50_000.0)) == [2, 1]


def test_a_queue_gains_no_place_by_the_priorities_of_its_jobs() -> None:
    line = [
        ticket(1, queue="root.b"),
        ticket(2),
        ticket(3, queue="root.b"),
        ticket(4, 10),
    ]
    assert order(*line) == [1, 4, 3, 2]


def test_a_clock_that_is_ahead_counts_as_just_come() -> None:
    assert order(ticket(1, 0, -500.0), ticket(2, 1)) == [2, 1]


JOBS = st.lists(
    st.tuples(st.integers(-10, 10), st.sampled_from(["root.a", "root.b"]), st.floats(0, 30_000)),
    min_size=1,
    max_size=12,
)


@given(JOBS)
def test_nobody_is_lost_and_nobody_starves(jobs: list[tuple[int, str, float]]) -> None:
    line = [ticket(n, p, waited_s, queue) for n, (p, queue, waited_s) in enumerate(jobs, 1)]
    seen = by_priority(line, NOW_S)
    assert sorted(one.number for one in seen) == [one.number for one in line]
    assert [one.queue for one in seen] == [one.queue for one in line], "queues keep their places"
    # Who has waited for the whole range is passed by nobody that it was before.
    place = {one.number: index for index, one in enumerate(seen)}
    for first in line:
        for second in line:
            is_before = first.queue == second.queue and first.number < second.number
            if is_before and NOW_S - first.taken_at_s >= 20 * PRIORITY_STEP_S:
                assert place[first.number] < place[second.number]
