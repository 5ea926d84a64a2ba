"""``yarnam queues`` on a real cluster: 50 constructed waits for an ApplicationMaster.

What the ResourceManager writes into the diagnostics of each application is the judge.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.queue_files import left_after, more_queues
from tests.integration.submit_world import SubmitWorld

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

pytestmark = pytest.mark.yarn

KINDS = ("am-share", "max-jobs", "max-resources")
WAITS = 45
NODES = 4
NO_NODE = 5

OWN_WORDS = {
    "am-share": "exceeds maximum AM resource allowed",
    "max-resources": "exceeds current queue or its parents maximum resource allowed",
    "no-node-for-am": "exceeds the available resources of the node",
}
"""Of the Fair Scheduler (FSAppAttempt). It is silent about maxRunningApps."""


def queue_of(kind: str, number: int, dice: random.Random) -> str:
    """A queue in which the first job waits already."""
    limits = {
        "am-share": f"<maxAMShare>{dice.choice([0.0, 0.0001, 0.0005])}</maxAMShare>",
        "max-jobs": "<maxRunningApps>0</maxRunningApps><maxAMShare>-1.0</maxAMShare>",
        "max-resources": (
            f"<maxResources>memory-mb={dice.choice([1024, 1500])}, vcores=9, yarn.io/gpu=0"
            "</maxResources><maxAMShare>-1.0</maxAMShare>"
        ),
    }[kind]
    return f'<queue name="w{number}">{limits}<aclSubmitApps>*</aclSubmitApps></queue>\n'


def submit(world: SubmitWorld, queue: str, memory_mib: int) -> str:
    application = world.rm.new_application()
    context: dict[str, Any] = {
        "application-id": application,
        "application-name": "waits",
        "queue": queue,
        "application-type": "TEST",
        "am-container-spec": {"commands": {"command": "sleep 100"}},
        "resource": {"memory": memory_mib, "vCores": 1},
        "application-tags": {"tag": []},
    }
    world.rm.submit_application(context)
    return application


def test_waits_have_the_cause_that_yarn_gives(
    cluster: EmbeddedCluster, cluster_env: dict[str, str], tmp_path: Path
) -> None:
    world, dice = SubmitWorld(tmp_path, cluster_env, cluster.conf_dir), random.Random(7)
    kinds = [KINDS[number % 3] for number in range(WAITS)]
    queues = "".join(queue_of(kind, number, dice) for number, kind in enumerate(kinds))
    queues += '<queue name="full"><maxAMShare>-1.0</maxAMShare>'
    queues += "<aclSubmitApps>*</aclSubmitApps></queue>\n"
    fillers: list[str] = []
    jobs: dict[str, str] = {}
    with more_queues(cluster, cluster_env, queues):
        try:
            for number, kind in enumerate(kinds):
                jobs[submit(world, f"root.w{number}", 1536)] = kind

            def undecided() -> list[str]:
                silent = {name for name, kind in jobs.items() if kind not in OWN_WORDS}
                return [
                    app.diagnostics
                    for app in world.rm.applications()
                    if app.application in jobs
                    and app.application not in silent
                    and OWN_WORDS[jobs[app.application]] not in app.diagnostics
                ]

            assert not left_after(undecided, 30.0)
            # A node that is reserved for somebody hears nobody else: so these come last.
            fillers += [submit(world, "root.full", 64_000) for _ in range(NODES)]
            assert not left_after(
                lambda: [
                    one.application
                    for one in world.rm.applications()
                    if one.application in fillers and not one.running_containers
                ],
                30.0,
            )
            jobs |= {submit(world, "root.full", 1536): "no-node-for-am" for _ in range(NO_NODE)}
            assert not left_after(undecided, 30.0)
            found = world.run("queues", "why", "root", "--json")
            assert found.code == 0, found.err
            causes = {row["application"]: row["cause"] for row in found.json}
            assert {name: causes.get(name) for name in jobs} == jobs
            shown = world.run("queues", "show")
            assert f"Waiting: {WAITS + NO_NODE}" in shown.out
            plain = world.run("queues", "show", "root.dl", "--json").json
            assert plain["queues"][0]["weight"] == 3.0
            assert plain["largest_gangs"][-1]["cluster"] == 32
        finally:
            for application in [*jobs, *fillers]:
                world.rm.kill(application)
            mine = {*jobs, *fillers}
            assert not left_after(
                lambda: [
                    one.application
                    for one in world.rm.applications()
                    if one.application in mine and not one.is_over
                ],
                30.0,
            )
