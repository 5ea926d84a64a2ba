"""What a look at the cluster says to an administrator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.queues.test_waiting import TICKET, job, leaf, now
from yarnam.core.model.ids import NodeId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Closure, Closures, NodeStrike
from yarnam.core.model.tickets import SUSPENDED
from yarnam.core.queues.overview.alerts import NO_ALERTS, observe, step_alerts

MINIMUM = {"minimum": Resources(0, 0, 16), "used": Resources(0, 0, 4)}
WAITS = job(ticket=TICKET, expected_by_s=90.0)


def seen(*, queue: dict[str, Any] | None = None, one: Any = WAITS, **facts: Any) -> Any:
    return observe(now(leaf(**(queue or MINIMUM)), jobs=(one,), **facts), ())


def test_a_queue_is_short_while_a_gang_waits_that_its_minimum_covers() -> None:
    text = "queue root.a uses 4 of its minimum of 16 GPUs while its jobs wait"
    assert seen().short == {"root.a": text}
    for facts in (
        {"queue": {**MINIMUM, "used": Resources(0, 0, 16)}},
        {"queue": {"used": Resources(0, 0, 4)}},
        {"one": replace(WAITS, gpus=13)},
        {"one": replace(WAITS, ticket=replace(TICKET, blocked_reason=SUSPENDED))},
        {"one": replace(WAITS, queue="root.other")},
        {"closures": Closures(queues={"root": Closure("ann", 1.0, "upgrade")})},
    ):
        assert seen(**facts).short == {}, facts  # type: ignore[arg-type]
    asked = {**MINIMUM, "demand": Resources(0, 0, 6)}
    assert set(seen(queue=asked, one=replace(WAITS, gpus=13)).short) == {"root.a"}


@pytest.mark.parametrize(
    ("changes", "is_late"),
    [
        ({}, True), ({"expected_by_s": 101.0}, False), ({"expected_by_s": None}, False),
        ({"ticket": replace(TICKET, blocked_reason=SUSPENDED)}, False), ({"ticket": None}, False),
    ],
)  # fmt: skip
def test_a_gang_is_late_once_it_waits_beyond_its_forecast(
    changes: dict[str, Any], is_late: bool
) -> None:
    found = seen(one=replace(WAITS, **changes)).waiting
    assert found[WAITS.application].is_late is is_late
    if is_late:
        text = "train (application_1_0005) of ada in root.a has waited 50s, and was forecast to "
        assert found[WAITS.application].text.startswith(f"{text}start within 40s: ")


def test_a_late_gang_is_said_until_it_waits_no_more() -> None:
    step = step_alerts(NO_ALERTS, seen(), 100.0)
    assert [one.subject for one in step.said] == [WAITS.application]
    moved = step_alerts(step.state, seen(one=replace(WAITS, expected_by_s=900.0)), 110.0)
    assert (moved.said, moved.cleared) == ((), ())
    ended = step_alerts(moved.state, observe(now(), ()), 120.0)
    assert [one.subject for one in ended.cleared] == [WAITS.application]


def test_strikes_against_nodes_that_are_not_there_are_nothing() -> None:
    strikes = tuple(
        NodeStrike(NodeId(name), f"application_1_{k}", 90.0 + k, "ECC error")
        for name in ("n1", "forged")
        for k in range(3)
    )
    step = step_alerts(NO_ALERTS, observe(now(), strikes), 100.0)
    [said] = step.said
    assert said.text == (
        "node n1 was struck 3 times within a day by 3 jobs; the last time: ECC error"
    )


def test_without_the_wait_queue_only_strikes_are_known() -> None:
    found = observe(replace(now(leaf(**MINIMUM), jobs=(WAITS,)), knows_gangs=False), None)
    assert (found.strikes, found.short, found.waiting) == (None, None, None)
