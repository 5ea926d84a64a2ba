"""Gangs that respect cells: no sequence of arrivals and ends in one queue takes away a whole node
that another's quota still covers."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Node, NodeState
from yarnam.core.model.tickets import RunningGang
from yarnam.core.policies.cells import cells, closed_nodes

GPUS = 4
"""Of a node."""


@dataclass
class Cluster:
    """Gangs on nodes; each arrival is placed by first fit on the nodes that are open to it."""

    size: int
    quotas: dict[str, int]
    gangs: dict[str, RunningGang] = field(default_factory=dict[str, RunningGang])
    count: int = 0

    def nodes(self) -> tuple[Node, ...]:
        used = dict.fromkeys(range(self.size), 0)
        for gang in self.gangs.values():
            for name, gpus in gang.nodes:
                used[int(name)] += gpus
        return tuple(
            Node(
                NodeId(str(at)), RackId(f"/r{at % 2}"), NodeState.RUNNING, Resources(gpus=GPUS),
                Resources(gpus=gpus),
            )
            for at, gpus in used.items()
        )  # fmt: skip

    def arrive(self, queue: str, tasks: int, gpus: int) -> bool:
        nodes = self.nodes()
        closed = closed_nodes(queue, nodes, self.gangs.values(), self.quotas)
        room = {node.node_id: node.free.gpus for node in nodes if node.node_id not in closed}
        taken: dict[NodeId, int] = {}
        for _ in range(tasks):
            fit = next((name for name, left in room.items() if left >= gpus), None)
            if fit is None:
                return False
            room[fit] -= gpus
            taken[fit] = taken.get(fit, 0) + gpus
        self.count += 1
        job = f"j{self.count}"
        gang = RunningGang(job, queue, tasks * gpus, None, tuple(sorted(taken.items())))
        self.gangs[job] = gang
        return True

    def touched(self, queue: str) -> int:
        mine = (gang for gang in self.gangs.values() if gang.queue == queue)
        return len({name for gang in mine for name, _ in gang.nodes})

    def take(self, queue: str, ends: bool, tasks: int, gpus: int, which: int) -> None:
        """One step: some gang of the queue ends, if there is one, or another arrives."""
        mine = sorted(job for job, gang in self.gangs.items() if gang.queue == queue)
        if ends and mine:
            del self.gangs[mine[which % len(mine)]]
        elif not ends:
            self.arrive(queue, tasks, gpus)

    def binds_its_quota(self, queue: str) -> bool:
        """Whether it gets all whole nodes that its quota still covers, one after the other."""
        trial = Cluster(self.size, self.quotas, dict(self.gangs), self.count)
        due = max(0, self.quotas[queue] - self.touched(queue))
        return all(trial.arrive(queue, 1, GPUS) for _ in range(due))


QUEUES = ("a", "b", "c")

steps = st.lists(
    st.tuples(
        st.sampled_from(QUEUES), st.booleans(), st.integers(1, 3), st.integers(1, GPUS),
        st.integers(0, 99),
    ),
    max_size=30,
)  # fmt: skip


@given(quotas=st.tuples(*[st.integers(0, 3)] * 3), spare=st.integers(0, 2), steps=steps)
def test_no_queue_takes_a_whole_node_that_anothers_quota_covers(
    quotas: tuple[int, ...], spare: int, steps: list[tuple[str, bool, int, int, int]]
) -> None:
    cluster = Cluster(max(1, sum(quotas) + spare), dict(zip(QUEUES, quotas, strict=True)))
    for one in steps:
        cluster.take(*one)
        assert all(cluster.binds_its_quota(other) for other in QUEUES)
        found = cells(cluster.nodes(), cluster.gangs.values(), cluster.quotas)
        assert not found.is_fragmented


@given(steps=steps)
def test_all_quotas_can_be_bound_one_after_the_other(
    steps: list[tuple[str, bool, int, int, int]],
) -> None:
    cluster = Cluster(6, {"a": 2, "b": 2, "c": 2})
    for one in steps:
        cluster.take(*one)
    for queue in QUEUES:
        while cluster.touched(queue) < cluster.quotas[queue]:
            assert cluster.arrive(queue, 1, GPUS)
