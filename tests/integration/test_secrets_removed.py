"""A job's keys on HDFS end with the job, whoever ends it, and everything else stays readable."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hdfs_utils.errors import NotFound
from tests.integration.submit_world import SubmitWorld
from yarnam.adapters.zookeeper.lazy_session import LazySession
from yarnam.cluster import EmbeddedCluster
from yarnam.wire.protocol import KEYTAB_FILE, SECRET_FILES

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs, pytest.mark.zookeeper]

WRITTEN = tuple(name for name in SECRET_FILES if name != KEYTAB_FILE)
"""What this site's jobs have: it is without Kerberos."""
SETTLE_S = 20.0
"""From YARN's word that an application is over until its AM's last call has reached HDFS."""


@pytest.fixture
def world(
    tmp_path: Path, cluster: EmbeddedCluster, cluster_env: dict[str, str], no_leftovers: None
) -> Iterator[SubmitWorld]:
    """With ZooKeeper's credentials, in a place of their own: what they make is closed to others."""
    key = tmp_path / "zookeeper-key"
    key.write_text("digest:yarnam:s3cret\n")
    address = f"{cluster_env['YARNAM_ZOOKEEPER']}/yarnam-test-{uuid.uuid4().hex}"
    environ = {
        **cluster_env,
        "YARNAM_ZOOKEEPER": address,
        "YARNAM_ZOOKEEPER_AUTH_FILE": str(key),
        "TOKEN": "s3cret-value",
    }
    session = LazySession(address, "digest:yarnam:s3cret")
    zookeeper = session.connected()
    zookeeper.create(zookeeper.root)
    yield SubmitWorld(tmp_path, environ, cluster.conf_dir)
    zookeeper.kazoo.delete(zookeeper.root, recursive=True)
    session.close()


def submit(world: SubmitWorld, name: str, command: str, **more: Any) -> tuple[str, str]:
    """Application and directory of a job with a secret variable that nobody watches."""
    notify = [{"kind": "webhook", "url_from": "HOOK", "states": ["replacing"]}]
    spec = world.spec(name, command, env={"TOKEN": {"from": "client"}}, notify=notify, **more)
    done = world.run("submit", spec, "--detach", "--json", HOOK="http://127.0.0.1:1/never-called")
    assert done.code == 0, done.err
    return done.json["application"], done.json["directory"]


def secrets_of(world: SubmitWorld, application: str, directory: str) -> list[str]:
    staging = f"{world.home}/.skein/{application}"
    places = [*(f"{directory}/{name}" for name in SECRET_FILES), staging]
    return [place for place in places if world.files.exists(place)]


def wait_until(is_so: Callable[[], bool], limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def is_over(world: SubmitWorld, application: str) -> bool:
    found = world.rm.application(application)
    return found is not None and found.is_over


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "state", "code"),
    [
        pytest.param("exit 0", "SUCCEEDED", 0, id="succeeded"),
        pytest.param("exit 3", "FAILED", 90, id="failed"),
    ],
)
def test_the_am_removes_the_keys_with_its_verdict(
    world: SubmitWorld, unique_name: Any, command: str, state: str, code: int
) -> None:
    """A failure too: YARN's next attempt, which it starts then, still finds them."""
    application, directory = submit(world, unique_name("keys"), f"sleep 1; {command}")
    assert len(secrets_of(world, application, directory)) == len(WRITTEN) + 1
    assert wait_until(lambda: is_over(world, application), 120)
    gone = wait_until(lambda: not secrets_of(world, application, directory), SETTLE_S)
    assert gone, secrets_of(world, application, directory)
    # The verdict is the job's own, not that of an attempt that missed its files.
    shown = world.run("status", application, "--json").json
    assert (shown["state"], shown["verdict"]["exit_code"]) == (state, code)
    found = world.rm.application(application)
    assert found is not None
    assert "does not exist" not in found.diagnostics
    assert world.run("watch", application).code == code


@pytest.mark.long
def test_what_a_killed_am_leaves_goes_with_the_next_look(
    world: SubmitWorld, unique_name: Any
) -> None:
    application, directory = submit(world, unique_name("killed"), "echo hello; sleep 600")
    world.await_state(application, "RUNNING", limit_s=120)
    world.rm.kill(application)
    assert wait_until(lambda: is_over(world, application), 60)
    for name in WRITTEN:
        assert world.files.exists(f"{directory}/{name}"), "nobody was there to remove it"
    for _ in range(2):
        shown = world.run("status", application, "--json").json
        assert shown["state"] == "CANCELLED"
        assert secrets_of(world, application, directory) == []
    assert "hello" in world.run("logs", application).out
    listed = world.run("ps", "--all", "--json").json
    assert [job["state"] for job in listed if job["application"] == application] == ["CANCELLED"]
    assert world.run("kill", application).code == 0
    with pytest.raises(NotFound):
        world.files.stat(f"{directory}/{SECRET_FILES[0]}")
