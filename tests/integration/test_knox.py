"""A user outside, whose only way to the cluster is a real Apache Knox."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.knox_gateway import PASSWORD, knox
from tests.integration.submit_world import SubmitWorld

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

pytestmark = [
    pytest.mark.yarn, pytest.mark.hdfs, pytest.mark.long, pytest.mark.slow,
    pytest.mark.timeout(1500),
]  # fmt: skip

HELLO = "echo hello from $YARNAM_RANK of $YARNAM_WORLD_SIZE"
FOREVER = ["/bin/sh", "-c", "echo started; exec sleep 600"]
TWO_TASKS = {
    "gpus": None,
    "memory_per_gpu": None,
    "vcores_per_gpu": None,
    "roles": {"worker": {"tasks": 2, "gpus": 1, "memory": "512 MiB", "vcores": 1}},
}

STATE_LIMIT_S = 500.0
"""The first job of a cluster waits for NodeManagers to unpack its archives."""

WATCH = '''
"""In each Python of the client: writes down who goes past the gateway."""
import atexit, os, sys

ALLOWED = ("127.0.0.1", {port})
NATIVE = ("hdfs_native", "kazoo", "yarnam.adapters.grpc.job_client")


def past(what):
    with open({record!r}, "a") as record:
        record.write(f"{{sys.argv}}: {{what}}\\n")


def hook(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        if tuple(arguments[1][:2]) != ALLOWED:
            past(arguments[1])
    if event == "subprocess.Popen" and "java" in str(arguments[:2]):
        past(arguments[1])


def loaded():
    # What connects by native code, which no audit hook sees. A module that waits for its first
    # use is there, and of another class.
    for name in NATIVE:
        if type(sys.modules.get(name)) is type(sys):
            past(name)


sys.addaudithook(hook)
atexit.register(loaded)
'''


@dataclass
class Outside:
    """Commands of the user outside, and what they did past the gateway."""

    world: SubmitWorld
    environ: dict[str, str]
    record: Path
    url: str

    def run(self, *arguments: str) -> Any:
        return self.world.run(*arguments, **self.environ)

    def await_state(self, application: str, state: str) -> dict[str, Any]:
        deadline = time.monotonic() + STATE_LIMIT_S
        while True:
            status = dict(self.run("status", application, "--json").json)
            if status["state"] == state:
                return status
            assert time.monotonic() < deadline, f"still {status['state']}: {status['reason']}"
            time.sleep(1.0)

    @property
    def went_past(self) -> str:
        return self.record.read_text() if self.record.exists() else ""


@pytest.fixture(scope="module")
def gateway(
    cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    with knox(cluster, tmp_path_factory.mktemp("knox")) as found:
        yield found


@pytest.fixture
def outside(
    submit_world: SubmitWorld, gateway: tuple[str, str], cluster: EmbeddedCluster, tmp_path: Path
) -> Outside:
    url, authority = gateway
    conf = tmp_path / "conf"
    shutil.copytree(cluster.conf_dir, conf, ignore=shutil.ignore_patterns("*.secret"))
    (conf / "site-authority.pem").write_text(authority)
    names = tmp_path / "netrc"
    names.write_text(f"machine 127.0.0.1 login {cluster.plan.user} password {PASSWORD}\n")
    names.chmod(0o600)
    guard, record = tmp_path / "guard", tmp_path / "past-the-gateway"
    guard.mkdir()
    port = int(url.partition("127.0.0.1:")[2].partition("/")[0])
    (guard / "sitecustomize.py").write_text(WATCH.format(port=port, record=str(record)))
    environ = {
        "YARNAM_GATEWAY": url,
        "NETRC": str(names),
        "HADOOP_CONF_DIR": str(conf),
        "HADOOP_USER_NAME": "",
        "PYTHONPATH": str(guard),
    }
    return Outside(submit_world, environ, record, url)


def test_a_user_outside_has_the_gateway_alone(outside: Outside, unique_name: Any) -> None:
    found = outside.run("doctor")
    assert found.code == 0, found.out
    assert f"{outside.url} lets {outside.world.user} in" in found.out
    assert "the names of nodes are hidden" in found.out

    hello = outside.world.spec(unique_name("hello"), HELLO, **TWO_TASKS)
    planned = outside.run("plan", hello)
    assert planned.code == 0, planned.err
    submitted = outside.run("submit", hello, "--detach")
    assert submitted.code == 0, submitted.err
    application = submitted.out.strip()
    outside.await_state(application, "SUCCEEDED")
    watched = outside.run("watch", application)
    assert watched.code == 0, watched.err
    logs = outside.run("logs", application)
    assert logs.code == 0, logs.err
    assert {f"hello from {rank} of 2" in logs.out for rank in (0, 1)} == {True}
    assert "JobStarted" in outside.run("events", application, "--json").out

    _running_job(outside, unique_name)
    for command in (("nodes",), ("queues", "show"), ("history", "list"), ("ps", "--all")):
        shown = outside.run(*command)
        assert shown.code == 0, f"{command}: {shown.err}"
    assert application in shown.out
    assert outside.went_past == ""
    assert PASSWORD not in f"{found}{submitted}{watched}{logs}"


def _running_job(outside: Outside, unique_name: Any) -> None:
    """Its state is told; what needs its ApplicationMaster is refused at once, and it is killed."""
    spec = outside.world.spec(unique_name("forever"), FOREVER, **TWO_TASKS)
    submitted = outside.run("submit", spec, "--detach")
    assert submitted.code == 0, submitted.err
    application = submitted.out.strip()
    running = outside.await_state(application, "RUNNING")
    assert [task["task"] for task in running["tasks"]] == ["worker-0", "worker-1"]
    for command in (
        ("suspend", application, "--force"),
        ("resume", application),
        ("logs", application),
        ("policy", "set", outside.world.queue, "fifo"),
    ):
        refused = outside.run(*command)
        assert refused.code == 78, refused.err
        assert "cannot be reached through the gateway" in refused.err
        assert "on an edge node" in refused.err
    assert outside.run("ps").out.count(application) == 1
    killed = outside.run("kill", application)
    assert killed.code == 0, killed.err
    assert outside.run("status", application, "--json").json["state"] == "CANCELLED"
