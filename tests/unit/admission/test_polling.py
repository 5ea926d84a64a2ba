"""When jobs poll again."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from yarnam.core.admission.polling import (
    CONFIRM_WITHIN_S,
    FIRST_POLL_S,
    OWN_POLL_EVERY,
    POLL_CAP_S,
    PollHistory,
    accepted_age_s,
    confirm_delay_s,
    may_confirm,
    poll_after_change_s,
    poll_interval_s,
)
from yarnam.core.model.resources import Resources
from yarnam.core.model.tickets import Demand, MustWait, Ticket

HEAD = Ticket(1, "j", "n", "root.a", (Demand(Resources(gpus=1), 1),), 0.0)


def test_the_first_in_the_queue_polls_most_often() -> None:
    means = [poll_interval_s(MustWait(ahead, HEAD, ""), 0.5) for ahead in range(30)]
    assert means[0] == FIRST_POLL_S
    assert means == sorted(means)
    assert means[-1] == POLL_CAP_S


def test_polls_are_spread() -> None:
    waiting = MustWait(3, HEAD, "")
    least, most = poll_interval_s(waiting, 0.0), poll_interval_s(waiting, 1.0)
    assert most == 3 * least > 0


def test_a_thousand_waiting_jobs_ask_the_resource_manager_a_few_dozen_times_a_second() -> None:
    rate = sum(1 / poll_interval_s(MustWait(ahead, HEAD, ""), 0.5) for ahead in range(1000))
    assert rate < 40


def test_the_second_poll_comes_within_its_limit() -> None:
    assert confirm_delay_s(0.0) == 0.0
    assert confirm_delay_s(0.999) < CONFIRM_WITHIN_S


def test_after_a_change_those_ahead_poll_before_those_behind() -> None:
    polls = [poll_after_change_s(MustWait(ahead, HEAD, ""), 0.5) for ahead in range(1, 20)]
    assert polls == sorted(polls)
    assert all(later - sooner >= 0.2 for sooner, later in pairwise(polls))
    assert poll_after_change_s(MustWait(10**6, HEAD, ""), 0.5) == POLL_CAP_S


# ---- snapshots that other jobs have taken --------------------------------------------------------


def behind(ahead: int) -> MustWait:
    return MustWait(ahead, HEAD, "")


def own_poll(ahead: int, at_s: float = 1000.0, u: float = 0.5) -> PollHistory:
    return PollHistory().after_own_poll(behind(ahead), at_s, u)


def test_the_first_in_the_queue_always_asks_itself() -> None:
    assert accepted_age_s(own_poll(0), behind(0), 1000.0) == 0.0
    # Also one that only another job's snapshot puts behind others: it may be forged.
    assert accepted_age_s(own_poll(0), behind(50), 1000.0) == 0.0


def test_those_behind_take_a_snapshot_as_old_as_their_polls_are_apart() -> None:
    ages = [accepted_age_s(own_poll(ahead), behind(ahead), 1000.0) for ahead in range(1, 40)]
    assert ages == [poll_interval_s(behind(ahead), 0.5) for ahead in range(1, 40)]


def test_a_job_without_an_own_poll_begins_with_one() -> None:
    assert accepted_age_s(PollHistory(), behind(9), 1000.0) == 0.0


def test_now_and_then_each_job_asks_itself_spread_in_time() -> None:
    """A forged snapshot delays a job by so much at most."""
    every_s = OWN_POLL_EVERY * FIRST_POLL_S * 4
    for u in (0.0, 0.5, 0.9):
        history, due_s = own_poll(3, u=u), 1000.0 + every_s * (0.5 + u)
        assert accepted_age_s(history, behind(3), due_s - 0.1) > 0
        assert accepted_age_s(history, behind(3), due_s + 0.1) == 0.0


def test_a_thousand_waiting_jobs_ask_less_than_once_a_second_beside_the_first() -> None:
    own = [OWN_POLL_EVERY * FIRST_POLL_S * (1 + ahead) for ahead in range(1, 1000)]
    assert sum(1 / every_s for every_s in own) < 0.4


def test_room_that_was_not_there_is_asked_for_ever_more_rarely() -> None:
    history = own_poll(1)
    assert may_confirm(history, behind(1), 1000.0)
    pauses = []
    for times in range(1, 5):
        history = replace(history, unconfirmed=times)
        pauses.append(next(s for s in range(1000) if may_confirm(history, behind(1), 1000.0 + s)))
    assert pauses == [8, 16, 32, 64]
