"""What the planner does differently under the Capacity Scheduler."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.placement.clusters import cluster, job, node, where
from yarnam.client.planning.outlook import outlook
from yarnam.client.submit.preflight import checked_on
from yarnam.core.admission.forecast import Forecast
from yarnam.core.admission.job_ticket import job_ticket
from yarnam.core.model.job_spec import JobSpec, PackOrSpread
from yarnam.core.model.plans import LocalityLevel, NoFit, Reason, Supplement
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, QueueView, Scheduler, in_partitions
from yarnam.core.model.tickets import Ticket, in_same_partitions
from yarnam.core.placement import declared_targets, ladder_for_submit, plan
from yarnam.core.placement.supplement import plan_supplement
from yarnam.core.queue_client.ticket_list import TicketList
from yarnam.errors import BadSpec, NeverFits


def by_capacity(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    return replace(snapshot, scheduler=Scheduler.CAPACITY)


def labelled() -> ClusterSnapshot:
    """8 GPUs without a label, 8 with one."""
    snapshot = cluster({"a": [8]})
    return by_capacity(
        replace(snapshot, nodes=(*snapshot.nodes, node("g0", "/a", 8, labels=("gpu",))))
    )


def with_label(label: str, tasks: int = 4) -> object:
    one = job(tasks, 2)
    return replace(one, placement=replace(one.placement, node_label=label))


def test_a_rack_is_asked_for_by_the_names_of_its_nodes() -> None:
    snapshot, one = cluster({"a": [4, 4], "b": [4, 4]}), job(8, 1)
    by_rack, by_name = (ladder_for_submit(each, one) for each in (snapshot, by_capacity(snapshot)))
    assert not isinstance(by_rack, NoFit)
    assert not isinstance(by_name, NoFit)
    assert any(target.racks for target in declared_targets(by_rack))
    targets = declared_targets(by_name)
    assert not any(target.racks for target in targets)
    whole = [target for target in targets if target.nodes == ("a0", "a1")]
    assert [target.level for target in whole] == [LocalityLevel.NODE]
    # The ladder is as good as with racks: level by level the same.
    assert [rung.level for rung in by_name.rungs] == [rung.level for rung in by_rack.rungs]


def test_a_job_without_a_label_keeps_to_nodes_without_one() -> None:
    assert checked_on(labelled(), job(4, 2)).plan.rungs[0].asks[0].expected_nodes == ("a0",) * 4
    with pytest.raises(NeverFits):
        checked_on(labelled(), job(8, 2))


def test_a_job_with_a_label_keeps_to_its_nodes() -> None:
    found = checked_on(labelled(), with_label("gpu"))  # type: ignore[arg-type]
    assert found.plan.rungs[0].asks[0].expected_nodes == ("g0",) * 4


@pytest.mark.parametrize(
    ("snapshot", "says", "hint"),
    [
        (labelled(), "no node has the label 'tpu'", "Labels: gpu"),
        (by_capacity(cluster({"a": [8]})), "no node has the label 'tpu'", "No node has a label."),
        (cluster({"a": [8]}), "has no node labels", "placement.include_nodes"),
    ],
)
def test_a_label_that_cannot_be_is_refused_by_name(
    snapshot: ClusterSnapshot, says: str, hint: str
) -> None:
    with pytest.raises(BadSpec, match=says) as error:
        checked_on(snapshot, with_label("tpu"))  # type: ignore[arg-type]
    assert hint in error.value.hint


def test_other_schedulers_have_no_partitions() -> None:
    snapshot = replace(labelled(), scheduler=Scheduler.FAIR)
    assert in_partitions(snapshot, ("",)) is snapshot


def two_labels(tasks: int = 4, **placement: object) -> JobSpec:
    """Workers of 2 GPUs on nodes with the label ``gpu``, a parameter server on those without."""
    one = job(tasks, 2, ps=1, am=True, **placement)
    labels = {"worker": "gpu", "ps": ""}
    return replace(
        one, roles=tuple(replace(role, node_label=labels[role.name]) for role in one.roles)
    )


@pytest.mark.parametrize("placement", [{}, {"strategy": PackOrSpread.SPREAD}, {"max_nodes": 3}])
def test_each_role_keeps_to_the_nodes_of_its_label(placement: dict[str, object]) -> None:
    snapshot = by_capacity(
        ClusterSnapshot(
            1000.0,
            (
                *(node(f"a{i}", "/a", 8) for i in range(2)),
                *(node(f"g{i}", "/a", 4, labels=("gpu",)) for i in range(2)),
                node("t0", "/a", 8, labels=("tpu",)),
            ),
            QueueView("root.ml"),
        )
    )
    one = two_labels(2, **placement)
    assert one.node_labels == ("gpu", "")
    checked = checked_on(snapshot, one)
    for rung in checked.plan.rungs:
        assert where(rung, "worker").keys() <= {"g0", "g1"}
        assert where(rung, "ps").keys() <= {"a0", "a1"}
    pins = [target for target in checked.plan.extra_targets if target.domain.startswith("pin")]
    assert all(t.nodes[0][0] == {"worker": "g", "ps": "a"}[t.role] for t in pins)
    # As planned again by the ApplicationMaster, and for the replacement of one lost task.
    kept = in_partitions(snapshot, one.node_labels)
    targets = declared_targets(checked.plan)
    again = plan(kept, one, targets=targets)
    assert not isinstance(again, NoFit)
    lost = next(ask for ask in again.rungs[0].asks if ask.target.role == "ps")
    for ask, nodes in ((lost, {"a0", "a1"}), (again.rungs[0].asks[0], {"g0", "g1"})):
        part = Supplement((replace(ask, count=1),), (), again.rungs[0])
        found = plan_supplement(kept, one, part, targets=targets)
        assert not isinstance(found, NoFit)
        assert set(found.rungs[0].asks[0].expected_nodes) <= nodes


def test_what_one_partition_lacks_another_does_not_give() -> None:
    assert checked_on(labelled(), two_labels(4)).plan.rungs
    with pytest.raises(NeverFits):
        checked_on(labelled(), two_labels(5))


def test_the_limits_of_a_queue_hold_in_each_partition() -> None:
    snapshot, unlimited = labelled(), Resources(1 << 40, 1 << 20, 100)

    def limited(gpus: int, maximum: int = 8) -> ClusterSnapshot:
        here = replace(
            snapshot.queue,
            maximum=replace(unlimited, gpus=maximum),
            headroom=replace(unlimited, gpus=gpus),
        )
        return replace(snapshot, queue=here, partitions=(("gpu", here), ("", snapshot.queue)))

    targets = declared_targets(checked_on(limited(8), two_labels()).plan)
    assert not isinstance(plan(limited(8), two_labels(), targets=targets), NoFit)
    full = plan(limited(7), two_labels(), targets=targets)
    assert isinstance(full, NoFit)
    assert full.reason is Reason.QUEUE_FULL
    with pytest.raises(NeverFits, match="may use at most"):
        checked_on(limited(7, maximum=7), two_labels())


@pytest.mark.parametrize(
    ("snapshot", "says"),
    [
        (cluster({"a": [8]}), r"roles.worker.node_label is 'gpu', but this cluster has no node"),
        (
            by_capacity(cluster({"a": [8]})),
            r"no node has the label 'gpu' \(roles.worker.node_label",
        ),
    ],
)
def test_a_role_whose_label_cannot_be_is_refused_by_name(
    snapshot: ClusterSnapshot, says: str
) -> None:
    with pytest.raises(BadSpec, match=says):
        checked_on(snapshot, two_labels())


def test_a_queue_without_the_label_is_refused_by_name() -> None:
    snapshot = labelled()
    nothing = replace(snapshot, queue=replace(snapshot.queue, maximum=Resources()))
    with pytest.raises(BadSpec, match="has no part of the nodes with the label 'gpu'"):
        checked_on(nothing, with_label("gpu"))  # type: ignore[arg-type]


@pytest.mark.parametrize(("gpus", "fits"), [(6, True), (5, False)])
def test_one_user_may_pass_the_limit_by_one_container(gpus: int, fits: bool) -> None:
    snapshot = by_capacity(cluster({"a": [8]}))
    limit = Resources(1 << 40, 1 << 20, gpus)
    limited = replace(snapshot, queue=replace(snapshot.queue, user_limit=limit))
    if fits:
        assert checked_on(limited, job(4, 2)).plan.rungs
        return
    with pytest.raises(NeverFits, match="one user may use at most"):
        checked_on(limited, job(4, 2))


def test_what_the_user_has_already_counts_against_his_limit() -> None:
    """The AM plans when its own container counts as used, so without it."""
    snapshot = by_capacity(cluster({"a": [8]}))
    limit = Resources(1 << 40, 1 << 20, 6)
    targets = declared_targets(ladder_for_submit(snapshot, job(2, 2)))  # type: ignore[arg-type]

    def planned(**used: int) -> object:
        by = tuple((name, Resources(gpus=gpus)) for name, gpus in used.items())
        view = replace(snapshot.queue, user_limit=limit, used_by=by)
        return plan(replace(snapshot, queue=view), job(2, 2), targets=targets)

    full = planned(u=5)
    assert isinstance(full, NoFit)
    assert not full.is_never
    assert "of which one user may have" in full.message
    assert not isinstance(planned(u=4, v=4), NoFit)  # the last container may pass it


def test_who_waits_for_nodes_of_another_label_is_not_waited_for() -> None:
    """Both gangs need all GPUs of their partition: the other's are no concern of theirs."""
    snapshot = labelled()

    def waits(one: JobSpec, number: int) -> Ticket:
        return job_ticket(one, (), f"application_1_{number:04}", number, 1000.0 + number)

    in_gpu = with_label("gpu")
    first = waits(in_gpu, 1)  # type: ignore[arg-type]
    assert in_same_partitions(waits(two_labels(), 2), [first]) == (first,)
    for me, sees_first in ((job(4, 2), False), (in_gpu, True)):
        listed = TicketList((first,))
        start = outlook(checked_on(snapshot, me), listed, None).start  # type: ignore[arg-type]
        assert isinstance(start, Forecast)
        assert (start.likely_s == 0.0) is not sees_first
