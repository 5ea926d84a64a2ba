"""The model of a step finds what made the samples, and says nothing about links it has not seen."""

from __future__ import annotations

import random

import pytest

from yarnam.core.fits.step_time import (
    LinkCost,
    StepSample,
    StepTime,
    fit_speed,
    fit_step_time,
    overlapped_s,
    untried_speed,
)

TRUE = StepTime(0.02, 0.01, 2.0, LinkCost(0.03, 0.0), LinkCost(0.2, 0.0))


def sample(truth: StepTime, nodes: int, processes: int, batch: float) -> StepSample:
    step_s = truth.step_s(nodes, processes, batch)
    assert step_s is not None
    return StepSample(nodes, processes, batch, step_s, truth.compute_s(batch))


def samples(truth: StepTime, most: int = 4) -> list[StepSample]:
    sizes = [(1, 1), (1, 2), (1, 4), (2, 2), (2, 4)]
    return [sample(truth, n, r, b) for n, r in sizes if r <= most for b in (4.0, 16.0, 32.0)]


@pytest.mark.parametrize("overlap", [1.0, 2.0, 5.0])
def test_it_predicts_larger_gangs_of_the_model_that_made_the_samples(overlap: float) -> None:
    truth = StepTime(0.02, 0.01, overlap, LinkCost(0.03, 0.0), LinkCost(0.2, 0.0))
    model = fit_step_time(samples(truth))
    assert model is not None
    for nodes, processes in ((1, 8), (2, 16), (8, 64)):
        for batch in (4.0, 64.0):
            predicted = model.step_s(nodes, processes, batch)
            assert predicted == pytest.approx(truth.step_s(nodes, processes, batch), rel=0.01)


def test_a_ring_is_nearly_flat_where_optimus_curve_grew() -> None:
    """A constant batch per process: the network of 64 processes is less than twice that of two."""
    truth = StepTime(0.1, 0.0, 1.0, LinkCost(0.05, 0.0))
    speed = fit_speed([(g, 1.0 / (truth.step_s(1, g, 1.0) or 0.0)) for g in (1, 2, 4)])
    assert speed is not None
    assert speed.step_s(64) == pytest.approx(truth.step_s(1, 64, 1.0), rel=0.02)


def test_links_that_no_sample_crossed_are_unknown() -> None:
    alone = fit_step_time([StepSample(1, 1, 8.0, 0.1)])
    assert alone is not None
    assert alone.step_s(1, 1, 8.0) == pytest.approx(0.1)
    assert alone.step_s(1, 2, 8.0) is None
    in_a_node = fit_step_time([s for s in samples(TRUE) if s.nodes == 1])
    assert in_a_node is not None
    assert in_a_node.step_s(1, 8, 8.0) is not None
    assert in_a_node.step_s(2, 8, 8.0) is None
    assert fit_step_time([]) is None


def test_latency_is_held_back_but_found() -> None:
    truth = StepTime(0.1, 0.0, 1.0, LinkCost(0.01, 0.02))
    many = [sample(truth, 1, r, 1.0) for r in (1, 2, 4, 8, 16)]
    model = fit_step_time(many)
    assert model is not None
    assert model.one_node is not None
    assert 0.005 < model.one_node.latency_s <= 0.02


def test_noise_and_nonsense_give_numbers_that_can_be_shown() -> None:
    dice = random.Random(3)
    for _ in range(200):
        drawn = [
            StepSample(
                nodes := dice.randint(1, 3),
                nodes * dice.randint(1, 4),
                dice.choice([1.0, 8.0, 1e6]),
                10 ** dice.uniform(-4, 4),
                dice.choice([None, 10 ** dice.uniform(-4, 4)]),
            )
            for _ in range(dice.randint(1, 6))
        ]
        model = fit_step_time(drawn)
        assert model is not None
        for nodes, processes, batch in ((1, 1, 8.0), (1, 8, 8.0), (4, 32, 1.0)):
            predicted = model.step_s(nodes, processes, batch)
            assert predicted is None or 0.0 <= predicted < 1e12


def test_overlap_lies_between_the_larger_part_and_the_sum() -> None:
    assert overlapped_s(3.0, 1.0, 1.0) == pytest.approx(4.0)
    assert overlapped_s(3.0, 1.0, 10.0) == pytest.approx(3.0, rel=1e-3)
    assert overlapped_s(0.0, 0.0, 2.0) == 0.0


def test_the_speed_of_a_shared_batch() -> None:
    def rate(gpus: int) -> float:
        return 1.0 / (2.0 / gpus + 0.1)

    curve = fit_speed([(gpus, rate(gpus)) for gpus in (1, 2, 4)])
    assert curve is not None
    assert curve.rate(16) == pytest.approx(rate(16), rel=0.01)
    assert dict(curve.rates(1, 3))[3] == pytest.approx(rate(3), rel=0.01)


def test_one_size_is_no_curve() -> None:
    assert fit_speed([(2, 3.0), (2, 3.1)]) is None
    assumed = untried_speed(2, 4.0, 0.9)
    assert assumed.rate(2) == pytest.approx(4.0)
    assert assumed.step_s(4) == pytest.approx(0.25 * (0.1 + 0.9 / 2))
