"""Which tests ``make near`` chooses."""

from __future__ import annotations

from tools import near


def test_a_module_has_its_own_tests_before_those_of_its_importers() -> None:
    ranked = near.ranked_tests(["yarnam/core/observers/memory_observer.py"])
    ranks = {name: rank for rank, name in ranked}
    assert ranks["tests/unit/observers/test_memory_observer.py"] == 1
    assert ranks["tests/unit/observers/test_observer_registry.py"] == 1
    assert not any("hdfs_utils" in name for name in ranks)


def test_a_changed_test_comes_first_and_a_page_chooses_none() -> None:
    name = "tests/unit/tools/test_near.py"
    assert near.ranked_tests([name]) == [(0, name)]
    assert near.ranked_tests(["docs/index.md"]) == []


def test_the_nearest_run_as_far_as_the_time_goes_and_changed_tests_always() -> None:
    ranked = [(2, "far"), (1, "slow"), (1, "quick"), (0, "mine")]
    took_s = {"far": 1.0, "slow": 50.0, "quick": 2.0, "mine": 90.0}
    assert near.within(ranked, took_s, 95.0) == (["mine", "quick"], ["slow", "far"])


def test_a_model_that_all_use_chooses_many_files() -> None:
    ranks = [rank for rank, _ in near.ranked_tests(["yarnam/core/model/tickets.py"])]
    assert ranks.count(1) > 20
    assert ranks.count(2) > 10
