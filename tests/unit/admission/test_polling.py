"""When jobs poll again."""

from __future__ import annotations

from itertools import pairwise

from yarnam.core.admission.polling import (
    CONFIRM_WITHIN_S,
    FIRST_POLL_S,
    POLL_CAP_S,
    confirm_delay_s,
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
