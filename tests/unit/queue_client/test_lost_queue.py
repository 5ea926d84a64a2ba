"""A waiting job whose queue goes away acts by a poll of its own, never by another one's."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.cluster_view import cluster
from tests.property.queue_world import JOB, RECORD, poll_of
from tests.unit.am.am_world import APPLICATION
from yarnam.core.model.plans import PlacementPlan
from yarnam.core.model.tickets import MustWait
from yarnam.core.queue_client import ClientLimits, QueueClient, new_client, queued_job, step
from yarnam.core.queue_client import client_actions as ca
from yarnam.core.queue_client import client_events as ce
from yarnam.core.queue_client.client_state import Admission, Stage, wanted_ticket

NOW_S = 1_000.0
LIMITS = ClientLimits()


def waiting(*, lost_for_s: float) -> QueueClient:
    """A job that has waited, while its ticket cannot be written."""
    job = queued_job(JOB, RECORD.targets, APPLICATION, LIMITS, has_queue=True)
    client = replace(new_client(job), is_connected=True)
    last = MustWait(1, wanted_ticket(client, NOW_S), "its GPUs are not free")
    lost_at_s = NOW_S - lost_for_s
    admission = Admission(Stage.ENTERING, awaits=1, last=last, lost_at_s=lost_at_s, has_waited=True)
    return replace(client, serial=1, admission=admission)


def polled(client: QueueClient, *, is_shared: bool) -> tuple[QueueClient, ca.ClientAction]:
    snapshot = replace(cluster(), is_shared=is_shared)
    event = ce.ClusterPolled(client.serial, poll_of(snapshot, NOW_S))
    client, (action,) = step(client, event, ce.Moment(NOW_S))
    return client, action


def test_for_a_while_it_waits_for_the_queue() -> None:
    for is_shared in (False, True):
        _, action = polled(waiting(lost_for_s=0.0), is_shared=is_shared)
        assert isinstance(action, ca.Pause)
        assert action.pause_s == LIMITS.retry_s


def test_then_it_polls_itself_before_it_asks() -> None:
    client, action = polled(waiting(lost_for_s=LIMITS.grace_s), is_shared=True)
    assert isinstance(action, ca.PollCluster)
    assert action.max_age_s is None
    client, action = polled(client, is_shared=False)
    # It has waited, so a second poll confirms the room.
    assert isinstance(action, ca.Pause)
    client, (again,) = step(client, ce.PauseOver(client.serial), ce.Moment(NOW_S))
    assert isinstance(again, ca.PollCluster)
    _, action = polled(client, is_shared=False)
    assert isinstance(action, ca.AnswerPlan)
    assert isinstance(action.outcome, PlacementPlan)
