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


def test_while_the_queue_is_away_the_resourcemanager_is_left_alone() -> None:
    """A thousand jobs would ask it a thousand times a second, instead of one for all of them."""
    client = replace(waiting(lost_for_s=0.0), queue_trouble="ZooKeeper does not answer")
    admission = replace(client.admission, stage=Stage.PAUSING, lost_at_s=None)
    client, now_s, pauses = replace(client, admission=admission), NOW_S, 0
    while True:
        client, actions = step(client, ce.PauseOver(client.admission.awaits), ce.Moment(now_s))
        if not all(isinstance(action, ca.Pause) for action in actions):
            break
        (pause,) = actions
        assert isinstance(pause, ca.Pause)
        now_s, pauses = now_s + pause.pause_s, pauses + 1
    assert pauses > 1
    assert now_s == NOW_S + LIMITS.grace_s
    assert any(isinstance(action, ca.PollCluster) for action in actions)


def test_after_its_return_the_jobs_poll_in_the_order_of_the_queue() -> None:
    pauses = []
    for ahead in (0, 10, 40):
        client = waiting(lost_for_s=5.0)
        last = replace(client.admission.last, ahead=ahead)  # type: ignore[type-var]
        admission = replace(client.admission, stage=Stage.LOST, last=last)
        client = replace(client, admission=admission)
        client, (pause,) = step(client, ce.PauseOver(client.serial), ce.Moment(NOW_S, 0.5))
        assert isinstance(pause, ca.Pause)
        pauses.append(pause.pause_s)
        _, actions = step(client, ce.PauseOver(client.admission.awaits), ce.Moment(NOW_S))
        assert any(isinstance(action, ca.PollCluster) for action in actions)
    assert pauses[0] < 2.5 < pauses[1] < pauses[2]
