"""A submit looks up the jobs that the job waits for, and refuses what can never be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.client.world import World, job_spec
from yarnam.client import Client
from yarnam.core.model.job_spec import DataInput, Dependency, JobCondition, JobSpec, Sharding
from yarnam.errors import BadSpec, DependencyFailed, Unavailable, YarnamError
from yarnam.wire.codec import decode
from yarnam.wire.records import JobRecord

PREP, OTHER = "application_1700000000000_0901", "application_1700000000000_0902"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def after(*jobs: str, when: JobCondition = JobCondition.SUCCEEDED) -> JobSpec:
    return job_spec(depends_on=tuple(Dependency(job, when) for job in jobs))


def record_of(world: World, client: Client, job: JobSpec) -> JobRecord:
    directory = client.submit(job).directory
    return decode(world.files.read_bytes(f"{directory}/job.json"), JobRecord)


def applications(world: World, job: JobSpec) -> list[tuple[str, ...]]:
    found = record_of(world, world.client, job)
    assert not found.prelaunched, "its containers would be requested before the others end"
    return [one.applications for one in found.job.depends_on]


def test_a_name_means_the_living_job_else_the_newest(world: World) -> None:
    ended = {"state": "FINISHED", "final_status": "SUCCEEDED"}
    world.job(application=OTHER, name="prep", **ended)
    assert applications(world, after("prep")) == [(OTHER,)]
    world.job(application=PREP, name="prep")
    assert applications(world, after("prep")) == [(PREP,)]


def test_an_application_may_be_of_anybody_and_of_any_kind(world: World) -> None:
    world.rm.add(OTHER, user="ann", name="spark", tags=())
    assert applications(world, after(OTHER)) == [(OTHER,)]


def test_an_array_means_all_of_its_members(world: World) -> None:
    array = world.client.submit_array(job_spec(), "0-2", name="sweep")
    ids = {job.id for job in array.submitted()}
    world.launcher.submitted.clear()
    (found,) = applications(world, after(array.id))
    assert set(found) == ids
    world.rm.apps.pop(next(iter(ids)))
    with pytest.raises(BadSpec, match=r"depends_on\[0\]: 2 of the 3 members .* are submitted"):
        world.client.submit(after(array.id))


def test_each_member_of_an_array_waits_for_the_job_of_its_own_index(world: World) -> None:
    first = world.client.submit_array(job_spec(), "0-1", name="prep")
    ids = [job.id for job in first.submitted()]
    second = world.client.submit_array(after("prep-${YARNAM_ARRAY_INDEX}"), "0-1", name="train")
    found = []
    for job in second.submitted():
        record = decode(world.files.read_bytes(f"{job.directory}/job.json"), JobRecord)
        found.append(record.job.depends_on[0].applications)
    assert found == [(ids[0],), (ids[1],)]


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("nobody", "me has no job 'nobody'"),
        ("hello", "me has no job 'hello'"),  # itself: a cycle of one
        ("pre", "me has no job 'pre'"),  # the start of a name is not enough
        ("theirs", "me has no job 'theirs'"),
        ("application_1_9999", "YARN knows no application application_1_9999"),
        ("0123456789ab", "me has no job '0123456789ab'"),
        ("twice", "'twice' matches 2 jobs"),
    ],
)
def test_an_unknown_or_ambiguous_job_is_refused(world: World, reference: str, text: str) -> None:
    world.job(application=PREP, name="prep")
    world.rm.add(OTHER, name="theirs", user="ann")
    for number in (3, 4):
        world.job(application=f"application_1700000000000_000{number}", name="twice")
    before = world.left_on_hdfs()
    with pytest.raises(BadSpec, match=r"depends_on\[0\]") as refused:
        world.client.submit(after(reference))
    assert text in refused.value.message
    assert world.left_on_hdfs() == before
    assert not world.launcher.submitted


@pytest.mark.parametrize(
    "end", [("FINISHED", "FAILED"), ("FAILED", "FAILED"), ("KILLED", "KILLED")]
)
def test_one_that_can_never_succeed_any_more_is_refused(world: World, end: tuple[str, str]) -> None:
    world.job(application=PREP, name="prep", state=end[0], final_status=end[1])
    with pytest.raises(DependencyFailed, match="prep") as refused:
        world.client.submit(after("prep"))
    assert PREP in refused.value.message
    with pytest.raises(DependencyFailed):
        world.client.plan(after("prep"))
    assert applications(world, after("prep", when=JobCondition.ENDED)) == [(PREP,)]


def test_with_an_idempotency_key_the_jobs_are_looked_up_once(world: World) -> None:
    world.job(application=PREP, name="prep")
    job = replace(after("prep"), idempotency_key="run")
    first = world.client.submit(job)
    world.rm.change(PREP, state="FAILED", final_status="FAILED")
    assert world.client.submit(job).id == first.id, "the job is there, whatever has become of prep"


def test_an_array_with_an_idempotency_key_looks_them_up_once_too(world: World) -> None:
    world.job(application=PREP, name="prep")
    first = world.client.submit_array(after("prep"), "0-1", name="train", idempotency_key="run")
    ids = [job.id for job in first.submitted()]
    world.rm.change(PREP, state="FAILED", final_status="FAILED")
    again = world.client.submit_array(after("prep"), "0-1", name="train", idempotency_key="run")
    assert [job.id for job in again.submitted()] == ids


def test_what_cannot_be_asked_is_not_decided(world: World) -> None:
    world.rm.failure = Unavailable("the ResourceManager is away")
    with pytest.raises(Unavailable):
        world.client.submit(after("prep"))


def test_an_input_may_be_what_the_other_job_writes(world: World) -> None:
    world.job(application=PREP, name="prep")
    written = DataInput("rows", "/data/rows")
    assert applications(world, replace(after("prep"), inputs=(written,))) == [(PREP,)]
    refused = (
        replace(job_spec(), inputs=(written,)),
        replace(after("prep"), inputs=(replace(written, shard=Sharding.FILES),)),
    )
    for job in refused:
        with pytest.raises(YarnamError, match="/data/rows does not exist"):
            world.client.submit(job)
