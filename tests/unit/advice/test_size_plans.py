"""Advice from samples: what was measured is a figure, what was not is a range or unknown."""

from __future__ import annotations

import random

import pytest

from yarnam.core.advice import Advice, Aim, Option, advise
from yarnam.core.advice.predictions import MeasuredProgram, measured_program, predict
from yarnam.core.fits.step_time import LinkCost, StepSample, StepTime

NODE_OF_EIGHT = 8


def option(gpus: int, **changes: object) -> Option:
    facts = {"size": gpus, "gpus": gpus, "processes": gpus, "nodes": -(-gpus // NODE_OF_EIGHT)}
    return Option(**{**facts, **changes})  # type: ignore[arg-type]


def program(truth: StepTime, *sizes: tuple[int, int], shared: bool = True) -> MeasuredProgram:
    measured = []
    for nodes, processes in sizes:
        batch = 1.0 / processes if shared else 1.0
        step_s = truth.step_s(nodes, processes, batch)
        assert step_s is not None
        measured.append(StepSample(nodes, processes, 1.0, step_s, truth.compute_s(batch)))
    return measured_program(measured, is_batch_shared=shared)


FAST = StepTime(0.01, 1.0, 1.0, LinkCost(0.01, 0.0), LinkCost(0.02, 0.0))
SLOW_NETWORK = StepTime(0.01, 1.0, 1.0, LinkCost(0.01, 0.0), LinkCost(0.6, 0.0))
OPTIONS = [option(gpus) for gpus in (1, 2, 4, 8, 16)]
SIZES = ((1, 1), (1, 2), (1, 4), (2, 4))


def first(found: Advice) -> Option:
    assert found.is_advised
    return found.plans[0].option


def test_a_fast_network_pays_for_many_gpus_and_a_slow_one_for_one_node() -> None:
    assert first(advise(program(FAST, *SIZES), OPTIONS)).gpus == 16
    slow = advise(program(SLOW_NETWORK, *SIZES), OPTIONS)
    assert first(slow).gpus == 8
    [two_nodes] = [plan for plan in slow.plans if plan.option.nodes == 2]
    assert "the network takes 9" in two_nodes.reason
    assert "times one GPU" in two_nodes.reason


def test_the_fewest_gpus_are_enough_where_the_rest_saves_less_than_a_tenth() -> None:
    truth = StepTime(1.0, 0.1, 1.0, LinkCost(0.0, 0.0), LinkCost(0.0, 0.0))
    found = advise(program(truth, *SIZES), OPTIONS)
    assert first(found).gpus == 1
    assert first(advise(program(truth, *SIZES), OPTIONS, aim=Aim.FINISH)).gpus == 16
    [eight] = [plan for plan in found.plans if plan.option.gpus == 8]
    assert "work that more processes do not divide" in eight.reason


def test_the_aims_differ_as_their_names_say() -> None:
    known = program(FAST, *SIZES)
    assert first(advise(known, OPTIONS, aim=Aim.FINISH)).gpus == 16
    assert first(advise(known, OPTIONS, aim=Aim.COST)).gpus == 1


def test_a_wait_can_cost_more_than_a_faster_run_brings() -> None:
    waiting = [*OPTIONS[:-1], option(16, wait_s=5000.0, latest_s=9000.0)]
    waiting = [o if o.wait_s is not None else option(o.gpus, wait_s=0.0) for o in waiting]
    found = advise(program(FAST, *SIZES), waiting, aim=Aim.FINISH, work=10_000)
    assert first(found).gpus == 8
    chosen = found.plans[0]
    assert chosen.finish_s is not None
    assert chosen.run_s is not None
    assert chosen.gpu_hours is not None
    assert chosen.gpu_hours.likely == pytest.approx((chosen.run_s.likely or 0.0) * 8 / 3600)


def test_links_that_were_not_crossed_are_unknown_and_named() -> None:
    found = advise(program(FAST, (1, 1), (1, 2), (1, 4)), OPTIONS)
    assert first(found).nodes == 1
    [two_nodes] = [plan for plan in found.plans if plan.option.nodes == 2]
    assert two_nodes.step_s is not None
    assert (two_nodes.step_s.likely, two_nodes.step_s.high) == (None, None)
    assert "has not run on several nodes" in two_nodes.reason
    assert any("a run there would tell" in note for note in found.notes)


def test_one_size_gives_bounds_and_no_advice() -> None:
    found = advise(program(FAST, (1, 1)), OPTIONS)
    assert not found.is_advised
    for plan in found.plans:
        if plan.option.processes > 1:
            assert plan.step_s is not None
            assert plan.step_s.likely is None
            assert "it has run with one process only" in plan.reason
    assert found.notes
    nothing = advise(measured_program([], is_batch_shared=True), OPTIONS)
    assert not nothing.is_advised
    assert all(plan.step_s is None for plan in nothing.plans)


def test_a_bound_is_no_slower_than_the_truth() -> None:
    dice = random.Random(5)
    for _ in range(100):
        truth = StepTime(
            dice.random(), dice.random() + 0.01, 1.0, LinkCost(dice.random(), 0.0),
            LinkCost(1.0 + dice.random(), 0.0),
        )  # fmt: skip
        for shared in (True, False):
            for sizes in ([(1, 1)], [(1, 1), (1, 2)]):
                found = predict(program(truth, *sizes, shared=shared), 2, 16)
                assert found is not None
                true_s = truth.step_s(2, 16, 1 / 16 if shared else 1.0)
                assert found.step_s.low <= (true_s or 0.0) * 1.001


def test_a_batch_of_each_process_makes_steps_worth_more() -> None:
    truth = StepTime(0.0, 1.0, 1.0, LinkCost(0.0, 0.0), LinkCost(0.0, 0.0))
    found = advise(program(truth, *SIZES, shared=False), OPTIONS, aim=Aim.FINISH, work=1600)
    assert first(found).gpus == 16
    chosen = found.plans[0]
    assert chosen.speedup == pytest.approx(16.0, rel=0.05)
    assert chosen.run_s is not None
    assert chosen.run_s.likely == pytest.approx(100.0, rel=0.05)


def test_what_cannot_run_comes_last_with_its_reason() -> None:
    never = option(16, no_fit="no node has 16 GPUs")
    found = advise(program(FAST, *SIZES), [*OPTIONS[:3], never])
    assert found.plans[-1].reason == "no node has 16 GPUs"
    assert first(found).gpus == 4


def test_an_uneven_gang_is_not_advised_unless_it_is_the_users() -> None:
    uneven = option(16, is_even=False)
    assert first(advise(program(FAST, *SIZES), [*OPTIONS[:4], uneven])).gpus == 8
    own = option(16, is_even=False, is_own=True)
    assert first(advise(program(FAST, *SIZES), [*OPTIONS[:4], own])).gpus == 16


def test_at_most_five_plans_with_the_users_own_among_them() -> None:
    options = [option(gpus) for gpus in (1, 2, 3, 4, 5, 6, 7, 8)]
    options[0] = option(1, is_own=True)
    found = advise(program(FAST, *SIZES), options)
    assert len(found.plans) == 5
    assert any(plan.option.is_own for plan in found.plans)


def test_ranges_widen_with_the_distance() -> None:
    known = program(FAST, *SIZES)
    widths = []
    for nodes, processes in ((2, 4), (2, 8), (2, 16), (4, 32)):
        found = predict(known, nodes, processes)
        assert found is not None
        assert found.step_s.likely
        assert found.step_s.high
        widths.append(found.step_s.high / found.step_s.low)
    assert widths == sorted(widths)
    assert widths[-1] > 2 * widths[0]
