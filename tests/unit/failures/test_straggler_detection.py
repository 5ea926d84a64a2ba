"""Which ranks slow a gang, by how much, and whether it is the node or the data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from yarnam.core.failures.straggler_detection import (
    MAX_STRAGGLERS,
    QUIET_S,
    WINDOW_STEPS,
    WINDOWS,
    RankPace,
    StragglerWatch,
    cleared,
    find_stragglers,
    watch_stragglers,
    with_causes,
)
from yarnam.core.model.job_spec import StragglerSpec
from yarnam.core.model.outcomes import SlownessCause, Straggler

SPEC = StragglerSpec()
UNKNOWN, NODE, DATA = SlownessCause.UNKNOWN, SlownessCause.NODE, SlownessCause.DATA


def paces(
    *compute_s: float | None, step_s: float = 1.0, steps: int = WINDOW_STEPS
) -> list[RankPace]:
    return [
        RankPace(rank, f"n{rank}", steps, step_s, own_s) for rank, own_s in enumerate(compute_s)
    ]


def test_the_one_that_the_others_wait_for_is_found_although_all_steps_are_equally_long() -> None:
    (found,) = find_stragglers(paces(0.4, 0.4, 0.8, 0.4), 1.2)
    assert (found.rank, found.node, found.compute_s, found.usual_s) == (2, "n2", 0.8, 0.4)
    assert found.slowdown == pytest.approx(1.0 / 0.6)
    assert found.words == (
        "rank 2 on n2 computes 0.8 s in a step, usual is 0.4 s; "
        "without that the gang would be 1.7 times as fast"
    )


@pytest.mark.parametrize(
    "compute_s",
    [
        (0.4, 0.4, 0.4, 0.4),
        (0.001, 0.001, 0.002, 0.001),  # twice as slow, for a thousandth of the step
        (0.4, 0.4, 0.5, 0.4),
        (0.4,),
        (None, None, None, None),  # all wait: who is slow does not show
        (0.4, 0.55, 0.57, 0.54),  # one of three that are slow alike is no exception
        (0.0, 0.0, 0.0),
    ],
)
def test_nobody_is_blamed_for_what_gains_nothing(compute_s: tuple[float | None, ...]) -> None:
    assert find_stragglers(paces(*compute_s), 1.2) == ()


def test_of_two_ranks_the_slower_one_is_slow() -> None:
    (found,) = find_stragglers(paces(0.4, 0.8, step_s=0.8), 1.2)
    assert (found.rank, found.slowdown) == (1, pytest.approx(2.0))


def test_two_that_are_slow_do_not_hide_each_other() -> None:
    found = find_stragglers(paces(0.2, 0.8, 0.7, 0.2, 0.2, step_s=0.8), 1.2)
    assert [one.rank for one in found] == [1, 2]
    assert found[0].slowdown == pytest.approx(4.0)


def test_without_synchronization_the_steps_tell() -> None:
    own = [replace(one, step_s=2.0 if one.rank == 1 else 1.0) for one in paces(None, None, None)]
    assert [one.rank for one in find_stragglers(own, 1.2)] == [1]


def test_many_are_cut() -> None:
    slow = [0.1] * 40 + [1.0] * 20
    assert len(find_stragglers(paces(*slow), 1.2)) == MAX_STRAGGLERS


class Watched:
    """A gang that is looked at after every window."""

    def __init__(self, spec: StragglerSpec = SPEC, *, is_none_news: bool = False) -> None:
        self.watch, self.spec, self.is_none_news = StragglerWatch(), spec, is_none_news
        self.steps, self.now_s = 0, 1000.0

    def window(self, *compute_s: float, steps: int = WINDOW_STEPS) -> list[int] | None:
        self.steps, self.now_s = self.steps + steps, self.now_s + 10.0
        look = paces(*compute_s, steps=self.steps)
        self.watch, found = watch_stragglers(
            self.watch, look, self.spec, self.now_s, is_none_news=self.is_none_news
        )
        return None if found is None else [one.rank for one in found]


SLOW, WELL = (0.4, 0.4, 0.9), (0.4, 0.4, 0.4)


def test_it_takes_several_windows_in_a_row() -> None:
    gang = Watched()
    assert [gang.window(*SLOW) for _ in range(WINDOWS)] == [*[None] * (WINDOWS - 1), [2]]
    assert gang.window(*SLOW) is None, "once is enough"
    gang = Watched()
    assert [gang.window(*one) for one in (*[SLOW] * (WINDOWS - 1), WELL, SLOW, SLOW)] == [None] * 6


def test_a_window_that_overlaps_the_last_one_is_no_new_one() -> None:
    gang = Watched()
    assert [gang.window(*SLOW, steps=4) for _ in range(4 * WINDOWS)].index([2]) == 4 * WINDOWS - 1


def test_one_that_recovers_is_reported_once_and_not_too_soon() -> None:
    gang = Watched()
    for _ in range(WINDOWS):
        gang.window(*SLOW)
    looks = [gang.window(*WELL) for _ in range(15)]
    assert looks.count([]) == 1
    assert looks.index([]) * 10.0 + 10.0 >= QUIET_S


def test_that_there_is_none_is_news_after_an_attempt_with_some() -> None:
    gang = Watched(is_none_news=True)
    assert [gang.window(*WELL) for _ in range(WINDOWS + 1)][-3:] == [None, [], None]


def test_off_is_off_and_nothing_is_judged_while_a_rank_is_unheard() -> None:
    gang = Watched(StragglerSpec(detect=False))
    assert [gang.window(*SLOW) for _ in range(5)] == [None] * 5
    assert watch_stragglers(StragglerWatch(), [], SPEC, 0.0) == (StragglerWatch(), None)


def slow(rank: int, node: str) -> Straggler:
    return Straggler(rank, node, 0.8, 0.4, 1.5)


@pytest.mark.parametrize(
    ("earlier", "now", "cause"),
    [
        ((), slow(1, "n1"), UNKNOWN),
        ((slow(1, "n1"),), slow(1, "n1"), UNKNOWN),  # both stayed
        ((slow(1, "n1"),), slow(2, "n1"), NODE),
        ((slow(1, "n1"),), slow(1, "n2"), DATA),
        ((slow(1, "n1"), slow(2, "n3")), slow(1, "n3"), UNKNOWN),  # both have moved, and both stay
        ((slow(1, "n1"),), slow(2, "n2"), UNKNOWN),  # another one
    ],
)
def test_what_stays_with_the_node_and_what_moves_with_the_rank(
    earlier: tuple[Straggler, ...], now: Straggler, cause: SlownessCause
) -> None:
    nodes = {0: "n0", now.rank: now.node}
    (found,) = with_causes((now,), earlier, nodes)
    assert found.cause is cause
    assert len(found.words) >= len(now.words)


def test_all_ranks_of_one_node_are_slow_by_the_node() -> None:
    nodes = {0: "n0", 1: "n0", 2: "n1", 3: "n1"}
    both = with_causes((slow(2, "n1"), slow(3, "n1")), (), nodes)
    assert {one.cause for one in both} == {NODE}
    assert with_causes((slow(2, "n1"),), (), nodes)[0].cause is UNKNOWN


def test_one_that_is_well_elsewhere_was_slow_by_its_node() -> None:
    before = (slow(1, "n1"),)
    assert cleared(before, (), {1: "n4"})[0].cause is NODE
    assert cleared(before, (), {1: "n1"})[0].cause is UNKNOWN
    assert cleared(before, (slow(1, "n4"),), {1: "n4"})[0].cause is UNKNOWN
