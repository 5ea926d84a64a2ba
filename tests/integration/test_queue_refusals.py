"""What ``yarnam queues lint`` says that YARN refuses, a real ResourceManager refuses; and what it
calls a finding only, YARN takes in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.queue_files import more_queues, refresh
from tests.unit.queues.test_lint import FAULTS, GOOD, findings

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

pytestmark = [pytest.mark.yarn, pytest.mark.long]

SAID = ("YARN refuses the file", "NullPointerException")


# `rmadmin -refreshQueues` succeeds whatever the file says: the ResourceManager keeps the queues
# that it has, and writes this line.
REFUSED = "Failed to reload allocations file"


def test_yarn_refuses_what_lint_says(cluster: EmbeddedCluster, cluster_env: dict[str, str]) -> None:
    path = cluster.plan.paths.queues("fair")
    log = cluster.plan.paths.log("rm")
    wrong = []
    with more_queues(cluster, cluster_env, ""):  # puts the cluster's own back
        for rule, old, new in FAULTS:
            text = GOOD.replace(old, new, 1)
            path.write_text(text)
            says_refused = any(word in one.why for one in findings(text) for word in SAID)
            before = log.read_text().count(REFUSED)
            refresh(cluster_env)
            if (log.read_text().count(REFUSED) > before) != says_refused:
                wrong.append((rule, new))
    assert not wrong
