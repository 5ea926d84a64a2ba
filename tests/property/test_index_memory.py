"""A planner with memory finds what one without it finds, whatever the cluster was before."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.placement.clusters import job
from tests.unit.placement.clusters import node as node_of
from yarnam.core.model.job_spec import JobSpec, TopologyConstraint
from yarnam.core.model.plans import NoFit
from yarnam.core.model.snapshot import ClusterSnapshot, Node, NodeState, QueueView
from yarnam.core.placement import declared_targets, ladder_for_submit
from yarnam.core.placement.packing.index_memory import IndexMemory
from yarnam.core.placement.planner import plan

NODES = 8

FREE = st.lists(st.integers(0, 4), min_size=NODES, max_size=NODES)


@st.composite
def jobs(draw: st.DrawFn) -> JobSpec:
    constraint = st.sampled_from(list(TopologyConstraint))
    return job(
        draw(st.integers(1, 6)),
        draw(st.integers(1, 4)),
        flexible=draw(st.booleans()),
        am=draw(st.booleans()),
        rack=draw(constraint),
        node=draw(constraint),
        exclude_nodes=draw(st.sampled_from([(), (), ("b1",)])),
    )


def snapshot(free: list[int], before: ClusterSnapshot | None, *, away: int) -> ClusterSnapshot:
    """Nodes in an order that is not that of their names; what is alike stays the same object."""
    nodes: list[Node] = []
    for number, gpus in enumerate(free):
        made = node_of(f"{'cab'[number % 3]}{number}", f"/{'cab'[number % 3]}", 4, gpus)
        if number == away:
            made = replace(made, state=NodeState.LOST)
        known = before.nodes[number] if before is not None else made
        nodes.append(known if known == made else made)
    return ClusterSnapshot(1000.0, tuple(nodes), QueueView("root.ml"))


@given(st.lists(st.tuples(FREE, jobs(), st.integers(-4, NODES - 1)), min_size=1, max_size=5))
def test_the_same_plans(story: list[tuple[list[int], JobSpec, int]]) -> None:
    memory, seen = IndexMemory(), None
    for free, spec, away in story:
        seen = snapshot(free, seen, away=away)
        ladder = ladder_for_submit(seen, spec)
        assert ladder_for_submit(seen, spec, memory=memory) == ladder
        if isinstance(ladder, NoFit):
            continue
        targets = declared_targets(ladder)
        for blind in (False, True):
            found = plan(seen, spec, targets=targets, blind=blind)
            assert plan(seen, spec, targets=targets, blind=blind, memory=memory) == found
