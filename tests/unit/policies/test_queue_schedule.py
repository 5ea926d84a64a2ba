"""What follows from a queue's policy for one job, from what all jobs of the queue see alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from yarnam.core.admission import Ask, QueueSnapshot
from yarnam.core.admission.decision import MustWait
from yarnam.core.model.events import Event, ScaleRequested, SuspendRequested
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.plans import NoFit, PlacementPlan, Reason
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, Node, NodeState, QueueView
from yarnam.core.model.tickets import Demand, HoldState, PolicyTicket, RunningGang, Ticket
from yarnam.core.policies.chosen_policy import (
    NOTHING_CHOSEN,
    ActivePolicy,
    QueuePolicy,
    active_policy,
    checked,
)
from yarnam.core.policies.queue_schedule import (
    RECORD_SLACK_S,
    decide_by_schedule,
    event_of,
    queue_schedule,
)
from yarnam.core.policies.schedule import Act, JobDecision
from yarnam.core.queue_client.ticket_list import NOBODY
from yarnam.errors import UsageError

QUEUE, OTHER = "root.dl", "root.other"
VERSION = 7
NOW = 100_000.0


def chosen(name: str = "tiresias", **settings: str) -> ActivePolicy:
    usual = {"least_run": "0", "least_pause": "0"} if name == "tiresias" else {}
    found = active_policy(replace(checked(name, usual | settings), version=VERSION))
    assert found is not None
    return found


def told(job: str, **more: Any) -> PolicyTicket:
    usual: dict[str, Any] = {
        "submitted_at_s": NOW - 1000, "gpus": 0, "since_s": NOW - 1000, "can_suspend": True,
        "settings_version": VERSION,
    }  # fmt: skip
    return PolicyTicket(job, 0, **(usual | more))


def ticket(job: str, gpus: int, queue: str = QUEUE, each: int = 1, **more: Any) -> Ticket:
    policy = more.pop("policy", told(job))
    demand = Demand(Resources(1024, 1, each), gpus // each)
    return Ticket(1, job, job, queue, (demand,), NOW - 100, policy=policy, **more)


def gang(job: str, on: dict[str, int], queue: str = QUEUE, **more: Any) -> RunningGang:
    since_s = more.pop("since_s", NOW - 1000)
    policy = told(job, state=HoldState.RUNNING, since_s=since_s, **more)
    nodes = tuple((NodeId(node), gpus) for node, gpus in on.items())
    return RunningGang(job, queue, sum(on.values()), None, nodes, since_s, policy=policy)


def cluster(in_use: list[int], each: int = 4, **queue: Any) -> ClusterSnapshot:
    nodes = tuple(
        Node(NodeId(f"n{at}"), RackId("/r"), NodeState.RUNNING, Resources(99999, 99, each),
             Resources(0, 0, gpus))
        for at, gpus in enumerate(in_use)
    )  # fmt: skip
    view = QueueView(QUEUE, **queue)
    return ClusterSnapshot(NOW, nodes, view, queues=(view, QueueView(OTHER)))


def seen(
    snapshot: ClusterSnapshot, tickets: list[Ticket], gangs: list[RunningGang]
) -> QueueSnapshot:
    return QueueSnapshot(snapshot, tickets, gangs, NOW)


def row(job: str, world: QueueSnapshot, policy: ActivePolicy, **recorded: float) -> JobDecision:
    return queue_schedule(QUEUE, world, policy, recorded).row(job)


class Planning:
    """A planner that says what it is told to say."""

    def __init__(self, fits: bool) -> None:
        self.fits = fits
        self.has_claimed = False

    def __call__(
        self, avoid: tuple[NodeId, ...] = (), *, blind: bool = False
    ) -> PlacementPlan | NoFit:
        self.has_claimed |= blind
        return NoFit(Reason.TOO_FEW_FREE_GPUS, is_never=False, message="no room")


def test_a_long_job_yields_to_one_that_has_not_run() -> None:
    """The same rows for both, whoever computes them."""
    world = seen(cluster([4]), [ticket("new", 4)], [gang("old", {"n0": 4})])
    policy = chosen(limits="3600")
    assert row("old", world, policy).act is Act.YIELD
    assert row("new", world, policy).act is Act.RUN
    turned = seen(cluster([4]), world.tickets[::-1], world.running)  # type: ignore[arg-type]
    assert row("new", turned, policy) == row("new", world, policy)


def test_a_job_without_a_checkpoint_never_yields() -> None:
    world = seen(cluster([4]), [ticket("new", 4)], [gang("old", {"n0": 4}, can_suspend=False)])
    assert row("old", world, chosen(limits="3600")).act is Act.RUN
    assert row("new", world, chosen(limits="3600")).act is Act.WAIT


def test_nobody_yields_while_a_gang_is_acquired() -> None:
    """Its containers count twice for a moment: as granted, and as asked for."""
    asking = ticket("asking", 4, is_acquiring=True)
    world = seen(cluster([4, 4]), [asking, ticket("new", 4)], [gang("old", {"n0": 4})])
    found = row("old", world, chosen(limits="3600"))
    assert found.act is Act.RUN
    assert "first asking gets" in found.why


def test_gpus_that_a_gang_has_asked_for_are_not_free() -> None:
    """Four of eight are on their way to ``asking``: ``second`` does not fit, and under strict fifo
    nobody passes it."""
    asking = ticket("asking", 4, is_acquiring=True)
    second = ticket("second", 6, policy=told("second", submitted_at_s=NOW - 900))
    third = ticket("third", 2, policy=told("third", submitted_at_s=NOW - 800))
    world = seen(cluster([0], each=8), [asking, second, third], [])
    found = queue_schedule(QUEUE, world, chosen("fifo"), {})
    assert set(found.schedule.gpus) == {"asking"}
    assert set(queue_schedule(QUEUE, world, chosen("fifo", skip="1"), {}).schedule.gpus) == {
        "asking", "third",
    }  # fmt: skip


def test_a_gang_that_is_being_acquired_has_attained_nothing_by_its_wait() -> None:
    asking = ticket("asking", 4, is_acquiring=True)
    world = seen(cluster([0]), [asking], [])
    assert "attained service 0 GPU-s" in row("asking", world, chosen()).why


@pytest.mark.parametrize(("ago_s", "is_first"), [(2.0, True), (60.0, False)])
def test_gpus_just_given_back_are_free_for_who_is_first(ago_s: float, is_first: bool) -> None:
    """YARN still shows a gang of four in use that has been suspended for ``large``: ``itself``
    would start again on the half that is free."""
    large = ticket("large", 8, policy=told("large", submitted_at_s=NOW - 900))
    state = {"state": HoldState.SUSPENDED, "service_gpu_s": 9e3, "counted_gpu_s": 9e3}
    itself = ticket("itself", 4, policy=told("itself", since_s=NOW - ago_s, **state))
    world = seen(cluster([4], each=8), [large, itself], [])
    found = queue_schedule(QUEUE, world, chosen(limits="3600"), {})
    assert set(found.schedule.gpus) == ({"large"} if is_first else {"itself"})


def test_a_slice_ends_for_who_may_use_these_nodes_alone_though_others_are_free() -> None:
    """It looks as if both had room; that the gang may not run elsewhere either, its tickets say
    once it waits."""
    choosy = ticket("choosy", 4, included=(NodeId("n0"),))
    world = seen(cluster([4, 0]), [choosy], [gang("old", {"n0": 4})])
    policy = chosen("gandiva", slice="10")
    assert row("old", world, policy).act is Act.MOVE
    assert row("choosy", world, policy).act is Act.RUN
    anywhere = seen(cluster([4, 0]), [ticket("any", 4)], world.running)  # type: ignore[arg-type]
    assert row("old", anywhere, policy).act is Act.RUN


def test_an_elastic_gang_shrinks_for_who_may_use_its_nodes_alone() -> None:
    choosy = ticket("choosy", 2, included=(NodeId("n0"),))
    large = gang("large", {"n0": 4}, least_gpus=1, most_gpus=8)
    world = seen(cluster([4, 0]), [choosy], [large])
    policy = chosen("optimus", interval="1")
    found = row("large", world, policy)
    assert (found.act, found.gpus) == (Act.RESIZE, 1)
    assert row("choosy", world, policy).act is Act.RUN
    anywhere = seen(cluster([4, 0]), [ticket("any", 2)], [large])
    assert row("large", anywhere, policy).act is Act.RUN


def test_jobs_of_other_queues_are_none_of_its_affair() -> None:
    others = [ticket("theirs", 4, OTHER, policy=None)]
    gangs = [gang("mine", {"n0": 4}), gang("other", {"n1": 4}, OTHER)]
    world = seen(cluster([4, 4]), others, gangs)
    assert row("mine", world, chosen(limits="3600")).act is Act.RUN
    with pytest.raises(KeyError):
        row("theirs", world, chosen())


def test_what_strangers_hold_is_not_given_out() -> None:
    """A second node is full with what no gang of the queue holds."""
    world = seen(cluster([4, 4]), [ticket("new", 4)], [gang("old", {"n0": 4})])
    assert row("new", world, chosen("fifo")).act is Act.WAIT


@pytest.mark.parametrize("nodes", [{"n0": 4, "gone": 4}, {"n0": 4}])
def test_a_gang_that_runs_fits_where_it_runs(nodes: dict[str, int]) -> None:
    """One of its nodes has gone from the list, or its books and YARN's differ for a moment."""
    world = seen(cluster([2]), [], [gang("mine", nodes)])
    assert row("mine", world, chosen()).act is Act.RUN
    silent = replace(gang("silent", {"n0": 4}), nodes=())
    assert row("silent", seen(cluster([4]), [], [silent]), chosen()).act is Act.RUN


def test_the_queues_maximum_is_never_exceeded() -> None:
    full = {"used": Resources(0, 0, 4), "maximum": Resources(10**6, 10**6, 4)}
    world = seen(cluster([4, 0], **full), [ticket("new", 4)], [gang("old", {"n0": 4})])
    assert row("new", world, chosen("fifo")).act is Act.WAIT
    world = seen(cluster([4, 0]), [ticket("new", 4)], [gang("old", {"n0": 4})])
    assert row("new", world, chosen("fifo")).act is Act.RUN


def test_a_gang_that_does_not_fit_node_by_node_makes_another_yield() -> None:
    """Two GPUs are free on each of two nodes; its container needs four on one."""
    gangs = [gang("old", {"n0": 2}), gang("older", {"n1": 2}, since_s=NOW - 90_000)]
    world = seen(cluster([2, 2]), [ticket("new", 4, each=4)], gangs)
    policy = chosen(limits="3600")
    assert row("new", world, policy).act is Act.RUN
    assert row("old", world, policy).act is Act.RUN
    # Not a yield: it fits on the other node, but has to stop to get there.
    assert row("older", world, policy).act is Act.MOVE


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (told("new", settings_version=VERSION - 1), "not all jobs know"),
        (told("new", rules=99), "several versions"),
        (None, "several versions"),
    ],
)
def test_mixed_versions_go_by_arrival_and_suspend_nobody(
    other: PolicyTicket | None, why: str
) -> None:
    world = seen(cluster([4]), [ticket("new", 4, policy=other)], [gang("old", {"n0": 4})])
    for job in ("old", "new"):
        assert why in row(job, world, chosen(limits="3600")).why
    assert row("old", world, chosen(limits="3600")).act is Act.RUN


@pytest.mark.parametrize(
    "stored",
    [
        QueuePolicy("no-such-policy", version=VERSION),
        QueuePolicy("tiresias", (("limits", "minus one"),), version=VERSION),
        QueuePolicy("tiresias", (("colour", "red"),), version=VERSION),
        QueuePolicy("", version=VERSION, trouble="it has 9999999 bytes"),
    ],
)
def test_a_choice_that_cannot_be_carried_out_is_said_and_suspends_nobody(
    stored: QueuePolicy,
) -> None:
    found = active_policy(stored)
    assert found is not None
    assert found.policy is None
    world = seen(cluster([4]), [ticket("new", 4)], [gang("old", {"n0": 4})])
    assert row("old", world, found).act is Act.RUN
    assert "not usable" in row("new", world, found).why


def test_nothing_chosen_and_the_default_are_the_same() -> None:
    assert active_policy(None) is None
    assert active_policy(NOTHING_CHOSEN) is None
    assert active_policy(QueuePolicy("smallest-first", version=3)) is None


@pytest.mark.parametrize(
    ("name", "settings"),
    [("tiresias", {"limits": "-1"}), ("nonsense", {}), ("fifo", {"limits": "3"})],
)
def test_an_administrators_slip_is_refused(name: str, settings: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        checked(name, settings)


def test_a_job_cannot_pretend_to_be_new() -> None:
    """The ResourceManager has charged it 8 hours of 4 GPUs; it says that it has had nothing."""
    liar = gang("liar", {"n0": 4}, since_s=NOW - 10)
    service = {"service_gpu_s": 4000.0, "counted_gpu_s": 4000.0}
    honest = ticket("honest", 4, policy=told("honest", state=HoldState.SUSPENDED, **service))
    world = seen(cluster([4]), [honest], [liar])
    policy = chosen(limits="20000")
    assert row("liar", world, policy).act is Act.RUN
    assert row("liar", world, policy, liar=4 * 8 * 3600.0).act is Act.YIELD
    short = RECORD_SLACK_S * 4
    assert row("liar", world, policy, liar=short).act is Act.RUN, "an honest job falls short too"


def test_a_clock_that_is_ahead_gains_nothing() -> None:
    world = seen(cluster([4]), [ticket("new", 4)], [gang("ahead", {"n0": 4}, since_s=NOW + 9e6)])
    assert "attained service 0 GPU-s" in row("ahead", world, chosen(limits="3600")).why


def test_set_aside_for_another_reason_does_not_count() -> None:
    resting = ticket("resting", 4, policy=None, blocked_reason="its attempt backs off")
    world = seen(cluster([0]), [resting, ticket("new", 4)], [])
    found = queue_schedule(QUEUE, world, chosen("fifo"), {})
    assert [one.job for one in found.schedule.order] == ["new"]


def test_a_job_that_has_to_wait_asks_for_nothing_though_its_gang_fits() -> None:
    me = ticket("me", 2, policy=told("me", submitted_at_s=NOW - 10))
    first = ticket("first", 4)
    world = seen(cluster([2]), [first], [])
    found, world = NOBODY.schedule(me, world, chosen("fifo"))
    decision, row = decide_by_schedule(found, me, world, Planning(fits=True))
    assert isinstance(decision, MustWait)
    assert decision.is_by_policy
    assert decision.head == first
    assert row.act is Act.WAIT


def test_a_job_that_is_to_run_is_held_up_by_those_alone_that_run_too() -> None:
    """Today's rule would have the smaller job first; it is not to run by the policy."""
    me = ticket("me", 4)
    smaller = ticket("smaller", 2, policy=told("smaller", submitted_at_s=NOW - 10))
    world = seen(cluster([0]), [smaller], [])
    found, world = NOBODY.schedule(me, world, chosen("fifo"))
    decision, row = decide_by_schedule(found, me, world, Planning(fits=True))
    assert row.act is Act.RUN
    assert not isinstance(decision, Ask)
    assert not getattr(decision, "ahead", 0), "nobody is ahead of it"


@pytest.mark.parametrize(("excluded", "claims"), [("n1", False), ("n9", True)])
def test_what_its_own_queue_gives_back_a_job_does_not_claim_from_others(
    excluded: str, claims: bool
) -> None:
    """Its queue is below its share, another above, and YARN preempts: but for the policy it would
    claim."""
    share = {"used": Resources(0, 0, 4), "minimum": Resources(0, 0, 8)}
    shown = cluster([4, 0], **share)
    rich = QueueView(OTHER, used=Resources(0, 0, 1))
    snapshot = replace(shown, preempts=True, queues=(shown.queue, rich))
    me = ticket("me", 4, excluded=(NodeId(excluded),))
    planning = Planning(fits=False)
    world = seen(snapshot, [], [gang("old", {"n0": 4})])
    found, world = NOBODY.schedule(me, world, chosen(limits="3600"))
    decide_by_schedule(found, me, world, planning, may_fit=False)
    assert planning.has_claimed is claims


def test_an_elastic_job_gets_more_while_they_are_idle() -> None:
    rates = ((1, 1.0),)
    elastic = gang("elastic", {"n0": 1}, least_gpus=1, most_gpus=4, rates=rates,
                   remaining_steps=1e5, since_s=NOW - 5000)  # fmt: skip
    world = seen(cluster([1]), [], [elastic])
    found = row("elastic", world, chosen("optimus", interval="1"))
    assert found.act is Act.RESIZE
    assert found.gpus == 4


def test_a_size_counts_when_two_looks_come_to_it() -> None:
    """Containers that have just been released are nobody's for a moment."""
    first = JobDecision("elastic", Act.RESIZE, 3, 1, "")
    again, other = replace(first, why="still"), replace(first, gpus=4)

    def says(row: JobDecision, before: JobDecision | None) -> Event | None:
        return event_of(
            row, "policy", NOW, is_suspended=False, before=before, tasks_for=lambda n: n
        )

    assert says(first, None) is None
    assert says(other, first) is None
    assert says(first, replace(first, act=Act.RUN)) is None
    assert says(again, first) == ScaleRequested(NOW, "policy", 3, is_policy=True)
    # Who has to yield does so at once.
    assert isinstance(says(replace(first, act=Act.YIELD, gpus=0), None), SuspendRequested)
