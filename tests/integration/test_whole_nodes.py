"""Whole nodes of a quota on a real cluster: what a gang that respects cells leaves alone, and what
`yarnam policy cells` says of one that does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import LIMIT_S, MARKS, waiting_for
from yarnam.core.model.job_status import JobStatus, Phase
from yarnam.core.model.outcomes import VerdictKind
from yarnam.core.queue_client.admission_rules import LEFT_TO_QUOTAS

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.zookeeper, pytest.mark.long, pytest.mark.timeout(900)]

PROD = "root.prod"
"""Is guaranteed a quarter of the cluster: one of its four nodes."""
QUOTA = 1


def whole_nodes(world: FaultWorld) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `policy cells` says of all, and of prod's quota."""
    done = world.yarnam("policy", "cells", PROD, "--json").wait()
    assert done.code == 0, done
    found = json.loads(done.out)
    (row,) = found["queues"]
    assert (row["queue"], row["quota"]) == (PROD, QUOTA)
    return found, row


def test_a_gang_that_respects_cells_leaves_the_quotas_of_others_whole(
    world: FaultWorld, tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    nodes, gpus = len(world.cluster.nodes), world.cluster.nodes[0].gpus
    whole = {"gpus": gpus, "processes_per_task": 1}

    def submit(stem: str, worker: dict[str, Any], **changes: Any) -> Job:
        ends = waiting_for(tmp_path / stem)
        return world.submit(unique_name(stem), ends, worker=worker, **changes)

    def end(stem: str, job: Job) -> None:
        (tmp_path / stem).touch()
        assert job.wait(2 * LIMIT_S).kind is VerdictKind.SUCCEEDED

    def is_left_to_quotas(status: JobStatus) -> bool:
        assert status.phase != Phase.RUNNING.value, "it has taken the node of a quota"
        return status.wait_queue is not None and LEFT_TO_QUOTAS in status.wait_queue.reason

    respects = {"placement": {"cells": True}}
    many = submit("many", {**whole, "tasks": nodes - QUOTA}, **respects)
    world.until_phase(many, Phase.RUNNING)
    found, row = whole_nodes(world)
    assert (found["free"], found["covered"], found["is_fragmented"]) == (QUOTA, QUOTA, False)
    assert (row["free"], row["lacks"]) == (QUOTA, 0)
    small = submit("small", {"tasks": 1}, **respects)
    world.until(small, is_left_to_quotas, "its reason to wait")

    # Who does not respect cells takes it, and is named. (In the queue of ``small`` it would make
    # the node one of that queue's own.)
    careless = submit("careless", {"tasks": 1}, queue="root.research")
    world.until_phase(careless, Phase.RUNNING)
    found, row = whole_nodes(world)
    assert (found["free"], found["is_fragmented"], row["lacks"]) == (0, True, QUOTA)
    (use,) = row["broken"][0]["others"]
    assert (use["job"], use["queue"], use["gpus"]) == (careless.id, "root.research", 1)
    end("careless", careless)

    # The one that respects them waits on, and the quota's own queue has its node at once.
    prod = submit("prod", {**whole, "tasks": QUOTA}, queue=PROD)
    world.until_phase(prod, Phase.RUNNING)
    _, row = whole_nodes(world)
    assert (row["own"], row["lacks"]) == (QUOTA, 0)
    assert small.status().phase != Phase.RUNNING.value
    end("prod", prod)
    end("many", many)
    world.until_phase(small, Phase.RUNNING)
    end("small", small)
    for job in (many, small, careless, prod):
        world.assert_cleared(job)
