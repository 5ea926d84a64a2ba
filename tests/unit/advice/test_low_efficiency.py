"""Jobs whose GPUs waited, and what half of them would have given."""

from __future__ import annotations

import pytest

from yarnam.core.advice.low_efficiency import efficiency_of
from yarnam.core.advice.predictions import shares_batch
from yarnam.core.fits.step_time import StepSample


def ran(processes: int, *, shared: bool, network_s: float = 0.2) -> StepSample:
    compute_s = 1.0 / processes if shared else 0.1
    waited_s = network_s * 2 * (processes - 1) / processes
    return StepSample(1, processes, 1.0, compute_s + waited_s, compute_s)


@pytest.mark.parametrize("shared", [True, False])
def test_the_kind_of_batch_is_seen_in_the_compute(shared: bool) -> None:
    runs = [ran(processes, shared=shared) for processes in (1, 2, 4)]
    assert shares_batch(runs) is shared
    assert shares_batch([StepSample(1, 4, 1.0, 0.3, 0.1)]) is None
    assert shares_batch([StepSample(1, 4, 1.0, 0.3), StepSample(1, 2, 1.0, 0.3)]) is None


@pytest.mark.parametrize(
    ("shared", "half"), [(True, (1 / 8 + 0.35) / (1 / 4 + 0.3)), (False, 0.5625)]
)
def test_half_of_the_processes(shared: bool, half: float) -> None:
    runs = [ran(processes, shared=shared) for processes in (2, 4, 8)]
    found = efficiency_of(runs[-1], runs)
    assert found is not None
    assert found.is_low
    assert found.half_speed == pytest.approx(half, rel=0.02)


def test_what_was_not_measured_is_unknown() -> None:
    assert efficiency_of(StepSample(1, 4, 1.0, 1.0, None), []) is None
    assert efficiency_of(StepSample(1, 1, 1.0, 1.0, 0.1), []) is None
    alone = efficiency_of(StepSample(1, 4, 1.0, 1.0, 0.9), [StepSample(1, 4, 1.0, 1.0, 0.9)])
    assert alone is not None
    assert not alone.is_low
    assert alone.half_speed is None
