"""How well the rules read other people's failed trainings: class, blame, action and first rank, by
class and by family, for the open half of the corpus and for the one that is held out.

``make bench ARGS="tests/benchmarks/test_strangers.py -s"`` prints both tables, and the misses of the
open half; those of the other half are not shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import pytest

from tests.benchmarks.strangers.corpus import (
    Answer,
    Case,
    answer,
    cases,
    digest,
    is_called_permanent,
    is_found,
    is_right,
    is_strike_for_a_mistake,
)

pytestmark = [pytest.mark.benchmark]

LEAST_RIGHT = 0.85

Result = tuple[Case, Answer]


@pytest.mark.parametrize("is_held_out", [False, True])
def test_other_peoples_failures(is_held_out: bool) -> None:
    chosen = [case for case in cases() if case.is_held_out is is_held_out]
    results = [(case, answer(case)) for case in chosen]
    print(f"\n{'held out' if is_held_out else 'open'}: sha256 {digest(chosen)}")
    _print_table("family", results, lambda case: case.family)
    _print_table("class", results, lambda case: case.right.failure)
    if not is_held_out:
        _print_misses(results)
    assert _share(is_right, results) >= LEAST_RIGHT
    assert not any(is_called_permanent(*result) for result in results)
    assert not any(is_strike_for_a_mistake(*result) for result in results)


def _share(of: Callable[[Case, Answer], bool], results: Sequence[Result]) -> float:
    return sum(of(*result) for result in results) / len(results)


def _print_table(
    title: str, results: Sequence[Result], key: Callable[[Case], str]
) -> None:
    columns = "class+blame  all four  called permanent  strike for a mistake"
    print(f"{title:24} cases  {columns}")
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        groups[key(result[0])].append(result)
    for name, group in [*sorted(groups.items()), ("all", list(results))]:
        permanent = sum(is_called_permanent(*result) for result in group)
        strikes = sum(is_strike_for_a_mistake(*result) for result in group)
        print(
            f"{name:24} {len(group):5}  {_share(is_right, group):11.1%}  "
            f"{_share(is_found, group):8.1%}  {permanent:16}  {strikes:20}"
        )


def _print_misses(results: Sequence[Result]) -> None:
    for case, given in results:
        if not is_found(case, given):
            found = given.finding
            print(
                f"{case.thread}: {case.right.failure} of rank {case.right.rank}, not "
                f"{found.failure.value} ({found.rule}, {found.blame.value}, {found.action.value}) "
                f"of rank {given.rank}: {found.line}"
            )
