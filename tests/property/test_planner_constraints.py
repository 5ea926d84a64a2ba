"""Whatever a job wishes: nothing is exceeded, models are not mixed, roles are kept apart, and the
job's own order decides between equals only."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.test_planner import check_rung, fix_flexible, jobs, outline, snapshots
from yarnam.core.model.gpu_names import has_words
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_spec import JobSpec, TopologyConstraint
from yarnam.core.model.plans import NoFit, PlacementPlan, Rung
from yarnam.core.model.snapshot import BytesByNode, ClusterSnapshot
from yarnam.core.placement import declared_targets, ladder_for_submit, plan

APART = (("ps", "ps"), ("ps", "worker"), ("worker", "worker"))


@st.composite
def mixed(draw: st.DrawFn) -> ClusterSnapshot:
    """Nodes of two models, and some of which nobody knows."""
    snapshot = draw(snapshots())
    models = st.sampled_from(("A100", "V100", ""))
    return replace(
        snapshot, nodes=tuple(replace(n, gpu_model=draw(models)) for n in snapshot.nodes)
    )


@st.composite
def wishful(draw: st.DrawFn) -> JobSpec:
    spec = fix_flexible(draw(jobs()))
    apart = draw(st.lists(st.sampled_from(APART), max_size=2, unique=True))
    roles = {role.name for role in spec.roles}
    return replace(
        spec,
        placement=replace(
            spec.placement,
            gpu_model=draw(st.sampled_from(("same", "any", "a100"))),
            anti_affinity=tuple(pair for pair in apart if set(pair) <= roles),
            include_nodes=draw(st.sampled_from(((), (), ("n0", "n1", "n2")))),
            max_nodes=draw(st.sampled_from((None, None, 1, 2, 3))),
        ),
    )


@settings(max_examples=400, deadline=None)
@given(snapshot=mixed(), spec=wishful(), seed=st.sampled_from(("", "a", "b")))
def test_every_wish_holds_on_every_rung(
    snapshot: ClusterSnapshot, spec: JobSpec, seed: str
) -> None:
    found = plan(snapshot, spec, seed=seed)
    if isinstance(found, NoFit):
        assert found.message
        return
    for rung in found.rungs:
        check_rung(rung, snapshot, spec)
        check_models(rung, snapshot, spec)
        check_apart(rung, spec)
        nodes = {node for ask in rung.asks for node in ask.expected_nodes}
        if spec.placement.include_nodes:
            assert nodes <= set(spec.placement.include_nodes)
        assert spec.placement.max_nodes is None or len(nodes) <= spec.placement.max_nodes


def check_models(rung: Rung, snapshot: ClusterSnapshot, spec: JobSpec) -> None:
    wish = spec.placement.gpu_model
    model_of = {node.node_id: node.gpu_model for node in snapshot.nodes}
    known = {
        model_of[node]
        for ask in rung.asks
        if ask.target.resources.gpus
        for node in ask.expected_nodes
    } - {""}
    if wish == "same":
        assert len(known) <= 1
    elif wish != "any":
        assert all(has_words(model, wish) for model in known)


def check_apart(rung: Rung, spec: JobSpec) -> None:
    where = [(ask.target.role, node) for ask in rung.asks for node in ask.expected_nodes]
    for one, other in spec.placement.anti_affinity:
        mine = [node for role, node in where if role == one]
        if one == other:
            assert len(mine) == len(set(mine))
        else:
            assert not set(mine) & {node for role, node in where if role == other}


@settings(max_examples=250, deadline=None)
@given(snapshot=mixed(), spec=wishful())
def test_what_is_planned_at_submit_can_be_planned_with_its_targets(
    snapshot: ClusterSnapshot, spec: JobSpec
) -> None:
    """The same cluster a moment later, with the ApplicationMaster of no size in place."""
    ladder = ladder_for_submit(snapshot, spec)
    before = plan(snapshot, spec)
    if isinstance(ladder, NoFit):
        return
    after = plan(snapshot, spec, targets=declared_targets(ladder))
    assert isinstance(before, NoFit) == isinstance(after, NoFit)


@settings(max_examples=250, deadline=None)
@given(snapshot=mixed(), spec=wishful(), seed=st.text("abc", min_size=1, max_size=4))
def test_the_jobs_own_order_changes_no_level_and_no_score(
    snapshot: ClusterSnapshot, spec: JobSpec, seed: str
) -> None:
    one, two = plan(snapshot, spec), plan(snapshot, spec, seed=seed)
    assert outline(one) == outline(two)
    if isinstance(one, PlacementPlan) and isinstance(two, PlacementPlan):
        assert one.rungs[0].score == two.rungs[0].score


def is_free(spec: JobSpec) -> bool:
    """Whether the job wants neither few nodes nor one rack."""
    wish = spec.placement
    free = TopologyConstraint.UNCONSTRAINED
    return wish.node is free and wish.rack is free and wish.max_nodes is None


@settings(max_examples=250, deadline=None)
@given(
    snapshot=mixed(),
    spec=wishful(),
    bytes_=st.lists(st.integers(0, 1000), min_size=6, max_size=6),
)
def test_inputs_nearby_change_no_level_and_no_score(
    snapshot: ClusterSnapshot, spec: JobSpec, bytes_: list[int]
) -> None:
    nodes = tuple((NodeId(f"n{i}"), count) for i, count in enumerate(bytes_) if count)
    near = BytesByNode(nodes, (), sum(bytes_))
    one, two = plan(snapshot, spec), plan(snapshot, spec, data=near)
    if is_free(spec):  # nothing but its data draws such a gang together, or apart
        assert outline(one, with_nodes=False) == outline(two, with_nodes=False)
        return
    assert outline(one) == outline(two)
    if isinstance(one, PlacementPlan) and isinstance(two, PlacementPlan):
        assert one.rungs[0].score == two.rungs[0].score
