"""How well the rules read other people's failed trainings: class, blame, action and first rank, by
class and by family, for the open half of the corpus, the one that is held out, and the cases that
were collected later.

``make bench ARGS="tests/benchmarks/test_strangers.py -s"`` prints the tables, and the misses of the
open half; YARNAM_STRANGERS says of which parts (``open,held-out,later``).
"""

from __future__ import annotations

import os
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
    later_cases,
)

pytestmark = [pytest.mark.benchmark]

LEAST_RIGHT = 0.85

Result = tuple[Case, Answer]


PARTS = {
    "open": [case for case in cases() if not case.is_held_out],
    "held-out": [case for case in cases() if case.is_held_out],
    "later": later_cases(),
}


@pytest.mark.parametrize("part", PARTS)
def test_other_peoples_failures(part: str) -> None:
    chosen = PARTS[part]
    results = [(case, answer(case)) for case in chosen]
    print(f"\n{part}: sha256 {digest(chosen)}")
    _print_table("family", results, lambda case: case.family)
    _print_table("class", results, lambda case: case.right.failure)
    _print_table(
        "cause", results, lambda case: "confirmed" if case.is_confirmed else "read from it"
    )
    if part in os.environ.get("YARNAM_STRANGERS", "open").split(","):
        _print_misses(results)
    assert _share(is_right, results) >= LEAST_RIGHT
    assert not any(is_called_permanent(*result) for result in results)
    assert not any(is_strike_for_a_mistake(*result) for result in results)


def _share(of: Callable[[Case, Answer], bool], results: Sequence[Result]) -> float:
    return sum(of(*result) for result in results) / len(results)


def _print_table(title: str, results: Sequence[Result], key: Callable[[Case], str]) -> None:
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
