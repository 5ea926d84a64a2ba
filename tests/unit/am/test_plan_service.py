"""A gang that starts anew waits for the checks of inputs that its processes have reported."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.cluster_view import FakeView, cluster
from tests.fakes.serial_executor import InlineSerialExecutor
from tests.unit.am.am_world import job, record_of
from yarnam.am.am_settings import AmSettings
from yarnam.am.plan_service import PlanService
from yarnam.core.model.actions import RequestPlan
from yarnam.core.model.events import Event, PlanReady


@pytest.mark.parametrize("checks", [(2, 1, 0), (1,) * 1000])
def test_it_waits_for_them_with_a_reason_and_a_limit(checks: tuple[int, ...]) -> None:
    clock, told, reasons = FakeClock(), list[Event](), list[str]()
    left = list(checks)

    async def sleep(seconds: float) -> None:
        reasons.append(service.trouble)
        clock.advance(seconds)
        left.pop(0)

    service = PlanService(
        record_of(job()), FakeView(cluster()), InlineSerialExecutor(), clock, told.append,
        AmSettings(check_patience_s=20.0), sleep, open_checks=lambda: left[0],
    )  # fmt: skip

    async def run() -> None:
        service.request(RequestPlan(2, 0))
        while not told:
            await asyncio.sleep(0)

    asyncio.run(run())
    assert isinstance(told[0], PlanReady)
    assert service.trouble == ""
    if len(checks) == 3:
        assert reasons[0] == "2 inputs are being checked for damage (20 s at most)"
        assert reasons[1].startswith("1 input is being checked")
    else:
        assert left, "it went on when its patience was over"
