"""Who gets what: the model of the Fair Scheduler against a real ResourceManager.

One allocation file has many configurations side by side, as for ``test_queue_shares``, each with
more demand than it may have. Every application wants one container, that of its ApplicationMaster,
which never starts. The node is simulated, so that all fit on one and nothing is reserved. It sends
no heartbeat, so nothing is granted, before all have asked.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.integration.queue_files import left_after, live, more_queues
from tests.integration.queue_trees import tree
from tests.integration.simulated_nodes import SimulatedNodes
from yarnam.adapters.yarn.allocation_xml import load_allocations
from yarnam.adapters.yarn.rest import ResourceManager
from yarnam.cluster import ClusterShape, EmbeddedCluster
from yarnam.core.model.outcomes import ContainerEnd
from yarnam.core.model.resources import Resources
from yarnam.core.queues.allocations import QueueConfig
from yarnam.sim.yarn_model.containers import Container
from yarnam.sim.yarn_model.sim_queues import Application, SimQueues

pytestmark = [pytest.mark.yarn, pytest.mark.long, pytest.mark.timeout(900)]

CONFIGURATIONS = 60
APPLICATIONS = 24
"""In each."""
SEED = 21
SIZE = Resources(2_000_000, 800, 160)
"""No configuration has more."""
NODE = Resources(SIZE.memory_mib * 100, SIZE.vcores * 100, SIZE.gpus * 100)
STEP_MIB = 1024
"""The Fair Scheduler rounds what is asked for up to a multiple of it."""
LEAST, MOST = 40, 160
"""Of such steps in an ask: more than the one real node has, so that nothing is granted there."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """One real node. No ApplicationMaster starts, and none is given up before the test is over."""
    minutes = str(30 * 60 * 1000)
    site = {
        "yarn.scheduler.maximum-allocation-mb": str(NODE.memory_mib),
        "yarn.scheduler.maximum-allocation-vcores": str(NODE.vcores),
        "yarn.client.nodemanager-connect.max-wait-ms": minutes,
    }
    shape = ClusterShape(
        nodes=1, racks=1, gpus="simulated", gpus_per_node=1, memory_mib=8192, nm_expiry_s=1800,
        overrides={"yarn-site": site},
    )  # fmt: skip
    root = tmp_path_factory.mktemp("clusters")
    with EmbeddedCluster(shape, name=f"alloc-{os.getpid()}", state_root=root) as found:
        yield found


class Nobody:
    """No ApplicationMaster listens."""

    def granted(self, container: Container) -> None: ...

    def ended(self, container: Container, end: ContainerEnd) -> None: ...


def asks(dice: random.Random, leaves: list[str]) -> list[tuple[str, Resources]]:
    """A queue and what is asked for there, in the order of submission."""
    of_configuration: dict[str, list[str]] = {}
    for leaf in leaves:
        of_configuration.setdefault(leaf.split(".")[1], []).append(leaf)
    # Otherwise a configuration of few leaves among many could be left out.
    configurations = list(of_configuration) * APPLICATIONS
    dice.shuffle(configurations)
    found = []
    for configuration in configurations:
        memory = dice.randint(LEAST, MOST) * STEP_MIB
        size = Resources(memory, dice.randint(1, 60), dice.choice([0, 1, 1, 2, 4, 8]))
        found.append((dice.choice(of_configuration[configuration]), size))
    return found


def by_the_model(
    root: QueueConfig, size: Resources, applications: list[tuple[str, Resources]]
) -> Mapping[str, Resources]:
    """What each queue uses when no ask of these fits any more."""
    queues = SimQueues(root, size)
    pending: dict[int, Resources] = {}
    for number, (name, amount) in enumerate(applications):
        app = Application(number, queues.leaves[name], 0.0, Nobody())
        queues.add(app)
        app.queue.asks_begin(app)
        pending[number] = amount
    while (app := next(queues.in_serving_order(), None)) is not None:  # type: ignore[assignment]
        amount = pending[app.number]
        # What a queue uses never falls here: an ask that does not fit never will.
        if app.queue.has_quota_for(amount):
            app.used = amount
            app.queue.take(amount)
        app.queue.asks_end(app)
    return {queue.name: queue.used for queue in queues.root.walk()}


def test_allocations_are_those_of_the_resource_manager(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    dice = random.Random(SEED)
    queues = "".join(
        tree(dice, f"c{number}", SIZE, max_am_share=-1.0, has_order=True)
        for number in range(CONFIGURATIONS)
    )
    rm = ResourceManager.from_conf(str(cluster.conf_dir), user=cluster.plan.user)
    with (
        more_queues(cluster, cluster.environ(), queues),
        closing(SimulatedNodes(cluster, tmp_path, 1, NODE, 20)) as nodes,
    ):
        root = load_allocations(cluster.plan.paths.queues("fair")).root
        leaves = [queue.name for queue in root.leaves() if queue.name.startswith("root.c")]
        wanted = asks(dice, leaves)
        by_id = {nodes.submit(name, size): (name, size) for name, size in wanted}

        def undecided() -> list[Any]:
            states = {one.application: one.state for one in rm.applications()}
            return [one for one in by_id if states.get(one) not in {"ACCEPTED", "FAILED"}]

        assert not left_after(undecided, 120.0)
        states = {one.application: one.state for one in rm.applications()}
        # One is refused whose queue may not have so much.
        accepted = [ask for one, ask in by_id.items() if states[one] == "ACCEPTED"]
        assert live(rm).used == Resources(), "nothing is granted yet"
        expected = by_the_model(root, live(rm).steady_share, accepted)
        nodes.send_heartbeats()

        def different() -> list[Any]:
            return [
                (queue.name, queue.used, expected[queue.name])
                for queue in live(rm).walk()
                if queue.used != expected[queue.name]
            ]

        left = left_after(different, 120.0)
        count = len(different())
        assert not left, f"{count} of {len(expected)} queues differ: {left}"
        configurations = Counter(name.split(".")[1] for name, _ in accepted)
        assert len(configurations) == CONFIGURATIONS
        granted = sum(expected[name] != Resources() for name in leaves)
        print(
            f"{CONFIGURATIONS} configurations, {len(accepted)} applications of {len(by_id)}, "
            f"{granted} of {len(leaves)} leaf queues have something"
        )
