"""Which tickets are believed: those that the ResourceManager confirms and that could be true."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest

from yarnam.core.admission.ticket_checks import (
    CLOCK_SKEW_S,
    MOST_DEMANDS,
    SETTLED_S,
    believed_gang,
    believed_ticket,
)
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.job_spec import MAX_TASKS
from yarnam.core.model.resources import Resources
from yarnam.core.model.tickets import Demand, LiveApplication, RunningGang, Ticket

NOW_S = 100_000.0
STARTED_S = 90_000.0
APP = LiveApplication("application_1_7", "me", "root.dl", STARTED_S, 1)
LIVE = {APP.application: APP}
ONE = Demand(Resources(1024, 1, 1), 4)
TRUE = Ticket(
    3, APP.application, "train", "root.dl", (ONE,), STARTED_S + 20.0, user="me", seen_at_s=NOW_S
)
GANG = RunningGang(APP.application, "root.dl", 4, NOW_S + 60.0, ((NodeId("n1"), 4),), NOW_S - 60.0)


def of(*demands: Demand) -> Ticket:
    return replace(TRUE, demands=demands)


def sized(memory_mib: int = 1024, vcores: int = 1, gpus: int = 1, count: int = 1) -> Ticket:
    return of(Demand(Resources(memory_mib, vcores, gpus), count))


def test_a_true_ticket_is_believed_as_it_is() -> None:
    assert believed_ticket(TRUE, LIVE, NOW_S) == TRUE
    assert believed_ticket(TRUE, None, NOW_S) == TRUE
    assert believed_gang(GANG, LIVE) == GANG


ABSURD = {
    "no size, 10**9 times": of(Demand(Resources(0, 0, 0), 10**9)),
    "no size": sized(0, 0, 0),
    "no memory": sized(memory_mib=0),
    "no cores": sized(vcores=0),
    "negative GPUs": sized(gpus=-1),
    "negative count": sized(count=-5),
    "no containers": sized(count=0),
    "too many containers": sized(count=MAX_TASKS + 1),
    "too many in all": of(*[Demand(Resources(1, 1, 0), MAX_TASKS // 2)] * 3),
    "no demands": of(),
    "too many demands": of(*[ONE] * (MOST_DEMANDS + 1)),
    "more memory than can be counted": sized(memory_mib=10**30),
    "a forecast that is not a time": replace(TRUE, forecast_s=nan),
    "before all times": replace(TRUE, taken_at_s=-1.0),
    "at no time": replace(TRUE, taken_at_s=nan),
    "never": replace(TRUE, taken_at_s=inf),
    "endless": replace(TRUE, duration_s=inf),
    "negative duration": replace(TRUE, duration_s=-1.0),
    "priority": replace(TRUE, priority=10**6),
    "a long name": replace(TRUE, name="x" * 10**5),
    "an escape": replace(TRUE, name="\x1b]52;c;aGk=\x07"),
    "an escape aside": replace(TRUE, blocked_reason="\x1b[2J"),
    "an escape for a rack": of(replace(ONE, racks=(RackId("\x1b[2J"),))),
    "a long node": of(replace(ONE, nodes=(NodeId("n" * 10**5),))),
    "too many nodes": replace(TRUE, included=(NodeId("n"),) * (MAX_TASKS + 1)),
}


@pytest.mark.parametrize("ticket", ABSURD.values(), ids=ABSURD.keys())
def test_what_no_job_writes_is_refused_with_and_without_the_resource_manager(
    ticket: Ticket,
) -> None:
    for live in (LIVE, None):
        reason = believed_ticket(ticket, live, NOW_S)
        assert isinstance(reason, str)
        assert len(reason) < 200
        assert reason.isprintable()


FALSE = {
    "no such application": (replace(TRUE, job="application_1_8"), "no such living application"),
    "another's": (replace(TRUE, user="you"), "not of the user 'me'"),
    "nobody's": (replace(TRUE, user=""), "not of the user 'me'"),
    "at the beginning of time": (replace(TRUE, taken_at_s=0.0), "before its application began"),
    "a little too early": (
        replace(TRUE, taken_at_s=STARTED_S - CLOCK_SKEW_S - 1.0),
        "before its application began",
    ),
}


@pytest.mark.parametrize(("ticket", "reason"), FALSE.values(), ids=FALSE.keys())
def test_what_the_resource_manager_does_not_confirm_does_not_count(
    ticket: Ticket, reason: str
) -> None:
    found = believed_ticket(ticket, LIVE, NOW_S)
    assert isinstance(found, str)
    assert reason in found
    # Without its word nothing better is known: the limits of delay_limit hold all the same.
    assert believed_ticket(ticket, None, NOW_S) == ticket


def test_no_place_is_earlier_than_the_application() -> None:
    """The AM's clock is behind the ResourceManager's by less than is let pass."""
    found = believed_ticket(replace(TRUE, taken_at_s=STARTED_S - 30.0), LIVE, NOW_S)
    assert isinstance(found, Ticket)
    assert found.taken_at_s == STARTED_S


def test_the_queue_is_the_resource_managers() -> None:
    moved = {APP.application: replace(APP, queue="root.small")}
    found = believed_ticket(TRUE, moved, NOW_S)
    assert isinstance(found, Ticket)
    assert found.queue == "root.small"
    gang = believed_gang(GANG, moved)
    assert isinstance(gang, RunningGang)
    assert gang.queue == "root.small"
    leaf = {APP.application: replace(APP, queue="dl")}  # as the Capacity Scheduler says it
    found = believed_ticket(TRUE, leaf, NOW_S)
    assert isinstance(found, Ticket)
    assert found.queue == "root.dl"


def test_who_holds_containers_does_not_wait() -> None:
    """A ticket in the name of a job that runs: it would be at the head of the queue at once."""
    running = {APP.application: replace(APP, containers=5)}
    assert isinstance(believed_ticket(TRUE, running, NOW_S), str)
    for other in (
        replace(TRUE, is_acquiring=True),  # its grants arrive, or it replaces lost tasks
        replace(TRUE, blocked_reason="its attempt backs off"),
    ):
        assert believed_ticket(other, running, NOW_S) == other
    # One that has just come may still hold what Skein asked for before there was a plan.
    assert believed_ticket(TRUE, running, STARTED_S + SETTLED_S - 1.0) == TRUE


@pytest.mark.parametrize(
    "gang",
    [
        replace(GANG, job="application_1_8"),
        replace(GANG, gpus=-1),
        replace(GANG, gpus=10**30),
        replace(GANG, nodes=((NodeId("n1"), -8),)),
        replace(GANG, nodes=((NodeId("n1"), 8),) * (MAX_TASKS + 1)),
        replace(GANG, ends_at_s=nan),
        replace(GANG, ends_at_s=inf),
        replace(GANG, since_s=-inf),
        replace(GANG, queue="\x1b[2J"),
    ],
)
def test_an_absurd_or_unknown_running_gang_does_not_count(gang: RunningGang) -> None:
    assert isinstance(believed_gang(gang, LIVE), str)


def test_no_gang_has_run_for_longer_than_its_application() -> None:
    found = believed_gang(replace(GANG, since_s=0.0), LIVE)
    assert isinstance(found, RunningGang)
    assert found.since_s == STARTED_S
