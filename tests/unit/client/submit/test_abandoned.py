"""What killed clients have left: it goes a day later, and nothing else does."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.client.world import World, job_spec
from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.client.submit.leftovers.abandoned import (
    ABANDONED_S,
    SAMPLE,
    SCRATCH_PREFIX,
    clear_abandoned,
)
from yarnam.client.user_paths import new_key, tag_of
from yarnam.errors import Unavailable
from yarnam.wire.codec import encode
from yarnam.wire.records import JobRecord

LONG_AGO_S = time.time() - 2 * ABANDONED_S


def directory(world: World, begun_s: float, *names: str, rm_url: str = "") -> str:
    """A job's, with these files; ``job.json`` says to which cluster it goes."""
    key = new_key(begun_s)
    for name in names:
        world.put(key, name, b"{}")
    record = JobRecord(job_spec(), (), world.directory(key), begun_s, "0")
    world.put(key, "job.json", encode(replace(record, rm_url=rm_url or world.rm.url)))
    return world.directory(key)


def test_a_directory_that_no_job_ever_had_goes(world: World) -> None:
    complete = directory(world, LONG_AGO_S, "credentials.pem")
    begun = world.directory(new_key(LONG_AGO_S))
    world.files.write_bytes(f"{begun}/credentials.pem", b"key")
    clear_abandoned(world.site)
    assert not world.files.exists(complete)
    assert not world.files.exists(begun)


def test_a_record_that_is_cut_off_or_unreadable_stops_no_other(world: World) -> None:
    """A client that is killed while it writes leaves an open file, whose length is 0."""
    empty, odd = (world.directory(new_key(LONG_AGO_S)) for _ in range(2))
    world.files.write_bytes(f"{empty}/job.json", b"")
    world.files.write_bytes(f"{odd}/job.json", b'{"of": "another version"}')
    complete = [directory(world, LONG_AGO_S) for _ in range(3)]
    clear_abandoned(world.site)
    assert not any(map(world.files.exists, [empty, *complete]))
    assert world.files.exists(odd)


def test_what_is_or_was_a_job_stays(world: World) -> None:
    young = directory(world, time.time() - 3600.0)
    ran = directory(world, LONG_AGO_S, "am.json")
    over = directory(world, LONG_AGO_S, "verdict.json")
    elsewhere = directory(world, LONG_AGO_S, rm_url="http://another:8088")
    key = new_key(LONG_AGO_S)
    world.job(key=key, state="ACCEPTED", am=False)
    assert world.rm.apps["application_1700000000000_0042"].tags[1] == tag_of(key)
    clear_abandoned(world.site)
    for path in (young, ran, over, elsewhere, world.directory(key)):
        assert world.files.exists(path), path


def test_the_resource_manager_is_asked_about_candidates_alone(world: World) -> None:
    """It may know ten thousand applications of this user, and this happens beside each submit."""
    for number in range(3):
        world.job(application=f"application_1700000000000_000{number}", key=new_key(LONG_AGO_S))
    asked: list[list[str]] = []
    applications = world.rm.applications

    def noted(**query: Any) -> Sequence[YarnApplication]:
        asked.append(list(query["tags"]))
        return applications(**query)

    world.rm.applications = noted  # type: ignore[method-assign]
    clear_abandoned(world.site)
    assert asked == []
    directories = [directory(world, LONG_AGO_S) for _ in range(SAMPLE + 5)]
    clear_abandoned(world.site)
    (tags,) = asked
    assert 0 < len(tags) <= SAMPLE
    left = [path for path in directories if world.files.exists(path)]
    assert len(left) == len(directories) - len(tags)


def test_skeins_directory_of_an_application_that_is_over_goes(world: World) -> None:
    world.rm.add("application_1_0001", state="KILLED")
    world.rm.add("application_1_0002", state="RUNNING")
    paths = [world.site.paths.skein_staging(f"application_1_000{n}") for n in (1, 2, 3)]
    for path in paths:
        world.files.write_bytes(f"{path}/.skein.proto", b"")
        world.files.set_times(path, round(1000 * LONG_AGO_S))
    clear_abandoned(world.site)
    assert [world.files.exists(path) for path in paths] == [False, True, True]


@pytest.mark.parametrize(
    ("files", "stays"),
    [
        ({}, False),
        ({".skein.pem": b"key"}, False),
        ({".yarnam-cluster": b"http://rm.example:8088", ".skein.proto": b""}, False),
        ({".yarnam-cluster": b"http://another:8088", ".skein.proto": b""}, True),
    ],
)
def test_skeins_directory_of_an_application_that_yarn_never_had_goes(
    world: World, files: dict[str, bytes], stays: bool
) -> None:
    path = world.site.paths.skein_staging("application_1_0001")
    world.files.mkdirs(path)
    for name, data in files.items():
        world.files.write_bytes(f"{path}/{name}", data)
    clear_abandoned(world.site)
    assert world.files.exists(path)  # it may be on its way there
    world.files.set_times(path, round(1000 * LONG_AGO_S))
    clear_abandoned(world.site)
    assert world.files.exists(path) is stays


def test_scratch_directories_go_unless_they_are_young(world: World) -> None:
    old, young = (Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX)) for _ in range(2))
    (old / "yarnam-secrets.json").write_text("secret")
    os.utime(old, (LONG_AGO_S, LONG_AGO_S))
    clear_abandoned(world.site)
    assert (old.exists(), young.exists()) == (False, True)


def test_no_trouble_of_it_reaches_a_submit(world: World) -> None:
    directory(world, LONG_AGO_S)
    world.rm.failure = Unavailable("away")
    clear_abandoned(world.site)
    world.files.delete(world.site.paths.jobs, recursive=True)
    clear_abandoned(world.site)
