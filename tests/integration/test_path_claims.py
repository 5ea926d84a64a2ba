"""Two jobs and one directory on the real cluster: who is refused, and what gives the directory
back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hdfs_utils import checkpoints
from tests.integration.submit_world import SubmitWorld
from yarnam import Client
from yarnam.errors import ExitCode, PathTaken
from yarnam.wire.shared.path_claim import PathClaim, encode_claim

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs, pytest.mark.slow]

SAVES = """
import sys, time
from yarnam import train
with train.checkpoint.open() as saved:
    found = saved.load()
    step = 0 if found is None else found[0].step
    print("begins at", step, flush=True)
    while step < int(sys.argv[1]):
        step += 1
        time.sleep(0.3)
        stop = train.should_stop(step)
        saved.save(step, {"step": b"%d" % step})
        if stop:
            break
"""
RIVALS = 4


@pytest.fixture
def home(submit_world: SubmitWorld, unique_name: Callable[[str], str]) -> Iterator[str]:
    """A directory of checkpoints that nobody has made."""
    path = f"/tmp/{unique_name('claims')}"
    yield path
    submit_world.files.delete(path, recursive=True)


def spec(world: SubmitWorld, name: str, home: str, steps: int, **more: Any) -> str:
    command = ["python3", "-c", SAVES, str(steps)]
    return world.spec(name, command, checkpoint={"directory": home}, **more)


def names(world: SubmitWorld, home: str) -> list[str]:
    return [status.path.rpartition("/")[2] for status in world.files.list(home)]


def test_the_second_of_two_jobs_is_refused_until_it_takes_over(
    submit_world: SubmitWorld, home: str, unique_name: Callable[[str], str]
) -> None:
    world, name = submit_world, unique_name("first")
    path = spec(world, name, home, 100_000)
    first = world.submit(path)
    refused = world.run("submit", path, "--detach")  # the first may not even have an AM
    assert refused.code == 73, refused.err
    for part in (f"{path}:1:", "checkpoint.directory", home, first, name, world.user):
        assert part in refused.err
    world.await_state(first, "RUNNING")
    refused = world.run("submit", path, "--detach")
    assert refused.code == 73, refused.err
    assert "RUNNING" in refused.err
    unconfirmed = world.run("submit", path, "--detach", "--takeover")
    assert unconfirmed.code == 64, unconfirmed.err
    assert "--yes" in unconfirmed.err
    world.await_state(first, "RUNNING")

    short = spec(world, unique_name("second"), home, 1)
    done = world.run("submit", short, "--watch", "--takeover", "--yes")
    assert done.code == 0, done.err
    assert world.await_state(first, "CANCELLED")["state"] == "CANCELLED"
    newest = checkpoints.latest(home, fs=world.files)
    assert newest is not None
    (second,) = [app for app in world.rm.applications(user=world.user) if "second" in app.name]
    assert f"begins at {newest.step}\n" in world.output(second.application)
    assert newest.step > 1, "the first had saved, and the second began there"
    assert ".yarnam-claim" not in names(world, home), "a job that has ended holds a claim"


def test_of_several_at_one_instant_one_wins_and_a_killed_one_gives_way(
    submit_world: SubmitWorld, home: str, unique_name: Callable[[str], str]
) -> None:
    world, barrier = submit_world, threading.Barrier(RIVALS)
    path = spec(world, unique_name("rival"), home, 100_000)

    def submit(_: int) -> str:
        with Client(world.conf_dir) as client:
            barrier.wait()
            try:
                return client.submit(path).id
            except PathTaken:
                return ""

    with ThreadPoolExecutor(RIVALS) as pool:
        got = list(pool.map(submit, range(RIVALS)))
    (won,) = filter(None, got)
    world.rm.kill(won)  # by YARN, so that its AM removes nothing
    with Client(world.conf_dir) as client:
        client.job(won).wait()
        assert ".yarnam-claim" in names(world, home)
        short = spec(world, unique_name("next"), home, 1)
        assert client.submit(short).wait().exit_code == 0
    assert ".yarnam-claim" not in names(world, home)


def test_a_job_that_waits_for_gpus_holds_its_directory(
    submit_world: SubmitWorld, home: str, unique_name: Callable[[str], str]
) -> None:
    world = submit_world
    gpus = sum(node.total.gpus for node in world.rm.snapshot(world.queue).nodes)
    holder = world.submit(world.spec(unique_name("all"), "sleep 600", gpus=gpus))
    world.await_state(holder, "RUNNING")
    path = spec(world, unique_name("waits"), home, 1)
    waiting = world.submit(path)
    world.await_state(waiting, "QUEUED", "ACQUIRING")
    refused = world.run("submit", path, "--detach")
    assert refused.code == 73, refused.err
    assert waiting in refused.err
    assert world.run("kill", waiting, holder).code == 0
    assert world.run("submit", path, "--watch").code == 0


def test_a_job_that_has_lost_its_directory_ends_before_it_asks_for_containers(
    submit_world: SubmitWorld, home: str, unique_name: Callable[[str], str]
) -> None:
    world = submit_world
    other = PathClaim("20260101-000000-abcdef", "somebody", "theirs", "http://another-cluster:8088")
    with Client(world.conf_dir) as client:
        job = client.submit(spec(world, unique_name("late"), home, 1))
        # Before its AM starts, as a submit that took this one for dead would.
        world.files.write_bytes(f"{home}/.yarnam-claim", encode_claim(other), overwrite=True)
        verdict = job.wait()
        assert verdict.exit_code == ExitCode.PATH_TAKEN, verdict
        assert "theirs of somebody" in verdict.message
        assert job.status().attempt <= 1
        with pytest.raises(PathTaken, match="another cluster"):
            client.submit(spec(world, unique_name("next"), home, 1))
