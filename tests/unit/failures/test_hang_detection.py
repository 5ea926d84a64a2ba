"""Whether a gang hangs, and who the others wait for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarnam.core.failures.hang_detection import (
    EARLY_S,
    LEAST_S,
    find_hang,
    hang_finding,
    looks_like_hang,
    missing_ranks,
    where_text,
)
from yarnam.core.failures.rank_activity import Collective, RankActivity
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_spec import HangSpec
from yarnam.core.model.outcomes import FailureClass, FailureRole, Finding, RetryAction
from yarnam.errors import Blame

SPEC = HangSpec()


def rank(number: int, **known: object) -> RankActivity:
    usual = RankActivity(AskId(1, "worker", number), number, step=40, step_age_s=60.0, step_s=1.0)
    return replace(usual, **known)  # type: ignore[arg-type]


def gang(**known: object) -> list[RankActivity]:
    return [rank(number, **known) for number in range(4)]


def test_a_stopped_process_is_a_hang_after_three_steps_and_some_seconds() -> None:
    late_s = SPEC.steps * 1.0 + LEAST_S
    ranks = [*gang(step_age_s=late_s)[:3], rank(3, step_age_s=late_s, is_stopped=True)]
    assert find_hang(ranks, SPEC) == "no step for 7 s (usually 1 s)"
    assert missing_ranks(ranks) == ((3,), "stopped by a signal")
    early = [replace(one, step_age_s=late_s - 0.1) for one in ranks]
    assert find_hang(early, SPEC) == ""


def test_a_stopped_process_is_looked_at_before_it_is_a_hang() -> None:
    early_s = SPEC.steps * 1.0 + LEAST_S - EARLY_S
    ranks = gang(step_age_s=early_s, is_stopped=True)
    assert looks_like_hang(ranks, SPEC)
    assert find_hang(ranks, SPEC) == ""
    assert not looks_like_hang(gang(step_age_s=early_s - 0.1, is_stopped=True), SPEC)
    assert not looks_like_hang(gang(step_age_s=early_s, is_stopped=True, pause="x"), SPEC)
    assert not looks_like_hang(gang(step_age_s=1799.0, idle_s=299.0), SPEC), (
        "a dump is no small talk"
    )


def test_busy_processes_have_half_an_hour_idle_ones_five_minutes() -> None:
    assert find_hang(gang(), SPEC) == ""
    assert find_hang(gang(idle_s=300.0), SPEC).endswith("and no process does anything")
    assert find_hang([*gang(idle_s=300.0)[:3], rank(3, idle_s=3.0)], SPEC) == ""
    assert find_hang(gang(step_age_s=1800.0), SPEC)


@pytest.mark.parametrize("spec", [SPEC, HangSpec(idle_s=0.0)])
def test_a_pause_of_one_rank_is_one_of_all(spec: HangSpec) -> None:
    ranks = [*gang(idle_s=600.0)[:3], rank(3, idle_s=600.0, pause="evaluation")]
    assert find_hang(ranks, spec) == ""
    assert find_hang([replace(one, step_age_s=1800.0) for one in ranks], spec)


def test_nothing_is_known_of_a_gang_without_steps_unless_it_is_asked_for() -> None:
    ranks = gang(step=None, step_s=None, idle_s=3600.0, is_stopped=True)
    assert find_hang(ranks, SPEC) == ""
    assert find_hang(ranks, HangSpec(silence_s=3600.0)).startswith("no process has used CPU")
    assert find_hang(ranks, HangSpec(silence_s=3600.0, detect=False)) == ""
    assert find_hang([], SPEC) == ""


def test_a_gang_that_saves_in_each_step_is_a_hang_after_half_an_hour() -> None:
    saving = {"step_s": None, "has_stepped": True, "pause": "checkpoint", "is_stopped": True}
    assert find_hang(gang(**saving, step_age_s=1799.0), SPEC) == ""
    assert find_hang(gang(**saving, step_age_s=1800.0), SPEC) == "no step for 1800 s"


def test_one_rank_that_steps_is_enough_to_know_that_the_gang_goes_on() -> None:
    assert find_hang([*gang(idle_s=600.0)[:3], rank(3, idle_s=600.0, step_age_s=0.5)], SPEC) == ""


def test_who_reported_fewer_steps_did_not_arrive() -> None:
    assert missing_ranks([*gang()[:3], rank(3, step=39)]) == ((3,), "at step 39, the others at 40")


def test_who_is_somewhere_else_did_not_arrive() -> None:
    """Rank 0 alone reports steps, as many programs do."""
    ranks = [
        rank(number, step=40 if number == 0 else None, stack=("all_reduce (d.py:1)",))
        for number in range(3)
    ]
    ranks.append(rank(3, step=None, stack=("read (data.py:7)", "train (t.py:1)")))
    missing, finding = hang_finding(ranks, "no step for 60 s")
    assert missing == (3,)
    assert finding.line == (
        "no step for 60 s; rank 3 did not arrive: not where the others are (all_reduce (d.py:1))"
    )
    assert where_text(ranks[3]) == "rank 3: read (data.py:7) < train (t.py:1)"


def recorded(*last: tuple[str, int] | None) -> list[RankActivity]:
    told = [Collective(of[0], "nccl:all_reduce", "started", of[1]) if of else None for of in last]
    return [rank(number, collective=one) for number, one in enumerate(told)]


def test_who_has_not_begun_the_newest_collective_did_not_arrive() -> None:
    ranks = recorded(("0", 128), ("0", 127), ("0", 128), ("0", 126))
    why = "not in nccl:all_reduce 128 of group 0 (started)"
    assert missing_ranks(ranks) == ((1, 3), why)
    assert where_text(ranks[1]).endswith("last collective nccl:all_reduce 127 of group 0 (started)")


def test_numbers_of_collectives_tell_only_where_all_are_of_one_group() -> None:
    assert missing_ranks(recorded(("0", 128), ("0", 128), ("0", 128))) == ((), "")
    assert missing_ranks(recorded(("0", 128), ("1", 127), ("0", 128))) == ((), "")
    assert missing_ranks(recorded(("0", 128), None, ("0", 127))) == ((), "")


def test_half_against_half_names_nobody() -> None:
    ranks = [rank(number, stack=(f"f{number % 2}",)) for number in range(4)]
    assert hang_finding(ranks, "x")[0] == ()


@given(
    step_s=st.floats(0.001, 600.0),
    noise=st.floats(0.5, 2.9),
    idle_s=st.floats(0.0, 7200.0),
    pause=st.sampled_from(["", "checkpoint", "evaluation"]),
    pause_s=st.floats(0.0, 1799.0),
)
def test_honest_training_is_never_called_hung(
    step_s: float, noise: float, idle_s: float, pause: str, pause_s: float
) -> None:
    """Steps that take up to nearly three times the usual, and pauses below the limit that are
    marked, whatever the processes do meanwhile."""
    age_s = pause_s if pause else min(step_s * noise, 1799.0)
    ranks = gang(step_s=step_s, step_age_s=age_s, idle_s=min(idle_s, age_s), pause=pause)
    assert find_hang(ranks, SPEC) == ""


def of(failure: FailureClass, role: FailureRole = FailureRole.ROOT) -> Finding:
    return Finding("a-rule", failure, role, RetryAction.NEVER, Blame.USER, "KeyError: 7")


MISSING = of(FailureClass.IMPORT_ERROR)


def test_a_rank_that_has_failed_and_does_not_exit_is_the_cause() -> None:
    """As jax does, which waits at exit for the others, and they in a collective for it."""
    ranks = [*gang()[:3], rank(3, raised=MISSING, raised_age_s=59.0)]
    assert hang_finding(ranks, "no step for 60 s") == ((3,), MISSING)


def test_what_was_raised_before_the_last_step_was_survived() -> None:
    ranks = [*gang()[:3], rank(3, raised=MISSING, raised_age_s=90.0)]
    assert hang_finding(ranks, "no step for 60 s")[1].failure is FailureClass.HANG


def test_who_only_found_another_one_gone_is_not_the_cause() -> None:
    lost = of(FailureClass.PEER_LOST, FailureRole.CASCADE)
    ranks = [*gang()[:3], rank(3, raised=lost, raised_age_s=50.0)]
    assert hang_finding(ranks, "no step for 60 s")[1].failure is FailureClass.HANG
    ranks[1] = rank(1, raised=MISSING, raised_age_s=49.0)
    assert hang_finding(ranks, "no step for 60 s")[0] == (1,)


def test_a_stopped_rank_counts_more_than_what_others_say() -> None:
    ranks = [*gang()[:2], rank(2, is_stopped=True), rank(3, raised=MISSING, raised_age_s=50.0)]
    assert hang_finding(ranks, "no step for 60 s")[0] == (2,)


def test_without_steps_it_counts_when_the_gang_fell_silent() -> None:
    quiet = {"step": None, "step_s": None, "idle_s": 600.0}
    ranks = [*gang(**quiet)[:3], rank(3, **quiet, raised=MISSING, raised_age_s=603.0)]
    assert hang_finding(ranks, "silent")[0] == (3,)
    old = replace(ranks[3], raised_age_s=3600.0)
    assert hang_finding([*ranks[:3], old], "silent")[1].failure is FailureClass.HANG
