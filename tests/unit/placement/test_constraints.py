"""GPU models, anti-affinity, node lists, rounding, inputs nearby, an order of its own per job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.unit.placement.clusters import best, cluster, job, node, where
from yarnam.core.model.gpu_names import (
    GpuModelRules,
    Inventory,
    close_models,
    has_words,
    is_same_model,
    may_be_same,
    with_gpu_models,
)
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.job_spec import JobSpec, PackOrSpread, TopologyConstraint
from yarnam.core.model.plans import LocalityLevel, NoFit, PlacementPlan, PlanPolicy, Reason, Target
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import (
    AllocationSteps,
    BytesByNode,
    ClusterSnapshot,
    NodeState,
    QueueView,
    bytes_by_node,
)
from yarnam.core.placement import declared_targets, ladder_for_submit, plan

A100, V100 = "NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-32GB"
REQUIRED = TopologyConstraint.REQUIRED


def with_models(snapshot: ClusterSnapshot, models: dict[str, str]) -> ClusterSnapshot:
    """Models by the first letters of nodes' names."""
    nodes = tuple(
        replace(n, gpu_model=next((m for p, m in models.items() if n.node_id.startswith(p)), ""))
        for n in snapshot.nodes
    )
    return replace(snapshot, nodes=nodes)


def ladder(snapshot: ClusterSnapshot, spec: JobSpec, **more: object) -> PlacementPlan:
    found = ladder_for_submit(snapshot, spec, **more)  # type: ignore[arg-type]
    assert isinstance(found, PlacementPlan), found
    return found


def refusal(found: PlacementPlan | NoFit) -> NoFit:
    assert isinstance(found, NoFit), found
    return found


def nodes_of(targets: Iterable[Target]) -> set[str]:
    return {node_id for target in targets for node_id in target.nodes}


# ---- models of GPU ------------------------------------------------------------------------------

TWO_MODELS = with_models(cluster({"a": (8, 8), "v": (8, 8, 8)}), {"a": A100, "v": V100})
MIXED_RACK = with_models(
    replace(
        cluster({}), nodes=tuple(node(name, "/r", 8) for name in ("a0", "a1", "v0", "v1", "v2"))
    ),
    {"a": A100, "v": V100},
)


@pytest.mark.parametrize(
    ("model", "wish", "is_met"),
    [
        (A100, "A100", True),
        (A100, "a100 80gb", True),
        (A100, "A10", False),
        (A100, "A100-SXM4-40GB", False),
        ("NVIDIA H200", "H20", False),
        ("", "A100", False),
    ],
)
def test_a_model_is_met_by_whole_words(model: str, wish: str, is_met: bool) -> None:
    assert has_words(model, wish) is is_met


def test_makers_before_the_name_do_not_make_another_model() -> None:
    assert is_same_model("Tesla V100-SXM2-16GB", "NVIDIA V100-SXM2-16GB")
    assert not is_same_model("NVIDIA A100 40GB", "NVIDIA A100 80GB")
    assert not is_same_model("", "")
    assert may_be_same("a100", A100)
    assert may_be_same(A100, "NVIDIA A100-SXM4-80GB (slot 2)")
    assert not may_be_same("A100-40GB", A100)
    assert not may_be_same("", A100)
    assert close_models("V10", [A100, V100]) == [V100]


def test_a_gang_stands_on_one_model_by_default() -> None:
    """Five nodes could hold it, no model alone of them four: the larger pool is taken whole."""
    spec = job(3, 8)
    for rung in ladder(TWO_MODELS, spec).rungs:
        assert set(where(rung)) == {"v0", "v1", "v2"}
        assert {ask.target.gpu_model for ask in rung.asks} == {V100}
        assert V100 in rung.reason
    assert refusal(ladder_for_submit(TWO_MODELS, job(4, 8))).reason is (
        Reason.GANG_EXCEEDS_GPU_MODEL
    )
    anything = job(4, 8, gpu_model="any")
    assert {ask.target.gpu_model for rung in ladder(TWO_MODELS, anything).rungs
            for ask in rung.asks} == {""}  # fmt: skip


def test_either_model_may_be_taken_and_the_one_with_room_is() -> None:
    spec = job(2, 8)
    found = ladder(TWO_MODELS, spec)
    targets = declared_targets(found)
    assert {target.gpu_model for target in targets} == {A100, V100}
    busy = {"a0": 8, "v0": 8, "v1": 8}
    nodes = tuple(
        replace(n, used=Resources(0, 0, busy.get(n.node_id, 0))) for n in TWO_MODELS.nodes
    )
    later = replace(TWO_MODELS, nodes=nodes)
    no_fit = refusal(plan(later, spec, targets=targets))
    assert no_fit.reason is Reason.NO_GPU_MODEL_FITS
    assert "placement.gpu_model: any: fits now" in no_fit.hint
    v_only = replace(later, nodes=tuple(
        replace(n, used=Resources()) if n.node_id == "v0" else n for n in later.nodes
    ))  # fmt: skip
    assert set(where(best(plan(v_only, spec, targets=targets)))) == {"v0", "v2"}


def test_a_named_model_becomes_strict_lists_where_racks_are_mixed() -> None:
    found = ladder(MIXED_RACK, job(2, 8, gpu_model="V100"))
    assert all(target.nodes for target in declared_targets(found))
    assert nodes_of(declared_targets(found)) == {"v0", "v1", "v2"}


def test_pure_racks_need_no_lists() -> None:
    found = ladder(TWO_MODELS, job(2, 8, gpu_model="a100"))
    assert {(t.racks, t.nodes) for t in declared_targets(found)} == {(("/a",), ())}


def test_a_large_mixed_cluster_is_kept_to_short_lists() -> None:
    """200 of 400 nodes of one rack have the model: the 64 with the most room are named."""
    nodes = tuple(
        replace(node(f"n{i:03}", f"/r{i % 2}", 8), gpu_model=A100 if i % 4 < 2 else V100)
        for i in range(400)
    )
    found = ladder(ClusterSnapshot(0.0, nodes, QueueView("q")), job(4, 8, gpu_model="A100"))
    targets = declared_targets(found)
    assert len(targets) <= 10
    assert all(1 <= len(target.nodes) <= 64 for target in targets)
    models = {n.node_id: n.gpu_model for n in nodes}
    assert {models[name] for name in nodes_of(targets)} == {A100}  # type: ignore[index]


def test_a_model_that_nobody_has() -> None:
    no_fit = refusal(ladder_for_submit(TWO_MODELS, job(1, 8, gpu_model="A10O")))
    assert no_fit.reason is Reason.NO_SUCH_GPU_MODEL
    assert no_fit.is_never
    assert no_fit.message == (
        "no node that the job may use has GPUs of model 'A10O'; "
        f"the cluster has {V100} (24 GPUs), {A100} (16 GPUs)"
    )
    assert no_fit.hint.startswith(f"Did you mean {A100}? ")


def test_a_gang_larger_than_its_model() -> None:
    no_fit = refusal(ladder_for_submit(TWO_MODELS, job(3, 8, gpu_model="A100")))
    assert no_fit.reason is Reason.GANG_EXCEEDS_GPU_MODEL
    assert f"{V100} (24 GPUs), {A100} (16 GPUs)" in no_fit.message


def test_unknown_models_are_used_on_trust_and_last() -> None:
    learnt = with_models(cluster({"a": (8, 8), "v": (8,), "x": (8, 8)}), {"a": A100, "v": V100})
    known = ladder(learnt, job(2, 8, gpu_model="A100"))
    assert {name for rung in known.rungs for name in where(rung)} == {"a0", "a1"}
    more = ladder(learnt, job(4, 8, gpu_model="A100"))
    assert set(where(more.rungs[0])) == {"a0", "a1", "x0", "x1"}
    assert {ask.target.gpu_model for ask in more.rungs[0].asks} == {A100}
    nobody = with_models(learnt, {})
    found = ladder(nobody, job(2, 8, gpu_model="H100"))
    assert {target.gpu_model for target in declared_targets(found)} == {"H100"}
    assert isinstance(ladder_for_submit(nobody, job(5, 8)), PlacementPlan), "none known: no limit"


def test_each_role_may_have_its_own_model() -> None:
    spec = job(2, 4)
    (worker,) = spec.roles
    judge = replace(worker, name="judge", tasks=1, gpu_model="A100")
    spec = replace(spec, roles=(replace(worker, gpu_model="V100"), judge))
    rung = ladder(MIXED_RACK, spec).rungs[0]
    assert set(where(rung, "judge")) <= {"a0", "a1"}
    assert set(where(rung)) <= {"v0", "v1", "v2"}
    by_role = {ask.target.role: ask.target for ask in rung.asks}
    assert (by_role["worker"].gpu_model, by_role["judge"].gpu_model) == (V100, A100)
    found = plan(MIXED_RACK, spec, targets=declared_targets(ladder(MIXED_RACK, spec)))
    assert where(best(found), "judge") == where(rung, "judge")


def test_roles_without_gpus_stand_on_any_model() -> None:
    spec = job(2, 8, ps=1, gpu_model="A100")
    rung = ladder(TWO_MODELS, spec).rungs[0]
    assert next(a.target for a in rung.asks if a.target.role == "ps").gpu_model == ""


def test_models_come_from_rules_then_yarn_then_agents() -> None:
    snapshot = cluster({"a": (8, 8, 8, 0)})
    nodes = (
        replace(snapshot.nodes[0], gpu_model="by yarn"),
        replace(snapshot.nodes[1], gpu_model="by yarn"),
        *snapshot.nodes[2:],
    )
    seen = Inventory({NodeId("a0"): "seen"}).seen(NodeId("a2"), "seen").seen(NodeId("a3"), "seen")
    rules = GpuModelRules(nodes=(("a0", "by rule"),), racks=(("/b", "wrong"),))
    found = with_gpu_models(replace(snapshot, nodes=nodes), rules, seen)
    assert [n.gpu_model for n in found.nodes] == ["by rule", "by yarn", "seen", ""]
    assert with_gpu_models(found, rules, seen) == found
    assert with_gpu_models(snapshot) is snapshot


def test_rules_match_names_then_labels_then_racks() -> None:
    rules = GpuModelRules(
        nodes=(("gpu-a*", A100),), labels=(("volta", V100),), racks=(("/dc1/*", "H100"),)
    )
    rack = RackId("/dc1/r1")
    assert rules.model_of(NodeId("gpu-a01"), rack, ("volta",)) == A100
    assert rules.model_of(NodeId("gpu-b01"), rack, ("volta",)) == V100
    assert rules.model_of(NodeId("gpu-b01"), rack) == "H100"
    assert rules.model_of(NodeId("gpu-b01"), RackId("/dc2/r1")) == ""


def test_a_model_that_only_excluded_nodes_have() -> None:
    for wish in ({"exclude_nodes": ("a0", "a1")}, {"include_nodes": ("v0", "v1")}):
        spec = job(1, 8, gpu_model="A100", **wish)
        no_fit = refusal(ladder_for_submit(TWO_MODELS, spec))
        assert no_fit.reason is Reason.NO_SUCH_GPU_MODEL


# ---- anti-affinity, lists of nodes, the most nodes ----------------------------------------------


def test_parameter_servers_apart_from_each_other() -> None:
    spec = job(2, 4, ps=2, anti_affinity=(("ps", "ps"),))
    rung = ladder(cluster({"a": (8, 8, 8)}), spec).rungs[0]
    assert len(where(rung, "ps")) == 2
    assert rung.anti_affinity == (("ps", "ps"),)
    together = ladder(cluster({"a": (8, 8, 8)}), job(2, 4, ps=2)).rungs[0]
    assert len(where(together, "ps")) == 1


def test_parameter_servers_apart_from_workers() -> None:
    spec = job(2, 4, ps=1, anti_affinity=(("ps", "worker"),))
    rung = ladder(cluster({"a": (8, 8)}), spec).rungs[0]
    assert not set(where(rung)) & set(where(rung, "ps"))
    no_fit = refusal(ladder_for_submit(cluster({"a": (8,)}), spec))
    assert no_fit.reason is Reason.GANG_EXCEEDS_NODE_LIMIT
    assert "its roles apart" in no_fit.message


def test_roles_apart_are_asked_for_node_by_node() -> None:
    spec = job(2, 4, ps=2, anti_affinity=(("ps", "ps"),))
    snapshot = cluster({"a": (8, 8, 8)})
    targets = declared_targets(ladder(snapshot, spec))
    rung = best(plan(snapshot, spec, targets=targets))
    assert all(len(ask.target.nodes) == 1 for ask in rung.asks)
    seats = [ask.target.nodes for ask in rung.asks if ask.target.role == "ps"]
    assert len(seats) == len(set(seats)) == 2


def test_only_the_included_nodes() -> None:
    spec = job(2, 8, include_nodes=("a1", "b0"))
    found = ladder(cluster({"a": (8, 8), "b": (8, 8)}), spec)
    assert nodes_of(declared_targets(found)) == {"a1", "b0"}
    spec = job(1, 8, include_nodes=("a1", "c9"))
    no_nodes = refusal(ladder_for_submit(cluster({"b": (8,)}), spec))
    assert no_nodes.reason is Reason.EVERY_NODE_EXCLUDED
    assert "a1, c9: no such node" in no_nodes.message


def test_most_nodes_are_kept_by_seats_where_yarn_could_take_more() -> None:
    """Eight tasks on at most two of five nodes: with one target YARN could use all five."""
    spec = job(8, 2, max_nodes=3)
    snapshot = cluster({"a": ((8, 6), (8, 6), (8, 4), (8, 2), (8, 2))})
    targets = declared_targets(ladder(snapshot, spec))
    rung = best(plan(snapshot, spec, targets=targets))
    assert rung.node_limit == 3
    assert all(len(ask.target.nodes) == 1 for ask in rung.asks)
    assert sum(ask.count for ask in rung.asks) == 8
    assert len({ask.target.nodes for ask in rung.asks}) == 3


def test_a_gang_that_cannot_break_its_limit_needs_no_seats() -> None:
    found = ladder(cluster({"a": (8, 8, 8)}), job(2, 8, max_nodes=2))
    assert found.extra_targets == ()


def test_max_nodes_tells_how_many_would_do() -> None:
    spec = job(4, 2, max_nodes=1)
    snapshot = cluster({"a": ((8, 4), (8, 4))})
    targets = declared_targets(ladder(cluster({"a": (8, 8)}), spec))
    no_fit = refusal(plan(snapshot, spec, targets=targets))
    assert "placement.max_nodes: 2: fits now" in no_fit.hint


# ---- racks together, rounding, AM ---------------------------------------------------------------


def test_a_gang_larger_than_a_rack_is_kept_to_as_few_racks_as_can_be() -> None:
    snapshot = cluster(dict.fromkeys("abcdefgh", (8,) * 4))
    found = ladder(snapshot, job(6, 8))
    first = declared_targets(found)[0]
    assert (first.level, len(first.racks)) == (LocalityLevel.RACK, 2)
    assert declared_targets(found)[-1].racks == ()
    assert "costs 1 rack boundary to cross" in found.rungs[0].reason


def test_yarn_rounds_what_it_is_asked_for() -> None:
    """The Fair Scheduler gives multiples of 1 GiB unless configured otherwise."""
    steps = AllocationSteps(Resources(1024, 1, 0), Resources(1024, 1, 1))
    assert steps.rounded(Resources(1300, 1, 0)) == Resources(2048, 1, 0)
    assert steps.rounded(Resources(100, 0, 1)) == Resources(1024, 1, 1)
    nodes = (replace(node("n0", "/r", 8), total=Resources(9216, 16, 8)),)
    snapshot = ClusterSnapshot(0.0, nodes, QueueView("q"))
    spec = job(6, 1)
    (worker,) = spec.roles
    spec = replace(spec, roles=(replace(worker, resources=Resources(1300, 1, 1)),))
    assert isinstance(ladder_for_submit(snapshot, spec), PlacementPlan)
    rounding = replace(snapshot, steps=steps)
    assert refusal(ladder_for_submit(rounding, spec)).reason is Reason.GANG_EXCEEDS_CLUSTER
    four = replace(spec, roles=(replace(spec.roles[0], tasks=4),))
    (target, *_) = declared_targets(ladder(rounding, four))
    assert target.resources == Resources(2048, 1, 1)


def test_no_room_for_the_am_is_not_now() -> None:
    full = replace(node("n0", "/r", 8), total=Resources(10240, 16, 8), used=Resources(9728, 0, 0))
    nodes = (full, replace(full, node_id=NodeId("n1")))
    no_fit = refusal(plan(ClusterSnapshot(0.0, nodes, QueueView("q")), job(1, 1, am=True)))
    assert not no_fit.is_never
    assert "no node can hold the ApplicationMaster" in no_fit.message


# ---- inputs nearby ------------------------------------------------------------------------------


def data(**nodes: int) -> BytesByNode:
    found = sorted(((NodeId(n), b) for n, b in nodes.items()), key=lambda item: -item[1])
    return BytesByNode(tuple(found), (), sum(nodes.values()))


def test_of_equal_nodes_those_with_the_most_input() -> None:
    snapshot = cluster({"a": (8, 8, 8, 8)})
    near = data(a3=700, a1=200, a0=100)
    rung = ladder(snapshot, job(2, 8), data=near).rungs[0]
    assert set(where(rung)) == {"a1", "a3"}
    assert rung.local_bytes == 900
    assert "90% of the input's bytes are on these nodes" in rung.reason
    far = ladder(snapshot, job(2, 8, near_data=False), data=near).rungs[0]
    assert set(where(far)) == {"a0", "a1"}
    assert "input" not in far.reason


def test_input_does_not_break_up_whole_nodes() -> None:
    snapshot = cluster({"a": (8, (8, 4), 8)})
    assert where(ladder(snapshot, job(4, 1), data=data(a2=1000)).rungs[0]) == {"a1": 4}


def test_of_equal_racks_the_one_with_the_most_input() -> None:
    snapshot = cluster({"a": (8, 8), "b": (8, 8), "c": (8, 8)})
    found = ladder(snapshot, job(2, 8), data=data(b0=10, b1=10, a0=5))
    assert [t.racks for t in declared_targets(found)] == [("/b",), ("/a",), ("/c",), ()]


def test_bytes_by_node_from_blocks() -> None:
    one, two, three = (("a0", "/a"), ("a1", "/a"), ("b0", "/b"))
    places = [(NodeId(n), RackId(r)) for n, r in (one, two, three)]
    found = bytes_by_node([(100, places[:2]), (50, places[1:]), (7, [])])
    assert dict(found.nodes) == {"a1": 150, "a0": 100, "b0": 50}
    assert dict(found.racks) == {"/a": 150, "/b": 50}
    assert found.total_bytes == 157


# ---- an order of its own for each job -----------------------------------------------------------


def test_jobs_that_look_at_once_choose_different_nodes() -> None:
    """Twenty jobs for one node each, on forty idle nodes: they should use most of them."""
    snapshot = cluster({"a": (8,) * 40})
    spec = job(4, 2)
    chosen = [
        next(iter(where(best(plan(snapshot, spec, seed=f"application_1_{i:04}")))))
        for i in range(20)
    ]
    assert len(set(chosen)) >= 14, "20 draws of 40 give 16 on average"
    assert chosen == [
        next(iter(where(best(plan(snapshot, spec, seed=f"application_1_{i:04}")))))
        for i in range(20)
    ]


def test_packing_comes_before_the_jobs_own_order() -> None:
    snapshot = cluster({"a": (8, 8, (8, 4), 8)})
    for seed in ("", "x", "application_9_0001"):
        assert set(where(best(plan(snapshot, job(4, 1), seed=seed)))) == {"a2"}


def test_racks_too() -> None:
    snapshot = cluster({f"r{i}": (8, 8) for i in range(8)})
    racks = {best(plan(snapshot, job(2, 8), seed=str(i))).asks[0].target.racks for i in range(12)}
    assert len(racks) >= 4


# ---- what is left of the examples ---------------------------------------------------------------


def test_nodes_that_do_not_run_hold_nothing() -> None:
    snapshot = cluster({"a": (8, 8)})
    lost = replace(snapshot.nodes[0], state=NodeState.LOST)
    found = ladder(replace(snapshot, nodes=(lost, snapshot.nodes[1])), job(4, 2))
    assert set(where(found.rungs[0])) == {"a1"}


def test_a_spread_gang_of_several_roles() -> None:
    spec = job(2, 1, ps=1, strategy=PackOrSpread.SPREAD)
    rung = ladder(cluster({"a": (8, 8, 8)}), spec, policy=PlanPolicy()).rungs[0]
    nodes = [name for ask in rung.asks for name in ask.expected_nodes]
    assert len(nodes) == len(set(nodes)) == 3


def test_a_rack_is_still_required_of_one_model() -> None:
    snapshot = with_models(cluster({"a": (8, 8), "b": (8, 8)}), {"a0": A100, "b0": A100, "a": V100,
                                                                 "b": V100})  # fmt: skip
    no_fit = refusal(ladder_for_submit(snapshot, job(2, 8, rack=REQUIRED)))
    assert no_fit.reason in {Reason.GANG_EXCEEDS_RACK, Reason.GANG_EXCEEDS_GPU_MODEL}
    assert no_fit.is_never
