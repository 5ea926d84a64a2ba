"""What lies on HDFS for later jobs, and that nothing goes which a living job uses."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.unit.client.world import World, job_spec
from yarnam.client.environments import stored_archives
from yarnam.client.environments.stored_archives import list_archives, remove_unused
from yarnam.client.user_paths import new_key
from yarnam.errors import Unavailable
from yarnam.wire.codec import encode
from yarnam.wire.records import JobRecord

DAY_S = 86400.0
NOW_S = 1_800_000_000.0


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def archive(world: World, name: str, age_days: float = 100) -> str:
    paths = world.site.paths
    directory = paths.runtimes if name.startswith("yarnam-") else paths.environments
    path = f"{directory}/{name}"
    world.files.write_bytes(path, b"x" * 10)
    world.files.set_times(path, int((NOW_S - age_days * DAY_S) * 1000))
    return path


def job(world: World, age_days: float, *stored: str, state: str = "FINISHED") -> str:
    key = new_key(NOW_S - age_days * DAY_S)
    world.job(state=state, key=key, application=f"application_1_{len(world.rm.applications())}")
    record = JobRecord(job_spec(), (), world.directory(key), 1000.0, "0", stored=stored)
    world.put(key, "job.json", encode(record))
    return key


def removed(world: World, days: float = 30) -> list[str]:
    return [each.name for each in remove_unused(world.site, days * DAY_S, now_s=NOW_S)]


def test_a_submit_records_what_its_job_shares(world: World) -> None:
    world.client.submit(job_spec())
    found = {each.kind: each for each in list_archives(world.site)}
    assert set(found) == {"runtime", "interpreter"}
    assert all(abs(each.last_use_s - time.time()) < 60 for each in found.values())


def test_the_newest_job_is_the_last_use(world: World) -> None:
    env = archive(world, "env.tar.gz")
    job(world, 50, env)
    job(world, 40, env)
    [found] = list_archives(world.site)
    assert round((NOW_S - found.last_use_s) / DAY_S) == 40
    assert removed(world, 41) == []
    assert removed(world, 39) == ["env.tar.gz"]
    assert list_archives(world.site) == []


def test_what_a_living_job_uses_stays_however_old(world: World) -> None:
    env = archive(world, "env.tar.gz")
    runtime = archive(world, "yarnam-runtime-1.tar.gz")
    archive(world, "yarnam-python-1.tar.gz")
    key = job(world, 99, env, runtime, state="ACCEPTED")
    assert {each.name: each.used_by for each in list_archives(world.site)} == {
        "env.tar.gz": (key,),
        "yarnam-runtime-1.tar.gz": (key,),
        "yarnam-python-1.tar.gz": (),
    }
    assert removed(world) == ["yarnam-python-1.tar.gz"]


def test_a_trial_removes_nothing_and_jars_are_left_alone(world: World) -> None:
    archive(world, "env.tar.gz")
    archive(world, "yarnam-1.jar")
    assert len(remove_unused(world.site, 0, is_trial=True, now_s=NOW_S)) == 1
    assert removed(world) == ["env.tar.gz"]
    assert world.files.exists(f"{world.site.paths.runtimes}/yarnam-1.jar")


def test_a_living_job_of_which_nothing_is_known_keeps_everything(world: World) -> None:
    archive(world, "env.tar.gz")
    key = job(world, 1, state="RUNNING")
    with pytest.raises(Unavailable, match=key):
        removed(world)
    assert len(list_archives(world.site)) == 1


@pytest.mark.parametrize("has_record", [True, False])
def test_what_a_submit_has_found_meanwhile_comes_back(
    world: World, monkeypatch: pytest.MonkeyPatch, has_record: bool
) -> None:
    """Its directory is there before it looks for the archive, its record later."""
    env, other = archive(world, "env.tar.gz"), archive(world, "other.tar.gz")
    rename = world.files.rename

    def meanwhile(src: str, dst: str, overwrite: bool = False) -> None:
        if src == other:
            key = new_key(NOW_S)
            world.files.mkdirs(world.directory(key))
            if has_record:
                record = JobRecord(job_spec(), (), "", 1.0, "0", stored=(env,))
                world.put(key, "job.json", encode(record))
        rename(src, dst, overwrite)

    monkeypatch.setattr(world.files, "rename", meanwhile)
    assert removed(world) == (["other.tar.gz"] if has_record else [])
    names = sorted(each.name for each in list_archives(world.site))
    assert names == (["env.tar.gz"] if has_record else ["env.tar.gz", "other.tar.gz"])
    assert not [e.path for e in world.files.walk("/") if stored_archives.TRASH_SUFFIX in e.path]
