"""Each policy of the pages on queues, brought up on a real cluster: the ResourceManager has the
queues, shares and limits that the policy asks for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.queue_files import left_after, more_queues, refresh
from yarnam.adapters.yarn.allocation_xml import load_allocations
from yarnam.adapters.yarn.rest import ResourceManager
from yarnam.client.queues.queue_policy import read_policy
from yarnam.core.queues.comparison import not_taken
from yarnam.core.queues.generation import allocation_file
from yarnam.core.queues.queues_now import QueuesNow

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

pytestmark = pytest.mark.yarn

POLICIES = sorted((Path(__file__).parents[2] / "docs" / "examples" / "queues").glob("*.yaml"))


@pytest.mark.long
def test_the_resource_manager_takes_every_policy_of_the_pages(
    cluster: EmbeddedCluster, cluster_env: dict[str, str]
) -> None:
    assert len(POLICIES) >= 6
    path = cluster.plan.paths.queues("fair")
    rm = ResourceManager.from_conf(str(cluster.conf_dir), user="ada")
    with more_queues(cluster, cluster_env, ""):  # puts the cluster's own back
        for policy in POLICIES:
            path.write_text(allocation_file(read_policy(str(policy))))
            refresh(cluster_env)
            planned = load_allocations(path)

            def different() -> list[str]:
                report = rm.queue_report()
                assert report is not None
                return not_taken(QueuesNow(0.0, report.root, report.nodes), planned)  # noqa: B023

            assert left_after(different, 15.0) == [], policy.name
            report = rm.queue_report()
            assert report is not None
            names = {queue.name for queue in report.root.walk()}
            assert {queue.name for queue in planned.root.walk()} <= names
