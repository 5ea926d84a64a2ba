"""A client that means ill, among jobs that do not: tickets that it never acts upon. The jobs'
decisions are the real ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.sim.scenes import cluster, job, play, stuck
from yarnam.core.admission import delay_limit
from yarnam.core.admission.delay_limit import IDLE_LIMIT_S, RESERVED_LIMIT_S, SPREAD_S
from yarnam.core.model.resources import Resources
from yarnam.core.model.tickets import Demand, Ticket
from yarnam.sim import Mode, Outcome, SimJob, simulation
from yarnam.sim.sim_tickets import SimTicketQueue

pytestmark = pytest.mark.sim

MARGIN_S = 600.0
"""Twenty jobs run for 60 s, four at a time: five minutes. Starts, polls and back-offs as long."""

AN_HOUR_S = 3600.0


def foe(number: int, gpus: int, tasks: int = 1, **more: object) -> Ticket:
    demands = (Demand(Resources(1024, 1, gpus), tasks),)
    made = Ticket(number, f"foe{number}", "foe", "root.a", demands, -AN_HOUR_S)
    return replace(made, **more)  # type: ignore[arg-type]


def play_with(
    foes: list[Ticket],
    jobs: list[SimJob],
    monkeypatch: pytest.MonkeyPatch,
    limit_s: float = 30 * AN_HOUR_S,
) -> Outcome:
    class Occupied(SimTicketQueue):
        def __init__(self) -> None:
            super().__init__()
            self.tickets.update({ticket.number: ticket for ticket in foes})
            self._number = len(foes)

    monkeypatch.setattr(simulation, "SimTicketQueue", Occupied)
    return play(Mode.TICKETS, jobs, cluster(2), limit_s=limit_s)


def twenty() -> list[SimJob]:
    """Of four GPUs, on sixteen, within ten minutes."""
    return [job(number, 4, at_s=30.0 * number, runs_s=60.0) for number in range(20)]


FOES = {
    "waits with many small gangs and asks for none": [foe(n, 1) for n in range(1, 17)],
    "asks for everything and takes nothing": [foe(1, 8, 10_000, is_acquiring=True)],
    "the whole cluster, at once, for ever": [foe(n, 8, 2) for n in range(1, 5)],
    "more than there is": [foe(n, 8, 10**4) for n in range(1, 21)],
    "by other rules": [foe(n, 1, rules=7) for n in range(1, 17)],
}


@pytest.mark.parametrize("foes", FOES.values(), ids=FOES.keys())
def test_twenty_jobs_end_beside_tickets_that_nobody_acts_upon(
    foes: list[Ticket], monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = play_with(foes, twenty(), monkeypatch)
    assert stuck(outcome) == []
    bound_s = IDLE_LIMIT_S + SPREAD_S + MARGIN_S
    assert max(record.wait_s or 0.0 for record in outcome.records) <= bound_s


def test_without_the_limit_they_would_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the other tests are worth."""
    monkeypatch.setattr(delay_limit, "IDLE_LIMIT_S", float("inf"))
    monkeypatch.setattr(delay_limit, "RESERVED_LIMIT_S", float("inf"))
    foes = FOES["waits with many small gangs and asks for none"]
    outcome = play_with(foes, twenty(), monkeypatch, limit_s=2 * AN_HOUR_S)
    assert len(stuck(outcome)) == 20


def test_a_head_that_never_fits_keeps_its_nodes_for_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """It wants all nodes, and one GPU is in use for longer."""
    long = job(0, 1, per_task=1, runs_s=40 * AN_HOUR_S)
    late = [replace(one, submit_s=one.submit_s + 100.0, number=one.number + 1) for one in twenty()]
    outcome = play_with([foe(1, 8, 2, taken_at_s=50.0)], [long, *late], monkeypatch)
    assert stuck(outcome) == [0]
    bound_s = RESERVED_LIMIT_S + SPREAD_S + MARGIN_S
    assert max(record.wait_s or 0.0 for record in outcome.records) <= bound_s


def test_honest_jobs_never_reach_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without the limit they start at the same seconds, also where they wait for long."""
    jobs = [
        job(n, (8, 16, 4, 1)[n % 4], per_task=min(8, (8, 16, 4, 1)[n % 4]), at_s=20.0 * n,
            runs_s=(600.0, 5000.0, 900.0)[n % 3], declared_s=(None, 6000.0)[n % 2])
        for n in range(24)
    ]  # fmt: skip
    with_limit = play_with([], jobs, monkeypatch)
    monkeypatch.setattr(delay_limit, "IDLE_LIMIT_S", float("inf"))
    monkeypatch.setattr(delay_limit, "RESERVED_LIMIT_S", float("inf"))
    without = play_with([], jobs, monkeypatch)
    starts = [record.stood_s for record in with_limit.records]
    assert starts == [record.stood_s for record in without.records]
    assert max(record.wait_s or 0.0 for record in with_limit.records) > AN_HOUR_S
