"""What a job tells its policy, after changes of its size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.gang.elastic_play import Elastic, elastic_job
from tests.unit.gang.play import T0, failing, stopped
from yarnam.core.accounting.attained_service import JobFacts, Service, policy_ticket, served
from yarnam.core.accounting.ledger import Accounts, account_all
from yarnam.core.gang import Gang, policy_for
from yarnam.core.model.events import Event, ScaleRequested, TrainingReported
from yarnam.core.model.job_status import Phase
from yarnam.core.model.tickets import PolicyTicket

FACTS = JobFacts("application_1_0001", T0, 1, steps_left=1000.0)

BEFORE_S = 31.0
"""From the submission until the gang is complete."""


def told(play: Elastic) -> PolicyTicket:
    service = Service()

    def serve(before: Gang, event: Event, after: Gang, books: Accounts) -> None:
        nonlocal service
        service = served(service, before, event, after, books)

    gang, books = account_all(play.spec, T0, play.events, serve)
    assert gang == play.gang
    size = policy_for(play.spec).size
    return policy_ticket(play.spec, gang, size, service, books, FACTS, play.now_s)


def trains(play: Elastic, steps: int, per_s: float) -> None:
    """Two seconds until it trains, then so many steps."""
    attempt = play.gang.attempt
    play.after(2.0).send(TrainingReported(0, attempt, 100, saved_step=100))
    play.after(steps / per_s).send(TrainingReported(0, attempt, 100 + steps, saved_step=100))


def two_sizes() -> Elastic:
    """A gang of four tasks of two GPUs runs for 102 s, stops for three and goes on with two."""
    play = Elastic(elastic_job()).running(4)
    trains(play, 200, 2.0)
    play.send(ScaleRequested(0, "the queue's policy", 2, is_policy=True))
    assert play.gang.phase is Phase.STOPPING
    play.after(3.0)
    for member in play.gang.members:
        play.exited(member.ask, stopped(0), stopped(1))
    assert play.gang.phase is Phase.LAUNCHING
    return play


def test_a_new_size_begins_a_run_of_its_own() -> None:
    play = two_sizes()
    since_s = play.now_s
    play.start_all()
    trains(play, 100, 1.0)
    ticket = told(play)
    assert abs(ticket.since_s - since_s) < 0.1
    # The speed at the size that it has left is not forgotten.
    assert ticket.rates == ((4, 1.0), (8, 2.0))
    # Three seconds to stop, two to train again: not all the time since it first ran.
    assert ticket.pause_cost_s == pytest.approx(5.0)


def test_service_is_counted_at_the_size_that_it_had() -> None:
    play = two_sizes()
    play.start_all()
    trains(play, 100, 1.0)
    ticket = replace(told(play), gpus=4)
    of_eight_s = ticket.since_s - T0 - BEFORE_S
    assert ticket.service_gpu_s == pytest.approx(8 * of_eight_s, rel=0.01)
    assert ticket.service(play.now_s) - ticket.service_gpu_s == pytest.approx(4 * 102.0)


def test_a_run_that_fails_costs_no_pause() -> None:
    play = Elastic(elastic_job()).running(4)
    trains(play, 200, 2.0)
    before = told(play).pause_cost_s
    first = play.gang.members[0]
    play.exited(first.ask, failing())
    play.after(9.0)
    for member in play.gang.members[1:]:
        play.exited(member.ask, stopped(0), stopped(1))
    assert told(play).pause_cost_s == before
