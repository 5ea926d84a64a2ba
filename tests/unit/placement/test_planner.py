"""The ladder at submit, the plan with its targets later, and every refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.placement.clusters import best, cluster, job, node, where
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_spec import AmSpec, JobSpec, PackOrSpread, TopologyConstraint
from yarnam.core.model.plans import LocalityLevel, NoFit, PlacementPlan, PlanPolicy, Reason, Target
from yarnam.core.model.resources import NO_LIMIT, Resources
from yarnam.core.model.snapshot import ClusterSnapshot, Node, NodeState, QueueView
from yarnam.core.placement import declared_targets, ladder_for_submit, plan

REQUIRED, UNCONSTRAINED = TopologyConstraint.REQUIRED, TopologyConstraint.UNCONSTRAINED
NODE, RACK, ANY = LocalityLevel

TWO_RACKS = cluster({"a": (8, 8), "b": (8, 8)})
DEFAULT = PlanPolicy()


def ladder(snapshot: ClusterSnapshot, spec: JobSpec, policy: PlanPolicy = DEFAULT) -> PlacementPlan:
    found = ladder_for_submit(snapshot, spec, policy)
    assert isinstance(found, PlacementPlan), found
    return found


def services(found: PlacementPlan) -> list[str]:
    return [target.service for target in declared_targets(found)]


def steps(found: PlacementPlan) -> list[tuple[int, LocalityLevel, str]]:
    return [(rung.number, rung.level, rung.asks[0].target.service) for rung in found.rungs]


def refusal(found: PlacementPlan | NoFit) -> NoFit:
    assert isinstance(found, NoFit), found
    return found


def tight_nodes(count: int) -> tuple[Node, ...]:
    """Nodes with exactly the memory that eight tasks of one GPU take."""
    nodes = (node(f"n{i}", "/r", 8) for i in range(count))
    return tuple(replace(n, total=Resources(8192, 16, 8)) for n in nodes)


# ---- the ladder at submit -----------------------------------------------------------------------


def test_a_gang_that_fits_one_node_gets_node_sets_racks_and_any() -> None:
    found = ladder(TWO_RACKS, job(4, 2))
    assert steps(found) == [
        (0, NODE, "worker-2g-n0"),
        (0, NODE, "worker-2g-n1"),
        (1, RACK, "worker-2g-r-a"),
        (1, RACK, "worker-2g-r-b"),
        (2, ANY, "worker-2g-any"),
    ]
    assert [rung.node_limit for rung in found.rungs] == [1, 1, None, None, None]
    assert [rung.score for rung in found.rungs] == sorted(
        (rung.score for rung in found.rungs), reverse=True
    )
    assert {target.nodes for target in declared_targets(found)} == {("a0",), ("b0",), ()}


def test_whole_node_containers_need_no_node_sets() -> None:
    """Any place gives the fewest nodes when every task takes one: fewer services, faster submit."""
    found = ladder(TWO_RACKS, job(2, 8))
    assert steps(found) == [
        (0, NODE, "worker-8g-r-a"),
        (0, NODE, "worker-8g-r-b"),
        (1, ANY, "worker-8g-any"),
    ]


def test_a_set_that_is_a_whole_rack_is_asked_for_as_the_rack() -> None:
    found = ladder(TWO_RACKS, job(4, 4))
    assert services(found) == ["worker-4g-r-a", "worker-4g-r-b", "worker-4g-any"]
    assert found.rungs[0].level is NODE


def test_one_rack_needs_no_rack_service() -> None:
    found = ladder(cluster({"a": (8, 8, 8)}), job(6, 2))
    assert steps(found) == [(0, NODE, "worker-2g-n0"), (1, RACK, "worker-2g-any")]


def test_a_gang_too_large_for_a_rack_may_still_have_the_fewest_nodes() -> None:
    found = ladder(TWO_RACKS, job(3, 8))
    assert steps(found) == [(0, NODE, "worker-8g-any")]


def test_unconstrained_starts_loose() -> None:
    found = ladder(TWO_RACKS, job(4, 2, node=UNCONSTRAINED, rack=UNCONSTRAINED))
    assert steps(found) == [(0, ANY, "worker-2g-any")]
    assert found.rungs[0].node_limit is None


def test_unconstrained_nodes_within_a_rack() -> None:
    found = ladder(TWO_RACKS, job(4, 2, node=UNCONSTRAINED, rack=REQUIRED))
    assert steps(found) == [(0, RACK, "worker-2g-r-a"), (0, RACK, "worker-2g-r-b")]
    assert all(rung.same_rack for rung in found.rungs)


def test_required_never_relaxes() -> None:
    found = ladder(TWO_RACKS, job(4, 2, rack=REQUIRED))
    assert {rung.level for rung in found.rungs} == {NODE, RACK}
    found = ladder(TWO_RACKS, job(4, 2, node=REQUIRED, rack=REQUIRED))
    assert {rung.level for rung in found.rungs} == {NODE}
    assert {rung.node_limit for rung in found.rungs} == {1}
    assert services(found)[:4] == [f"worker-2g-n{i}" for i in range(4)]


def test_the_rack_with_the_most_servers_able_to_host_comes_first() -> None:
    snapshot = cluster({"a": (8, 8, (8, 1)), "b": (8, 8, 8), "c": (8, 8)})
    found = ladder(snapshot, job(2, 8))
    assert [t.racks for t in declared_targets(found)] == [("/b",), ("/a",), ("/c",), ()]


def test_racks_are_bounded_by_the_policy() -> None:
    snapshot = cluster({f"r{i:02}": (8, 8) for i in range(20)})
    assert len(services(ladder(snapshot, job(2, 8)))) == 9
    assert len(services(ladder(snapshot, job(2, 8), PlanPolicy(max_racks=3)))) == 4


def test_used_nodes_are_filled_and_whole_nodes_kept_whole() -> None:
    snapshot = cluster({"a": (8, (8, 4)), "b": (8, 8)})
    rung = ladder(snapshot, job(4, 1)).rungs[0]
    assert where(rung) == {"a1": 4}


def test_spread_puts_every_task_on_a_node_of_its_own() -> None:
    found = ladder(TWO_RACKS, job(2, 1, strategy=PackOrSpread.SPREAD))
    assert all(rung.one_task_per_node for rung in found.rungs)
    assert len(where(found.rungs[0])) == 2


def test_a_spread_gang_is_asked_for_node_by_node() -> None:
    spread = job(2, 1, strategy=PackOrSpread.SPREAD)
    targets = declared_targets(ladder(TWO_RACKS, spread))
    found = plan(TWO_RACKS, spread, targets=targets)
    assert isinstance(found, PlacementPlan)
    for rung in found.rungs:
        nodes = [ask.target.nodes for ask in rung.asks]
        assert all(len(names) == 1 for names in nodes), "YARN has nothing left to choose"
        assert len(set(nodes)) == rung.tasks == 2
        assert {ask.target for ask in rung.asks} <= set(targets)


def test_a_spread_gang_too_large_for_seats_goes_to_the_wider_targets() -> None:
    spread = job(2, 1, strategy=PackOrSpread.SPREAD)
    targets = declared_targets(ladder(TWO_RACKS, spread, PlanPolicy(max_pinned_targets=1)))
    found = plan(TWO_RACKS, spread, targets=targets)
    assert isinstance(found, PlacementPlan)
    assert [ask.count for ask in found.rungs[0].asks] == [2]


def test_excluded_nodes_become_strict_lists_of_the_others() -> None:
    found = ladder(TWO_RACKS, job(2, 2, exclude_nodes=("a0",)))
    by_name = {target.service: target for target in declared_targets(found)}
    assert by_name["worker-2g-r-a"].nodes == ("a1",)
    assert by_name["worker-2g-r-b"].racks == ("/b",)
    assert by_name["worker-2g-any"].nodes == ("a1", "b0", "b1")
    assert all("a0" not in where(rung) for rung in found.rungs)


def test_long_lists_are_left_to_the_verification_of_grants() -> None:
    snapshot = cluster({"a": [8] * 80})
    (target,) = declared_targets(ladder(snapshot, job(2, 8, exclude_nodes=("a7",))))
    assert (target.level, target.nodes) == (ANY, ())


def test_several_roles_share_their_places() -> None:
    found = ladder(TWO_RACKS, job(2, 4, ps=1))
    assert [ask.target.service for ask in found.rungs[0].asks] == ["worker-4g-n0", "ps-0g-n0"]
    assert found.rungs[0].asks[0].target.nodes == found.rungs[0].asks[1].target.nodes
    assert found.rungs[0].tasks == 3
    assert where(found.rungs[0], "ps") == {"a0": 1}


def test_service_names_are_short_unique_and_plain() -> None:
    snapshot = cluster({"a": (8, 8)})
    racks = ("/dc1/rack1", "/dc1-rack1", "/DC1/Rack_1/row-with-a-very-long-name-indeed", "/é")
    nodes = tuple(
        replace(node(f"n{i}{k}", "/x", 8), rack=rack)
        for i, rack in enumerate(racks)
        for k in range(2)
    )
    names = services(ladder(replace(snapshot, nodes=nodes), job(2, 8)))
    assert len(set(names)) == len(names) == 5
    for name in names:
        assert len(name) <= 40
        assert name.replace("-", "").isalnum()
        assert name.isascii()


# ---- shapes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpus", "tasks", "per_task"), [(1, 1, 1), (8, 1, 8), (12, 2, 6), (16, 2, 8), (7, 1, 7)]
)
def test_a_flexible_job_takes_the_largest_containers_that_nodes_can_host(
    gpus: int, tasks: int, per_task: int
) -> None:
    ask = ladder(TWO_RACKS, job(gpus, 1, flexible=True)).rungs[0].asks[0]
    assert (ask.count, ask.target.resources.gpus) == (tasks, per_task)
    assert ask.target.processes_per_task == per_task
    assert ask.target.resources == Resources(1024 * per_task, per_task, per_task)


def test_a_flexible_job_declares_smaller_containers_for_a_scattered_cluster() -> None:
    snapshot = cluster({"a": ((8, 4), (8, 4)), "b": ((8, 4), (8, 4))})
    spec = job(8, 1, flexible=True)
    found = ladder(snapshot, spec)
    assert services(found) == ["worker-8g-r-a", "worker-8g-r-b", "worker-8g-any", "worker-4g-any"]
    rung = best(plan(snapshot, spec, targets=declared_targets(found)))
    assert rung.asks[0].target.service == "worker-4g-any"
    assert rung.asks[0].count == 2
    assert sum(ask.count * ask.target.processes_per_task for ask in rung.asks) == 8


def test_a_fixed_number_of_processes_per_task_keeps_its_shape() -> None:
    spec = job(2, 8, flexible=True, processes=1)
    assert {t.resources.gpus for t in declared_targets(ladder(TWO_RACKS, spec))} == {8}


def test_a_flexible_job_larger_than_nodes_is_cut_until_it_fits() -> None:
    snapshot = cluster({"a": (4, 4), "b": (4, 4)})
    ask = ladder(snapshot, job(16, 1, flexible=True)).rungs[0].asks[0]
    assert (ask.count, ask.target.resources.gpus) == (4, 4)


def test_the_am_takes_its_part() -> None:
    """Whole nodes of memory would fit but for the ApplicationMaster's container."""
    nodes = tight_nodes(2)
    snapshot = ClusterSnapshot(0.0, nodes, QueueView("q"))
    assert isinstance(ladder_for_submit(snapshot, job(2, 8)), PlacementPlan)
    no_fit = refusal(ladder_for_submit(snapshot, job(2, 8, am=True)))
    assert no_fit.reason is Reason.GANG_EXCEEDS_CLUSTER
    assert "with the ApplicationMaster" in no_fit.message
    for has_am, gpus in ((False, 7), (True, 2)):
        found = ladder(snapshot, job(14, 1, flexible=True, am=has_am))
        assert found.rungs[0].asks[0].target.resources.gpus == gpus


# ---- the plan with declared targets -------------------------------------------------------------


def test_later_only_declared_targets_are_used() -> None:
    spec = job(4, 2)
    targets = declared_targets(ladder(TWO_RACKS, spec))
    later = cluster({"a": ((8, 2), (8, 6)), "b": ((8, 2), 8)})
    found = plan(later, spec, targets=targets)
    assert isinstance(found, PlacementPlan)
    assert [(r.number, r.level) for r in found.rungs] == [(1, RACK), (1, RACK), (2, ANY)]
    assert set(declared_targets(found)) <= set(targets)
    assert found.taken_at_s == 1000.0
    assert where(found.rungs[0]) == {"a1": 3, "a0": 1} or where(found.rungs[0]) == {"b1": 4}


def test_the_first_rung_leaves_out_the_tighter_ones_and_stops_at_the_last() -> None:
    spec = job(4, 2)
    targets = declared_targets(ladder(TWO_RACKS, spec))
    for first, levels in ((0, {NODE, RACK, ANY}), (1, {RACK, ANY}), (2, {ANY}), (99, {ANY})):
        found = plan(TWO_RACKS, spec, targets=targets, first_rung=first)
        assert isinstance(found, PlacementPlan)
        assert {rung.level for rung in found.rungs} == levels


def test_required_stays_required_however_often_it_failed() -> None:
    spec = job(4, 2, node=REQUIRED, rack=REQUIRED)
    targets = declared_targets(ladder(TWO_RACKS, spec))
    found = plan(TWO_RACKS, spec, targets=targets, first_rung=9)
    assert isinstance(found, PlacementPlan)
    assert {rung.level for rung in found.rungs} == {NODE}


def test_an_exact_set_comes_before_a_place_that_could_break_the_limit() -> None:
    spec = job(4, 2, node=REQUIRED, rack=REQUIRED)
    found = ladder(TWO_RACKS, spec)
    kinds = [bool(rung.asks[0].target.nodes) for rung in found.rungs]
    assert kinds == sorted(kinds, reverse=True)


def test_excluded_at_run_time_come_on_top_of_the_jobs_own() -> None:
    spec = job(4, 2)
    targets = declared_targets(ladder(TWO_RACKS, spec))
    out = tuple(NodeId(name) for name in ("a0", "a1", "b0"))
    found = plan(TWO_RACKS, spec, out, targets=targets)
    assert isinstance(found, PlacementPlan)
    assert all(set(where(rung)) == {"b1"} for rung in found.rungs)
    every = (*out, NodeId("b1"))
    no_fit = refusal(plan(TWO_RACKS, spec, every, targets=targets))
    assert not no_fit.is_never


def test_blind_takes_everything_usable_as_free() -> None:
    spec = job(4, 8)
    full = cluster({"a": ((8, 0), (8, 0)), "b": ((8, 0), (8, 0))}, used=Resources(99, 99, 32))
    targets = declared_targets(ladder(TWO_RACKS, spec))
    assert isinstance(plan(full, spec, targets=targets), NoFit)
    assert isinstance(plan(full, spec, targets=targets, blind=True), PlacementPlan)


def test_before_submit_the_am_needs_room_too() -> None:
    spec = job(2, 8, am=True)
    assert isinstance(plan(TWO_RACKS, spec), PlacementPlan)
    nodes = tight_nodes(3)
    snapshot = ClusterSnapshot(0.0, nodes, QueueView("q"))
    assert isinstance(plan(snapshot, spec), PlacementPlan)
    busy = replace(snapshot, nodes=(*nodes[:2], replace(nodes[2], used=Resources(8192, 8, 8))))
    assert isinstance(plan(busy, spec), NoFit)
    targets = declared_targets(ladder(snapshot, spec))
    assert isinstance(plan(busy, spec, targets=targets), PlacementPlan)


def test_targets_of_another_job_are_refused_not_used() -> None:
    other = Target("x-1g-any", "x", ANY, Resources(1, 1, 1))
    no_fit = refusal(plan(TWO_RACKS, job(1, 1), targets=(other,)))
    assert not no_fit.is_never


def test_the_same_input_gives_the_same_plan_in_any_order_of_nodes() -> None:
    spec = job(4, 2)
    turned = replace(TWO_RACKS, nodes=TWO_RACKS.nodes[::-1])
    assert ladder(TWO_RACKS, spec) == ladder(turned, spec)


# ---- never --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("snapshot", "spec", "reason", "words"),
    [
        (cluster({}), job(1, 1), Reason.NO_NODES, "none of the cluster's 0 nodes is running"),
        (
            TWO_RACKS,
            job(1, 1, exclude_nodes=("a0", "a1", "b0", "b1")),
            Reason.EVERY_NODE_EXCLUDED,
            "all 4 usable nodes are excluded",
        ),
        (
            TWO_RACKS,
            job(1, 9),
            Reason.TASK_EXCEEDS_LARGEST_NODE,
            (
                "a worker task needs 9216 MiB, 9 vcores, 9 GPUs; the largest node, b1, has "
                "16384 MiB, 16 vcores, 8 GPUs"
            ),
        ),
        (
            replace(TWO_RACKS, max_container=Resources(4096, 4, 4)),
            job(1, 8),
            Reason.TASK_EXCEEDS_MAX_CONTAINER,
            "the largest container that this cluster grants has 4096 MiB",
        ),
        (
            cluster({"a": (8,)}, max_container=Resources(4096, 4, 4)),
            job(1, 8),
            Reason.TASK_EXCEEDS_MAX_CONTAINER,
            "the largest container that queue root.ml grants",
        ),
        (
            cluster({"a": (8, 8)}, maximum=Resources(NO_LIMIT, NO_LIMIT, 8)),
            job(2, 8),
            Reason.GANG_EXCEEDS_QUEUE,
            "may use at most 8 GPUs",
        ),
        (
            cluster({"a": (8, 8)}, maximum=Resources(99999, 99, 8)),
            job(2, 8),
            Reason.GANG_EXCEEDS_QUEUE,
            "queue root.ml may use at most 99999 MiB, 99 vcores, 8 GPUs",
        ),
        (
            TWO_RACKS,
            job(5, 8),
            Reason.GANG_EXCEEDS_CLUSTER,
            "4 usable nodes with 65536 MiB, 64 vcores, 32 GPUs cannot hold 5 tasks",
        ),
        (
            TWO_RACKS,
            job(3, 8, rack=REQUIRED),
            Reason.GANG_EXCEEDS_RACK,
            "no single rack can hold the gang: 3 tasks",
        ),
        (
            TWO_RACKS,
            job(3, 8, max_nodes=2),
            Reason.GANG_EXCEEDS_NODE_LIMIT,
            "does not fit with at most 2 nodes",
        ),
        (
            TWO_RACKS,
            job(5, 1, strategy=PackOrSpread.SPREAD),
            Reason.GANG_EXCEEDS_NODE_LIMIT,
            "does not fit with a node for every task",
        ),
    ],
)
def test_never(snapshot: ClusterSnapshot, spec: JobSpec, reason: Reason, words: str) -> None:
    for found in (ladder_for_submit(snapshot, spec), plan(snapshot, spec)):
        no_fit = refusal(found)
        assert (no_fit.reason, no_fit.is_never) == (reason, True)
        assert words in no_fit.message
        assert no_fit.hint


def test_a_full_cluster_is_no_reason_for_never() -> None:
    full = cluster(
        {"a": ((8, 0), (8, 0))}, used=Resources(1, 1, 16), maximum=Resources(9**9, 99, 16)
    )
    assert isinstance(ladder_for_submit(full, job(2, 8)), PlacementPlan)


def test_nodes_that_are_not_running_are_ignored_and_named() -> None:
    nodes = (
        node("n0", "/r", 8),
        node("n1", "/r", 8, state=NodeState.UNHEALTHY),
        node("n2", "/r", 8, state=NodeState.LOST),
    )
    snapshot = ClusterSnapshot(0.0, nodes, QueueView("q"))
    assert isinstance(ladder_for_submit(snapshot, job(1, 8)), PlacementPlan)
    assert refusal(ladder_for_submit(snapshot, job(2, 8))).is_never
    spec = job(2, 8)
    targets = (Target("worker-8g-any", "worker", ANY, Resources(8192, 8, 8), 8),)
    no_fit = refusal(plan(snapshot, spec, targets=targets))
    assert not no_fit.is_never
    assert "(not counted: n1 unhealthy, n2 lost)" in no_fit.message


# ---- not now ------------------------------------------------------------------------------------


def not_now(snapshot: ClusterSnapshot, spec: JobSpec) -> NoFit:
    """Submitted when the cluster was idle, looked at now."""
    idle = replace(
        snapshot,
        nodes=tuple(replace(n, used=Resources()) for n in snapshot.nodes),
        queue=replace(snapshot.queue, used=Resources()),
    )
    no_fit = refusal(plan(snapshot, spec, targets=declared_targets(ladder(idle, spec))))
    assert not no_fit.is_never
    return no_fit


def test_too_few_gpus() -> None:
    no_fit = not_now(cluster({"a": ((8, 4), (8, 0))}), job(2, 4))
    assert no_fit.reason is Reason.TOO_FEW_FREE_GPUS
    assert no_fit.message == "4 GPUs are free on usable nodes; the gang needs 8"
    assert no_fit.hint == (
        "needs 1 more node with 4 free GPUs (closest: a1 has 0); "
        "or ask for 1 task (4 GPUs): fits now"
    )
    assert no_fit.changes[0].nodes == ((NodeId("a1"), Resources(0, 0, 4)),)


def test_too_little_of_something_else() -> None:
    nodes = tuple(node(f"n{i}", "/r", 8, used=Resources(12288, 0, 0)) for i in range(2))
    no_fit = not_now(ClusterSnapshot(0.0, nodes, QueueView("q")), job(2, 8))
    assert no_fit.reason is Reason.TOO_FEW_FREE_RESOURCES
    assert no_fit.message.startswith("free on usable nodes: 8192 MiB, 32 vcores, 16 GPUs")


def test_fragmented() -> None:
    no_fit = not_now(cluster({"a": ((8, 3), (8, 3), (8, 4))}), job(2, 4))
    assert no_fit.reason is Reason.FRAGMENTED
    assert no_fit.message == (
        "10 GPUs are free, but fragmented: only 1 of 2 worker tasks of 4096 MiB, "
        "4 vcores, 4 GPUs fit"
    )
    assert no_fit.hint == (
        "needs 1 more node with 4 free GPUs (closest: a0 has 3); "
        "or ask for 1 task (4 GPUs): fits now"
    )


def test_no_rack_has_room_but_the_cluster_has() -> None:
    snapshot = cluster({"a": (8, (8, 0)), "b": ((8, 0), 8)})
    no_fit = not_now(snapshot, job(2, 8, rack=REQUIRED))
    assert no_fit.reason is Reason.NO_RACK_FITS
    assert no_fit.hint == (
        "needs 1 more node with 8 free GPUs in rack /b (closest: b0 has 0); "
        "or relax placement.locality.rack: fits now; or ask for 1 task (8 GPUs): fits now"
    )


def test_too_many_nodes_for_a_required_node() -> None:
    no_fit = not_now(cluster({"a": ((8, 2), (8, 2))}), job(4, 1, node=REQUIRED))
    assert no_fit.reason is Reason.FRAGMENTED
    assert "only on more nodes than allowed" in no_fit.message
    assert "; or relax placement.locality.node: fits now" in no_fit.hint


def test_the_queue_is_full() -> None:
    snapshot = cluster({"a": (8, 8)}, used=Resources(1024, 1, 4), maximum=Resources(99999, 99, 16))
    no_fit = not_now(snapshot, job(2, 8))
    assert no_fit.reason is Reason.QUEUE_FULL
    assert no_fit.message == (
        "queue root.ml has 12 GPUs left of its maximum of 16 GPUs; the gang needs 16 GPUs"
    )


def test_a_job_without_gpus() -> None:
    found = ladder(TWO_RACKS, job(3, 0, processes=1))
    assert services(found)[0] == "worker-0g-n0"
    nodes = tuple(node(f"n{i}", "/r", 8, used=Resources(16384, 0, 0)) for i in range(2))
    no_fit = not_now(ClusterSnapshot(0.0, nodes, QueueView("q")), job(3, 0, processes=1))
    assert no_fit.reason is Reason.TOO_FEW_FREE_RESOURCES
    assert no_fit.hint.startswith("needs 1 more node with 3072 MiB free (closest: n0 has 0 MiB)")


def test_an_am_larger_than_any_node_never_fits() -> None:
    spec = replace(job(1, 1), am=AmSpec(resources=Resources(99999, 1, 0)))
    assert refusal(ladder_for_submit(TWO_RACKS, spec)).reason is Reason.GANG_EXCEEDS_CLUSTER
