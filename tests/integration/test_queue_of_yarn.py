"""YARN says which queue a job is in: its placement rules and its administrators decide."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.integration.queue_files import placement_rules
from tests.integration.submit_world import SubmitWorld
from yarnam.adapters.yarn.addresses import rm_web_urls
from yarnam.errors import ExitCode

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs]

SPEC_QUEUE, SHARED, OTHER = "root.research", "root.default", "root.dl"
RULES = f'<rule name="default" queue="{SHARED}"/>'


def move(world: SubmitWorld, application: str, queue: str) -> None:
    request = urllib.request.Request(
        f"{rm_web_urls(world.environ['HADOOP_CONF_DIR'])[0]}/ws/v1/cluster/apps/{application}/queue"
        f"?user.name={world.user}",
        data=json.dumps({"queue": queue}).encode(),
        headers={"Content-Type": "application/json"},
        method="PUT",
    )
    urllib.request.urlopen(request, timeout=20).read()


def test_a_job_is_where_yarn_has_put_it(
    submit_world: SubmitWorld, cluster: EmbeddedCluster, unique_name: Callable[[str], str]
) -> None:
    world = submit_world
    name = unique_name("placed")
    spec = world.spec(name, "sleep 300", queue=SPEC_QUEUE)
    exact = world.spec(
        unique_name("exact"), "sleep 300", queue={"name": SPEC_QUEUE, "placement": "exact"}
    )
    with placement_rules(cluster, world.environ, RULES):
        submitted = world.run("submit", "--detach", spec)
        assert submitted.code == 0, submitted.err
        assert f"put the job into queue {SHARED}, not into {SPEC_QUEUE}" in submitted.err
        refused = world.run("submit", "--detach", exact)
        assert refused.code == ExitCode.BAD_CONFIG, refused.err
    application = submitted.out.split()[-1]
    shown = world.await_state(application, "RUNNING")
    assert (shown["queue"], shown["requested_queue"]) == (SHARED, SPEC_QUEUE)

    move(world, application, OTHER)
    moved = world.run("status", application)
    assert f"queue {OTHER} (its spec asks for {SPEC_QUEUE})" in moved.out, moved.out
    assert world.run("kill", application).code == 0
