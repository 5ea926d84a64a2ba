"""Whom the Fair Scheduler serves first."""

from __future__ import annotations

from yarnam.core.model.resources import Resources
from yarnam.core.queues.allocations import Policy
from yarnam.core.queues.serving_order import is_below, serving_key

NOTHING = Resources()
CLUSTER = Resources(1000, 100, 10)


def key(
    used: Resources,
    policy: Policy = Policy.DRF,
    minimum: Resources = NOTHING,
    weight: float = 1.0,
) -> tuple[float, ...]:
    return serving_key(policy, used, CLUSTER, minimum, weight)


def test_by_drf_the_resource_counts_of_which_most_of_the_cluster_is_used() -> None:
    many_gpus, much_memory = Resources(100, 1, 5), Resources(400, 1, 0)
    assert key(much_memory) < key(many_gpus)
    assert key(much_memory, Policy.FAIR) > key(many_gpus, Policy.FAIR)


def test_a_tie_goes_to_the_next_resource() -> None:
    assert key(Resources(100, 1, 5)) < key(Resources(100, 20, 5))


def test_use_is_divided_by_weight_and_a_weight_of_zero_comes_last() -> None:
    assert key(Resources(0, 0, 4), weight=2.0) < key(Resources(0, 0, 3))
    assert key(Resources(1, 0, 0), weight=0.0) > key(Resources(1000, 100, 10))
    fair = Policy.FAIR
    assert key(Resources(), fair, weight=0.0) > key(Resources(1000, 100, 10), fair)
    assert key(Resources(), fair, weight=0.0) < key(Resources(1, 0, 0), fair, weight=0.0)


def test_below_drf_a_weight_of_zero_is_none_to_who_uses_nothing() -> None:
    """Hadoop compares NaN, which is neither less nor more."""
    assert key(Resources(), weight=0.0) == key(Resources())


def test_two_below_their_minimum_that_use_nothing_are_equal() -> None:
    """As a real ResourceManager has it, whatever else their minimums name."""
    without_gpus, with_gpus = Resources(900, 9, 0), Resources(900, 9, 1)
    assert key(Resources(), minimum=without_gpus) == key(Resources(), minimum=with_gpus)


def test_who_is_below_its_minimum_goes_first() -> None:
    needy = key(Resources(100, 10, 5), minimum=Resources(0, 0, 6), weight=0.1)
    assert needy < key(Resources(1, 1, 0))
    less_so = key(Resources(100, 10, 5), minimum=Resources(0, 0, 9))
    assert less_so < needy


def test_by_fair_weights_decide_between_two_equally_below_their_minimum() -> None:
    fair, minimum = Policy.FAIR, Resources(900, 0, 0)
    assert key(Resources(), fair, minimum) < key(Resources(), fair, minimum, weight=0.0)
    used = Resources(90, 0, 0)
    assert key(used, fair, minimum, weight=2.0) < key(used, fair, minimum)


def test_what_is_not_the_dominant_resource_makes_nobody_needy() -> None:
    assert key(Resources(100, 0, 5), minimum=Resources(900, 0, 0))[0] == 1.0


def test_fifo_leaves_the_order_to_the_time_of_submission() -> None:
    assert key(Resources(1, 1, 1), Policy.FIFO) == key(Resources(), Policy.FIFO)


def test_below_a_share_is_judged_as_the_policy_compares() -> None:
    used, share = Resources(500, 10, 2), Resources(400, 10, 6)
    assert is_below(Policy.DRF, used, share, CLUSTER)
    assert not is_below(Policy.FAIR, used, share, CLUSTER)
