"""When a job waits for the tickets of others no longer."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.admission.test_admit import ticket
from yarnam.core.admission.delay_limit import (
    IDLE_LIMIT_S,
    MOST_HEADS,
    RESERVED_LIMIT_S,
    SPREAD_S,
    Delay,
)
from yarnam.core.model.tickets import MustWait, Ticket

BEHIND = MustWait(1, ticket(1, 1, 8), "the free GPUs are needed by the jobs ahead of it")
RESERVED = MustWait(1, ticket(1, 1, 8), "nodes are reserved", is_reserved=True)


def kept(turn: MustWait, since_s: float, until_s: float, delay: Delay | None = None) -> Delay:
    """By such an answer at every poll, one in 45 s."""
    delay, at_s = delay or Delay(), since_s
    while at_s < until_s:
        delay = delay.after(turn, at_s, fits=True)
        at_s += 45.0
    return delay.after(turn, until_s, fits=True)


def mine(number: int) -> Ticket:
    return ticket(number, 1, 4)


def test_idle_gpus_are_left_to_others_for_three_minutes() -> None:
    assert not kept(BEHIND, 0.0, IDLE_LIMIT_S - 1.0).is_over(mine(1), BEHIND)
    assert kept(BEHIND, 0.0, IDLE_LIMIT_S + SPREAD_S).is_over(mine(1), BEHIND)


def test_reserved_nodes_are_left_to_the_head_for_a_day() -> None:
    assert not kept(RESERVED, 0.0, RESERVED_LIMIT_S - 1.0).is_over(mine(1), RESERVED)
    assert kept(RESERVED, 0.0, RESERVED_LIMIT_S + SPREAD_S).is_over(mine(1), RESERVED)


def test_a_reservation_that_has_just_ended_is_not_held_against_the_head() -> None:
    """It has its nodes after an hour, and asks in the next seconds."""
    delay = kept(RESERVED, 0.0, 3600.0)
    delay = delay.after(BEHIND, 3601.0, fits=True)
    assert not delay.is_over(mine(1), BEHIND)


def test_a_head_that_never_asks_does_not_begin_anew() -> None:
    """Its GPUs are used by others from time to time."""
    delay, at_s, rounds = Delay(), 0.0, 0
    while not delay.is_over(mine(1), RESERVED):
        assert rounds < 12
        rounds += 1
        delay = delay.after(BEHIND, at_s, fits=False)
        for turn in (BEHIND, BEHIND, RESERVED, RESERVED):
            delay, at_s = delay.after(turn, at_s, fits=True), at_s + 20.0
    # 20 s of each of the first six rounds, until it is doubted; then all of it counts.
    assert rounds > 4
    # It counts against that head alone, and only while the GPUs are idle.
    other = replace(BEHIND, head=ticket(9, 1, 8))
    again = delay.after(other, at_s + 1.0, fits=True)
    assert not again.is_over(mine(1), other)
    assert not delay.after(BEHIND, at_s, fits=False).is_over(mine(1), BEHIND)


def test_heads_without_number_are_not_all_remembered() -> None:
    delay = Delay()
    for number in range(3000):
        head = replace(BEHIND, head=ticket(number, 1, 8))
        delay = delay.after(head, float(number) / 100, fits=True)
    assert len(delay.idle_behind) == MOST_HEADS


def test_who_alternates_between_both_gains_the_longer_limit_at_most() -> None:
    delay, at_s = Delay(), 0.0
    while at_s < RESERVED_LIMIT_S + SPREAD_S:
        head = ticket(int(at_s), 1, 8)  # and is another one each time
        turn = replace(RESERVED if int(at_s / 90.0) % 2 else BEHIND, head=head)
        delay, at_s = delay.after(turn, at_s, fits=True), at_s + 45.0
    assert delay.after(BEHIND, at_s, fits=True).is_over(mine(1), BEHIND)


def test_gpus_that_are_used_meanwhile_are_no_delay() -> None:
    delay = kept(BEHIND, 0.0, IDLE_LIMIT_S - 1.0).after(BEHIND, IDLE_LIMIT_S, fits=False)
    assert not delay.is_over(mine(1), BEHIND)


def test_those_kept_by_one_ticket_go_on_one_after_the_other() -> None:
    start = kept(BEHIND, 0.0, 0.0)
    delays = {at: start.after(BEHIND, at, fits=True) for at in range(int(IDLE_LIMIT_S), 400)}
    first_s = [
        next(at for at, delay in delays.items() if delay.is_over(mine(number), BEHIND))
        for number in range(1, 21)
    ]
    assert min(first_s) < IDLE_LIMIT_S + 10.0
    assert max(first_s) <= IDLE_LIMIT_S + SPREAD_S
    assert len(set(first_s)) > 15
