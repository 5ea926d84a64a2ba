"""Curves: they find what made the points, and say nothing where too little is known."""

from __future__ import annotations

import random
from math import inf

import pytest

from yarnam.core.fits.loss_curve import fit_loss
from yarnam.core.fits.nnls import nnls
from yarnam.core.fits.service_distribution import ServiceDistribution


def test_nnls_solves_what_has_a_solution_and_clamps_what_has_not() -> None:
    rows = [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0)]
    assert nnls(rows, (2.0, 3.0, 5.0)) == pytest.approx((2.0, 3.0))
    assert nnls(rows, (2.0, -3.0, -1.0)) == pytest.approx((0.5, 0.0))


def test_nnls_is_optimal_by_its_conditions() -> None:
    """Karush, Kuhn and Tucker: x >= 0, the gradient <= 0, and 0 where x > 0."""
    dice = random.Random(7)
    for _ in range(200):
        count = dice.randint(1, 4)
        rows = [[dice.uniform(-2, 2) for _ in range(count)] for _ in range(count + 4)]
        values = [dice.uniform(-2, 2) for _ in rows]
        x = nnls(rows, values)
        off = [
            value - sum(a * b for a, b in zip(row, x, strict=True))
            for row, value in zip(rows, values, strict=True)
        ]
        for i in range(count):
            gradient = sum(row[i] * left for row, left in zip(rows, off, strict=True))
            assert x[i] >= 0.0
            assert gradient <= 1e-6
            assert x[i] == 0.0 or abs(gradient) <= 1e-6


def test_the_loss_curve_predicts_what_comes() -> None:
    def loss(step: float) -> float:
        return 4.0 * (1.0 / (0.01 * step + 1.2) + 0.1)

    curve = fit_loss([(step, loss(step)) for step in range(0, 400, 10)])
    assert curve is not None
    assert curve.loss(2000) == pytest.approx(loss(2000), rel=0.02)
    flat = curve.flat_at(0.001)
    assert loss(flat) - loss(flat + 1) <= 0.0011 * curve.largest
    assert loss(flat - 20) - loss(flat - 19) >= 0.0009 * curve.largest


def test_an_outlier_does_not_bend_the_curve() -> None:
    points = [(float(step), 1.0 / (0.01 * step + 1.0) + 0.2) for step in range(100)]
    points[50] = (50.0, 40.0)
    curve = fit_loss(points)
    assert curve is not None
    assert curve.loss(300) == pytest.approx(1.0 / 4.0 + 0.2, rel=0.05)


def test_too_few_points_give_no_curve() -> None:
    assert fit_loss([(0.0, 1.0), (1.0, 0.5)]) is None
    assert fit_loss([]) is None


def test_the_gittins_index_by_hand() -> None:
    known = ServiceDistribution([10.0, 20.0, 40.0])
    # Of attained 10: 20 and 40 are left; within 10 more one of two ends; the mean is (10 + 10) / 2.
    assert known.index(10.0, 10.0) == pytest.approx(0.5 / 10.0)
    assert known.index(10.0, inf) == pytest.approx(1.0 / 20.0)
    assert known.index(40.0, inf) == 0.0
    assert ServiceDistribution([]).index(0.0, 5.0) == 0.0
