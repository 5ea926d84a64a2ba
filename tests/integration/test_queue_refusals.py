"""What ``yarnam queues lint`` says that YARN refuses, a real ResourceManager refuses; and what it
calls a finding only, YARN takes in silence."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.integration.queue_files import more_queues
from tests.unit.queues.test_lint import FAULTS, GOOD, findings

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

pytestmark = [pytest.mark.yarn, pytest.mark.long]

SAID = ("YARN refuses the file", "NullPointerException")


def is_taken(environ: dict[str, str]) -> bool:
    done = subprocess.run(
        ["yarn", "rmadmin", "-refreshQueues"], env=environ, capture_output=True, timeout=60,
        check=False,
    )  # fmt: skip
    return done.returncode == 0


def test_yarn_refuses_what_lint_says(cluster: EmbeddedCluster, cluster_env: dict[str, str]) -> None:
    path = cluster.plan.paths.queues("fair")
    wrong = []
    with more_queues(cluster, cluster_env, ""):  # puts the cluster's own back
        for rule, old, new in FAULTS:
            text = GOOD.replace(old, new, 1)
            path.write_text(text)
            says_refused = any(word in one.why for one in findings(text) for word in SAID)
            if is_taken(cluster_env) == says_refused:
                wrong.append((rule, new))
    assert not wrong
