"""``yarnam queues why`` of gangs that wait on a real cluster, each for another reason; where there
is a change that would start one, it is made, and the gang starts."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import MARKS, waiting_for
from tests.integration.queue_files import left_after, more_queues, refresh
from yarnam.adapters.yarn.addresses import zookeeper_credentials
from yarnam.adapters.yarn.application_list import ApplicationList
from yarnam.adapters.zookeeper.session import ZooKeeper
from yarnam.adapters.zookeeper.ticket_queue import ZooKeeperTicketQueue
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import VerdictKind
from yarnam.core.model.resources import Resources
from yarnam.core.model.tickets import Demand, Ticket
from yarnam.wire.protocol import APPLICATION_TAG

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.long, pytest.mark.timeout(900)]

QUEUES = """
<queue name="greedy"><allowPreemptionFrom>false</allowPreemptionFrom>
  <aclSubmitApps>*</aclSubmitApps></queue>
<queue name="team"><maxResources>memory-mb=200000, vcores=200, yarn.io/gpu={most}</maxResources>
  <queue name="a"><aclSubmitApps>*</aclSubmitApps></queue></queue>
<queue name="capped"><maxResources>memory-mb=200000, vcores=200, yarn.io/gpu=2</maxResources>
  <aclSubmitApps>*</aclSubmitApps></queue>
"""
"""Nothing is taken from root.greedy, so nobody claims its share from it."""

LIMIT_S = 240.0
PATIENT = {"hold_timeout": "10min", "backoff": {"base": "5min", "cap": "5min"}}


class WaitWorld:
    """Gangs on four nodes of eight GPUs, and why they wait."""

    def __init__(self, world: FaultWorld, folder: Path) -> None:
        self.world, self.folder = world, folder
        self.end = folder / "end"

    def holder(self, name: str, queue: str, tasks: int, gpus: int) -> Job:
        """Runs until it is ended."""
        job = self.submit(name, queue, tasks, gpus, waiting_for(self.end))
        self.world.until_phase(job, Phase.RUNNING)
        return job

    def submit(
        self, name: str, queue: str, tasks: int, gpus: int, command: str = "true", **changes: Any
    ) -> Job:
        worker = {"tasks": tasks, "gpus": gpus, "processes_per_task": 1, "memory": "256MiB"}
        changes.setdefault("gang", PATIENT)
        return self.world.submit(
            name, command, queue=queue, worker=worker, retry={"max_restarts": 3}, **changes
        )

    def why(self, application: str) -> dict[str, Any]:
        done = self.world.yarnam("queues", "why", application, "--json").wait()
        assert done.code == 0, done
        rows = json.loads(done.out)
        return rows[0] if rows else {}

    def said(self, application: str) -> str:
        done = self.world.yarnam("queues", "why", application).wait()
        assert done.code == 0, done
        return done.out

    def until(self, cause: str, application: str) -> dict[str, Any]:
        """What is said of it once it has this cause."""
        found: dict[str, Any] = {}

        def other() -> list[Any]:
            found.update(self.why(application))
            return [] if found.get("cause") == cause else [found.get("cause"), found.get("reason")]

        left = left_after(other, LIMIT_S)
        assert not left, f"{application} waits for {left}, not {cause}"
        print(f"{cause}: {found['reason']}. Would start it: {found['change']}.")
        return found

    @contextmanager
    def stranger(
        self, name: str, demand: Demand, *, is_acquiring: bool = False
    ) -> Iterator[tuple[str, ZooKeeperTicketQueue]]:
        """An application with a ticket, and no ApplicationMaster that would ask."""
        site = self.world.site
        application = site.rm.new_application()
        context: dict[str, Any] = {
            "application-id": application,
            "application-name": name,
            "queue": "root.dl",
            "application-type": "TEST",
            "am-container-spec": {"commands": {"command": "sleep 600"}},
            "resource": {"memory": 128, "vCores": 1},
            "application-tags": {"tag": [APPLICATION_TAG]},
        }
        site.rm.submit_application(context)
        session = ZooKeeper(site.zookeeper, zookeeper_credentials(site.environ))
        queue = ZooKeeperTicketQueue(session, application, ApplicationList(site.rm))
        queue.open(lambda: None)
        try:
            assert not left_after(lambda: [] if session.is_connected else ["ZooKeeper"], 30.0)
            own = Ticket(
                0, application, name, "root.dl", (demand,), time.time(),
                is_acquiring=is_acquiring, user=site.user,
            )  # fmt: skip
            queue.take(own)
            yield application, queue
        finally:
            queue.close()
            site.rm.kill(application)


@pytest.fixture
def waits(world: FaultWorld, tmp_path: Path) -> Iterator[WaitWorld]:
    yield WaitWorld(world, tmp_path)
    world.end_all()


def test_each_wait_has_its_reason_and_the_change_that_ends_it(
    waits: WaitWorld, world: FaultWorld
) -> None:
    cluster = world.cluster
    with more_queues(cluster, world.environ, QUEUES.format(most=2)):
        # On each node 5 of 8 GPUs are held, and on one of them one more.
        waits.holder("greedy", "root.greedy", 4, 5)
        waits.holder("team", "root.team.a", 1, 1)
        node = next(one.address for one in cluster.nodes if one.name == "nm3")

        many = waits.submit("many", "root.dl", 4, 4)
        large = waits.submit("large", "root.dl", 1, 4)
        capped = waits.submit("above", "root.team.a", 1, 2)
        choosy = waits.submit("choosy", "root.dl", 2, 2, placement={"include_nodes": [node]})
        one_rack = {"locality": {"rack": "required"}}
        racked = waits.submit("racked", "root.dl", 4, 2, placement=one_rack)

        found = waits.until("not-enough-gpus", many.id)
        assert (
            "needs 16 GPUs and 11 are free; root.greedy uses 20 of a fair share" in found["reason"]
        )
        found = waits.until("fragmented", large.id)
        assert "11 GPUs are free, but in pieces: 0 of 1 task" in found["reason"]
        found = waits.until("max-resources", capped.id)
        assert "needs 2 GPUs, and root.team has 1 left of its maximum of 2" in found["reason"]
        assert "maxResources of root.team at 3 GPUs" in found["change"]
        found = waits.until("own-nodes", choosy.id)
        assert "leaves it 1 of 4 nodes (placement.include_nodes)" in found["reason"]
        # That its tasks have to be in one rack is on no ticket: its own status says it.
        waits.until("fits", racked.id)
        world.until(racked, lambda s: bool(s.wait_queue and s.wait_queue.missing), "a poll")
        assert "Its own status says" in (said := waits.said(racked.id)), said

        # Behind one that is smaller, could start, and does not.
        with waits.stranger("ahead", Demand(Resources(256, 1, 2), 3)) as (ahead, _):
            behind = waits.submit("behind", "root.dl", 2, 3)
            found = waits.until("wait-queue", behind.id)
            assert f"next {ahead} (ahead, 6 GPUs)" in found["reason"]
            assert f"the start of {ahead}" in found["change"]
        assert world.end_of(behind).kind is VerdictKind.SUCCEEDED

        with waits.stranger("asks", Demand(Resources(256, 1, 8), 2), is_acquiring=True) as (
            asks,
            _,
        ):
            found = waits.until("asked", asks)
            assert "it has asked YARN for 2 tasks with 16 GPUs; 11 are free" in found["reason"]

        # Its change is made, and it starts.
        path = cluster.plan.paths.queues("fair")
        own, team = path.read_text(), 'yarn.io/gpu={}</maxResources>\n  <queue name="a"'
        path.write_text(own.replace(team.format(2), team.format(3)))
        refresh(world.environ)
        assert world.end_of(capped).kind is VerdictKind.SUCCEEDED

        stopped = waits.holder("stops", "root.dl", 1, 1)
        done = world.yarnam("suspend", stopped.id, "--force").wait()
        assert done.code == 0, done
        found = waits.until("suspended", stopped.id)
        assert found["change"] == f"yarnam resume {stopped.id}"
        done = world.yarnam("resume", stopped.id).wait()
        assert done.code == 0, done
        world.until_phase(stopped, Phase.RUNNING)

        # A gang that is lost waits before it tries again.
        recovering = {**PATIENT, "recovery_timeout": "0s"}
        lost = waits.submit("lost", "root.dl", 1, 1, waiting_for(waits.end), gang=recovering)
        status = world.until_phase(lost, Phase.RUNNING)
        os.kill(world.agent_pid(lost, status.tasks[0].container), signal.SIGKILL)
        found = waits.until("back-off", lost.id)
        assert f"yarnam status {lost.id}" in found["change"]

        # What all the others wait for is the end of those that hold the GPUs.
        waits.end.touch()
        for job in (many, large, choosy, racked, stopped):
            assert world.end_of(job).kind is VerdictKind.SUCCEEDED
        lost.kill("seen")
