"""A ring over the ranks of a role crosses each rack boundary once and each node boundary once."""

from __future__ import annotations

from hypothesis import given, settings

from tests.property.test_planner import fix_flexible, jobs, snapshots
from yarnam.client.planning.outlook import Outlook, outlook
from yarnam.client.submit.preflight import CheckedJob
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.plans import NoFit
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.core.placement import ladder_for_submit


def looked_at(snapshot: ClusterSnapshot, spec: JobSpec) -> Outlook | None:
    ladder = ladder_for_submit(snapshot, spec)
    return (
        None
        if isinstance(ladder, NoFit)
        else outlook(CheckedJob(spec, snapshot, ladder), "nobody is asked")
    )


def crossings(places: list[str]) -> int:
    """How often a ring over them comes from one place to another."""
    return sum(one != other for one, other in zip(places, [*places[1:], *places[:1]], strict=True))


@settings(max_examples=300, deadline=None)
@given(snapshot=snapshots(), spec=jobs().map(fix_flexible))
def test_each_boundary_is_crossed_once(snapshot: ClusterSnapshot, spec: JobSpec) -> None:
    found = looked_at(snapshot, spec)
    if found is None:
        return
    for role in spec.roles:
        mine = [seat for seat in found.tasks if seat.task.startswith(f"{role.name}-")]
        for places in ([seat.node for seat in mine], [seat.rack for seat in mine]):
            different = len(set(places))
            # k places in a ring have k boundaries; one place has none.
            assert crossings(list(map(str, places))) == (different if different > 1 else 0)


@settings(max_examples=200, deadline=None)
@given(snapshot=snapshots(), spec=jobs().map(fix_flexible))
def test_ranks_are_complete_and_in_order(snapshot: ClusterSnapshot, spec: JobSpec) -> None:
    found = looked_at(snapshot, spec)
    if found is None:
        return
    nodes = sum(len(ask.expected_nodes) for ask in found.best.asks)
    assert len(found.tasks) == nodes == found.best.tasks
    first = 0
    for seat in found.tasks:
        assert seat.first_rank == first
        first += seat.processes
    assert first == sum(role.tasks * role.processes_per_task for role in spec.roles)
