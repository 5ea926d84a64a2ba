"""When a job's delegation tokens are replaced."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from yarnam.core.failures.token_renewal import (
    LONGEST_PAUSE_S,
    SHORTEST_PAUSE_S,
    TokenLife,
    replace_at,
    retry_at,
)

DAY_S = 86400.0
MOMENTS = st.floats(0, 4e9)


def test_at_three_quarters_of_their_life() -> None:
    assert replace_at(TokenLife(1000.0, 1000.0 + DAY_S)) == 1000.0 + 0.75 * DAY_S
    assert replace_at(TokenLife(1000.0, 1120.0)) == 1090.0


def test_at_once_where_they_have_ended() -> None:
    assert replace_at(TokenLife(1000.0, 500.0)) == 1000.0


@given(MOMENTS, MOMENTS)
def test_never_before_they_are_there_and_never_after_their_end(since: float, until: float) -> None:
    life = TokenLife(since, until)
    assert since <= replace_at(life) <= max(since, until)


@given(MOMENTS, MOMENTS)
def test_a_retry_is_neither_at_once_nor_far_away(until: float, now: float) -> None:
    pause = retry_at(TokenLife(0.0, until), now) - now
    assert SHORTEST_PAUSE_S - 1e-3 <= pause <= LONGEST_PAUSE_S + 1e-3


def test_a_kdc_that_is_away_is_asked_many_times() -> None:
    """Of a token that lives a day: from three quarters of it to its end."""
    life = TokenLife(0.0, DAY_S)
    now, tries = replace_at(life), 0
    while now < life.until_s:
        tries, now = tries + 1, retry_at(life, now)
    assert tries > 20


def test_after_the_end_it_goes_on() -> None:
    assert retry_at(TokenLife(0.0, 100.0), 500.0) == 500.0 + SHORTEST_PAUSE_S
