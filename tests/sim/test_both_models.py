"""The order in which single jobs start and end, in the ideal model and in the model of YARN: means
hide who has overtaken whom."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.sim.both_models import LOOK_S, ideal_rows, yarn_rows
from yarnam.sim.ideal.trace_job import TraceJob

pytestmark = pytest.mark.sim

NO_LEAST = {"least_run": "0", "least_pause": "0"}


def both_ends(
    policy: str, trace: Sequence[TraceJob], gpus: int, **given: str
) -> tuple[dict[str, float], dict[str, float]]:
    models = (ideal_rows(policy, trace, gpus, given), yarn_rows(policy, trace, gpus, given))
    ideal, yarn = ({job: row.end_s for job, row in rows.items()} for rows in models)
    return ideal, yarn


@pytest.mark.parametrize("policy", ["tiresias", "gittins"])
@pytest.mark.parametrize("more", [{}, NO_LEAST], ids=["usual", "no least times"])
def test_equal_jobs_end_in_the_order_in_which_they_fell(policy: str, more: dict[str, str]) -> None:
    trace = [TraceJob(job, 0.0, 7000.0, 8) for job in "ABC"]
    ideal, yarn = both_ends(policy, trace, 8, limits="16000,100000000", promote="0", **more)
    assert ideal == {"A": 11_000.0, "B": 16_000.0, "C": 21_000.0}
    assert yarn == {job: pytest.approx(end_s, abs=6 * LOOK_S) for job, end_s in ideal.items()}


def test_a_fall_that_cannot_be_written_as_a_float_is_a_fall() -> None:
    """3250 GPU-s on three GPUs: sums of such run times are off by a rounding error."""
    trace = [TraceJob(job, 7.1 * at, 2000.0, 3) for at, job in enumerate("ABC")]
    ideal, yarn = both_ends("tiresias", trace, 3, promote="0", **NO_LEAST)
    assert sorted(ideal, key=ideal.__getitem__) == ["A", "B", "C"]
    assert sorted(yarn, key=yarn.__getitem__) == ["A", "B", "C"]


def test_backfilling_does_not_delay_a_head_whose_start_nobody_knows() -> None:
    """When A has ended YARN shows its GPUs in use for a moment, and nobody runs who could release
    them."""
    trace = [
        TraceJob("A", 0.0, 1000.0, 3, declared_s=1000.0),
        TraceJob("B", 100.0, 500.0, 4, declared_s=500.0),
        TraceJob("C", 200.0, 2000.0, 1, declared_s=2000.0),
    ]
    models = (ideal_rows("fifo-backfill", trace, 4, {}), yarn_rows("fifo-backfill", trace, 4, {}))
    for rows in models:
        assert rows["B"].start_s == pytest.approx(1000.0, abs=3 * LOOK_S)
        assert rows["C"].start_s > rows["B"].start_s


def test_nobody_passes_under_fifo_while_a_gang_is_acquired() -> None:
    trace = [
        TraceJob("A", 0.0, 1000.0, 4),
        TraceJob("B", 0.5, 500.0, 6),
        TraceJob("C", 1.0, 2000.0, 2),
        TraceJob("D", 1.5, 2000.0, 2),
    ]
    for rows in (ideal_rows("fifo", trace, 8, {}), yarn_rows("fifo", trace, 8, {})):
        assert rows["B"].start_s == pytest.approx(1000.0, abs=3 * LOOK_S)
        assert min(rows["C"].start_s, rows["D"].start_s) >= rows["B"].start_s
