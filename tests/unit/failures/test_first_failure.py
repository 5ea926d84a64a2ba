"""Which of the failed processes was first."""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.failures.first_failure import FailedProcess, in_order_of_cause
from yarnam.core.failures.process_failure import UNKNOWN
from yarnam.core.model.outcomes import FailureClass, FailureRole, Finding, RetryAction
from yarnam.errors import Blame

ROOT = Finding(
    "x", FailureClass.IMPORT_ERROR, FailureRole.ROOT, RetryAction.NEVER, Blame.USER, "line"
)
CASCADE = replace(ROOT, role=FailureRole.CASCADE, failure=FailureClass.PEER_LOST)


def order(*processes: FailedProcess) -> list[int]:
    return [one.key for one in in_order_of_cause(processes)]


def failed(key: int, at_s: float, finding: Finding | None, **more: bool) -> FailedProcess:
    return FailedProcess(key, key, at_s, finding, **more)


def test_a_cause_that_ends_late_comes_before_its_symptoms() -> None:
    symptoms = failed(0, 1.0, CASCADE), failed(2, 0.5, CASCADE)
    assert order(*symptoms, failed(1, 5.0, ROOT)) == [1, 2, 0]


def test_a_known_cause_comes_before_an_unknown_one() -> None:
    assert order(failed(0, 1.0, UNKNOWN), failed(1, 2.0, ROOT)) == [1, 0]


def test_an_unknown_cause_comes_before_a_symptom() -> None:
    assert order(failed(0, 1.0, CASCADE), failed(1, 2.0, UNKNOWN)) == [1, 0]


def test_who_waited_in_vain_comes_before_who_found_it_gone() -> None:
    waited = replace(CASCADE, failure=FailureClass.COMMUNICATION_ERROR)
    assert order(failed(0, 1.0, CASCADE), failed(1, 1.1, waited)) == [1, 0]


def test_without_findings_the_earliest_is_first() -> None:
    assert order(failed(0, 2.0, None), failed(1, 1.0, None)) == [1, 0]


def test_a_stopped_process_counts_only_with_a_cause_of_its_own() -> None:
    stopped = failed(1, 9.0, ROOT, was_stopped=True)
    assert order(failed(0, 1.0, CASCADE), stopped) == [1, 0]
    assert order(failed(0, 1.0, CASCADE), failed(1, 9.0, None, was_stopped=True)) == [0]
    assert order(failed(0, 1.0, UNKNOWN), stopped) == [0, 1]
    weak = failed(1, 9.0, replace(ROOT, is_weak=True), was_stopped=True)
    assert order(failed(0, 1.0, CASCADE), weak) == [0]


def test_the_error_files_time_counts_where_there_is_one() -> None:
    early = replace(ROOT, at_s=1.0)
    assert order(failed(0, 2.0, ROOT), failed(1, 4.0, early)) == [1, 0]


def test_of_equal_times_the_lowest_rank() -> None:
    assert order(failed(1, 1.0, ROOT), failed(0, 1.0, ROOT)) == [0, 1]


def test_nothing_failed() -> None:
    assert order() == []
