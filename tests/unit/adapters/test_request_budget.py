"""The hard cap on what one job asks of the ResourceManager."""

from __future__ import annotations

import pytest

from yarnam.adapters.yarn.request_budget import SHOWN_S, RequestBudget
from yarnam.adapters.yarn.rest import ResourceManager
from yarnam.errors import Unavailable


class Time:
    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def budget(self, burst: int = 3) -> RequestBudget:
        return RequestBudget(0.5, burst, now_s=lambda: self.now, sleep=self.sleep)


def test_a_burst_goes_at_once_and_the_rest_at_its_pace() -> None:
    time = Time()
    budget = time.budget()
    assert all(budget.take(60.0) for _ in range(3))
    assert time.slept == []
    assert budget.trouble == ""
    assert all(budget.take(60.0) for _ in range(5))
    assert time.slept == pytest.approx([2.0] * 5)
    assert "at most 0.5 requests a second" in budget.trouble


def test_what_was_not_used_comes_back_up_to_a_burst() -> None:
    time = Time()
    budget = time.budget()
    for _ in range(4):
        budget.take(60.0)
    time.now += 3600.0
    time.slept.clear()
    assert all(budget.take(0.0) for _ in range(3))
    assert not budget.take(0.0)
    time.now += SHOWN_S
    assert budget.trouble == ""


def test_who_cannot_wait_so_long_is_refused_and_uses_nothing() -> None:
    time = Time()
    budget = time.budget(burst=1)
    assert budget.take(0.0)
    assert not budget.take(1.0)
    assert time.slept == []
    time.now += 2.0
    assert budget.take(0.0)


def test_the_resource_manager_is_not_asked_beyond_the_budget() -> None:
    budget = RequestBudget(1e-6, 1)
    budget.take(0.0)
    with pytest.raises(Unavailable, match="asks the ResourceManager less often"):
        ResourceManager(["http://127.0.0.1:9"], budget=budget).queues()
