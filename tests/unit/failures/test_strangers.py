"""Other people's failed trainings (``tests/benchmarks/strangers``) are read as by their threads."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.benchmarks.strangers.corpus import (
    HELD_OUT_DIGEST,
    LATER_DIGEST,
    Case,
    answer,
    cases,
    digest,
    is_called_permanent,
    is_found,
    is_strike_for_a_mistake,
    later_cases,
)

ALL = [*cases(), *later_cases()]
HELD_OUT = [case for case in cases() if case.is_held_out]

KNOWN_MISSES = {
    # Records with other keys than the program reads: its library says only that it got texts.
    "https://github.com/cckuailong/SuperAdapters/issues/2",
    # A pickled model of another version: its library says only that a value is wrong.
    "https://github.com/dmlc/xgboost/issues/8745",
    # Labels with missing values: its library says only that they are not those expected.
    "https://github.com/dmlc/xgboost/issues/9747",
}
"""All are called ``semantic-error``. This list may only shrink."""


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.thread)
def test_class_blame_action_and_rank(case: Case) -> None:
    given = answer(case)
    assert is_found(case, given) is (case.thread not in KNOWN_MISSES), (case.right, given)


def test_what_was_held_out_is_as_it_was() -> None:
    """The figures of the first runs are in docs/explanation/first-causes.md."""
    assert digest(HELD_OUT) == HELD_OUT_DIGEST
    assert digest(later_cases()) == LATER_DIGEST


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.thread)
def test_no_wrong_answer_does_harm(case: Case) -> None:
    given = answer(case)
    assert not is_called_permanent(case, given), given
    assert not is_strike_for_a_mistake(case, given), given


def test_the_corpus_is_large_enough() -> None:
    assert len(cases()) >= 120
    assert min(Counter(case.family for case in cases()).values()) >= 5
    assert len({case.thread for case in ALL}) == len(ALL)
    assert sum(case.is_confirmed for case in ALL) == 81
