"""Which size a user may wish for, in the unit of the spec, and what is said of others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.client.world import World, job_spec
from yarnam.client.monitor.requested_size import RequestedSize, requested_size
from yarnam.core.model.job_spec import ElasticSpec, JobSpec
from yarnam.errors import Unavailable, UsageError
from yarnam.wire.codec import encode

KEY = "20261121-000000-abcdef"


def elastic(least: int = 1, most: int = 3, *, counts_gpus: bool = False) -> JobSpec:
    """Tasks of four GPUs."""
    job = job_spec()
    role = replace(job.roles[0], tasks=most, min_tasks=least)
    return replace(job, roles=(role,), elastic=ElasticSpec(counts_gpus=counts_gpus))


def test_tasks_are_counted_where_the_spec_counts_tasks() -> None:
    assert requested_size(elastic(), 2) == RequestedSize("worker", 2, 8)
    assert str(requested_size(elastic(), 1)) == "resize to 1 worker task (4 GPUs) requested"


def test_gpus_are_counted_where_the_spec_counts_gpus() -> None:
    assert requested_size(elastic(counts_gpus=True), 12) == RequestedSize("worker", 3, 12)


def test_no_size_in_particular() -> None:
    assert requested_size(elastic(), None).tasks is None
    assert "automatic" in str(requested_size(elastic(), None))


@pytest.mark.parametrize(
    ("job", "size", "words"),
    [
        (elastic(), 4, "can have 1 to 3 worker tasks, not 4"),
        (elastic(), 0, "can have 1 to 3 worker tasks, not 0"),
        (elastic(counts_gpus=True), 6, "can have 4 to 12 GPUs in steps of 4, not 6"),
        (job_spec(), 2, "hello is not elastic: it always has 2 tasks"),
    ],
)
def test_other_sizes_are_refused(job: JobSpec, size: int, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        requested_size(job, size)


# ---- the handle ----------------------------------------------------------------------------


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_the_am_is_told(world: World) -> None:
    job = world.job(key=KEY)
    record = replace(job.record(), job=elastic())
    world.put(KEY, "job.json", encode(record))
    fresh = world.client.job(job.id)
    assert fresh.scale(3).gpus == 12
    fresh.scale(None)
    assert world.line.scaled == [("me", 3), ("me", None)]


@pytest.mark.parametrize(
    ("state", "am", "error"), [("ACCEPTED", False, Unavailable), ("FINISHED", True, UsageError)]
)
def test_without_an_am_nobody_can_note_it(
    world: World, state: str, am: bool, error: type[Exception]
) -> None:
    job = world.job(key=KEY, state=state, am=am)
    world.put(KEY, "job.json", encode(replace(job.record(), job=elastic())))
    with pytest.raises(error):
        world.client.job(job.id).scale(2)
    assert world.line.scaled == []
