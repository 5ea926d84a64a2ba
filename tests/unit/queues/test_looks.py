"""When jobs look again."""

from __future__ import annotations

from itertools import pairwise

from yarnam.model.resources import Resources
from yarnam.model.tickets import Demand, MayAsk, Ticket, WaitTurn
from yarnam.queues import look_after_change_s, look_interval_s, second_look_s
from yarnam.queues.looks import FIRST_LOOK_S, LOOK_CAP_S, SECOND_LOOK_S

HEAD = Ticket(1, "j", "n", "root.a", (Demand(Resources(gpus=1), 1),), 0.0)


def test_the_first_in_line_looks_most_often() -> None:
    means = [look_interval_s(WaitTurn(ahead, HEAD, ""), 0.5) for ahead in range(30)]
    assert means[0] == FIRST_LOOK_S
    assert means == sorted(means)
    assert means[-1] == LOOK_CAP_S
    assert look_interval_s(MayAsk(""), 0.5) == FIRST_LOOK_S


def test_looks_are_spread() -> None:
    waiting = WaitTurn(3, HEAD, "")
    least, most = look_interval_s(waiting, 0.0), look_interval_s(waiting, 1.0)
    assert most == 3 * least > 0


def test_a_thousand_waiting_jobs_ask_the_resource_manager_a_few_dozen_times_a_second() -> None:
    rate = sum(1 / look_interval_s(WaitTurn(ahead, HEAD, ""), 0.5) for ahead in range(1000))
    assert rate < 40


def test_the_second_look_comes_within_its_limit() -> None:
    assert second_look_s(0.0) == 0.0
    assert second_look_s(0.999) < SECOND_LOOK_S


def test_after_a_change_those_before_look_before_those_behind() -> None:
    looks = [look_after_change_s(WaitTurn(ahead, HEAD, ""), 0.5) for ahead in range(1, 20)]
    assert looks == sorted(looks)
    assert all(later - sooner >= 0.2 for sooner, later in pairwise(looks))
    assert look_after_change_s(WaitTurn(10**6, HEAD, ""), 0.5) == LOOK_CAP_S
