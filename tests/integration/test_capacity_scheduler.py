"""Jobs on a real cluster whose ResourceManager runs the Capacity Scheduler, with node labels, and
whose NodeManagers end containers that use more memory than they have asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.submit_world import SubmitWorld
from yarnam.client.queues.lint_file import lint_file
from yarnam.cluster import EmbeddedCluster
from yarnam.cluster.cluster_paths import clusters_dir
from yarnam.core.model.snapshot import Scheduler
from yarnam.core.queues.capacity.capacity_values import REFUSED

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs, pytest.mark.long]

BIN = Path(sys.executable).parent
QUEUES = ("default", "dl", "research", "prod", "small", "locked")
MEMORY_CHECK = """
overrides:
  yarn-site:
    yarn.nodemanager.pmem-check-enabled: true
    yarn.nodemanager.resource.memory.enforced: false
    yarn.nodemanager.container-monitor.interval-ms: 1000
"""
"""By process trees. A NodeManager of Hadoop 3.4 checks nothing where ``enforced`` leaves it to
cgroups (the default), even if none are configured."""
SHAPE = ("--nodes=4", "--racks=2", "--gpus-per-node=4", "--gpus=simulated")


@pytest.fixture(scope="module")
def capacity(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """Four nodes of 4 GPUs on two racks; 16 GPUs, so ``root.small`` may have 2."""
    state = {**os.environ, "XDG_STATE_HOME": str(tmp_path_factory.mktemp("state"))}
    name = f"capacity-{os.getpid()}"
    yarnam = [str(BIN / "yarnam"), "cluster"]
    file = tmp_path_factory.mktemp("shape") / "shape.yaml"
    file.write_text(MEMORY_CHECK)
    up = [*yarnam, "up", "--name", name, f"--shape={file}", "--scheduler=capacity", *SHAPE]
    try:
        subprocess.run([*up, "--quiet"], env=state, check=True, timeout=300)
        yield EmbeddedCluster(name=name, state_root=clusters_dir(state))
    finally:
        subprocess.run([*yarnam, "down", "--name", name], env=state, check=True, timeout=120)


@pytest.fixture
def world(capacity: EmbeddedCluster, tmp_path: Path) -> Iterator[SubmitWorld]:
    world = SubmitWorld(tmp_path, capacity.environ(), capacity.conf_dir)
    yield world
    assert world.no_process_left()


def post(cluster: EmbeddedCluster, path: str, body: dict[str, Any] | None = None) -> None:
    request = urllib.request.Request(
        f"{cluster.rm_url}/ws/v1/cluster/{path}",
        data=json.dumps(body).encode() if body else b"",
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=10) as reply:
        assert reply.status == 200


def label(cluster: EmbeddedCluster, address: str, name: str) -> None:
    """Port 0: all NodeManagers of the host. An empty name takes the label away."""
    post(cluster, f"nodes/{address}:0/replace-labels?labels={name}")


def allow(cluster: EmbeddedCluster, queue: str, label: str) -> None:
    """Lets one queue use all nodes with the label, as administrators do."""
    prefix = "yarn.scheduler.capacity.root"
    more = {f"{prefix}.accessible-node-labels": label}
    for path, share in (("", 100), *((f".{name}", 0) for name in QUEUES), (f".{queue}", 100)):
        more[f"{prefix}{path}.accessible-node-labels.{label}.capacity"] = str(share)
    file = cluster.conf_dir / "capacity-scheduler.xml"
    text = file.read_text()
    rows = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in more.items()
    )
    file.write_text(text.replace("</configuration>", f"{rows}</configuration>"))
    refresh = ["yarn", "rmadmin", "-refreshQueues"]
    subprocess.run(refresh, env=cluster.environ(), check=True, timeout=120)


def test_a_gang_runs_in_one_rack(world: SubmitWorld, unique_name: Any) -> None:
    """The Capacity Scheduler grants no strict ask for a rack with its default settings."""
    placement = {"locality": {"node": "unconstrained", "rack": "required"}, "strategy": "spread"}
    spec = world.spec(
        unique_name("rack"), "true", gpus=None, roles={"worker": {"tasks": 2, "gpus": 4}},
        placement=placement,
    )  # fmt: skip
    done = world.run("submit", spec, "--watch")
    assert done.code == 0, done.err


def test_what_a_queue_may_never_have_is_refused(world: SubmitWorld, unique_name: Any) -> None:
    world.queue = "root.small"
    refused = world.run("submit", world.spec(unique_name("large"), "true", gpus=3), "--detach")
    assert refused.code == 91, refused.err
    assert "root.small" in refused.err
    done = world.run("submit", world.spec(unique_name("small"), "true", gpus=2), "--watch")
    assert done.code == 0, done.err


def test_the_snapshot_knows_the_scheduler_and_its_shares(world: SubmitWorld) -> None:
    snapshot = world.rm.snapshot("root.prod")
    assert snapshot.scheduler is Scheduler.CAPACITY
    assert snapshot.preempts
    assert snapshot.queue.minimum is not None
    assert snapshot.queue.minimum.gpus == 4
    assert snapshot.queue.maximum is None


@pytest.fixture
def gpu_node(capacity: EmbeddedCluster) -> Iterator[str]:
    """The last node, alone with the label ``gpu``, which ``root.dl`` may use."""
    address = capacity.plan.nodes[-1].address
    exclusive = {"name": "gpu", "exclusivity": "true"}
    post(capacity, "add-node-labels", {"nodeLabelInfo": [exclusive]})
    label(capacity, address, "gpu")
    allow(capacity, "dl", "gpu")
    yield address
    label(capacity, address, "")


def test_a_labelled_node_takes_jobs_of_its_label_only(
    world: SubmitWorld, gpu_node: str, unique_name: Any
) -> None:
    assert {node.label for node in world.rm.snapshot("root.dl").nodes} == {"", "gpu"}
    whole = world.run("submit", world.spec(unique_name("whole"), "true", gpus=16), "--detach")
    assert whole.code == 91, whole.err
    spec = world.spec(unique_name("label"), "sleep 600", gpus=4, placement={"node_label": "gpu"})
    application = world.submit(spec)
    try:
        status = world.await_state(application, "RUNNING")
        assert {task["node"] for task in status["tasks"]} == {gpu_node}
    finally:
        assert world.run("kill", application).code == 0
    unknown = world.spec(unique_name("tpu"), "true", placement={"node_label": "tpu"})
    refused = world.run("submit", unknown, "--detach")
    assert refused.code == 65
    assert "Labels: gpu" in refused.err


def test_each_role_runs_on_the_nodes_of_its_label(
    world: SubmitWorld, gpu_node: str, unique_name: Any
) -> None:
    roles = {
        "worker": {"tasks": 2, "gpus": 2, "node_label": "gpu"},
        "server": {"tasks": 2, "memory": "512MiB", "service": True},
    }
    too_many = {**roles, "worker": {**roles["worker"], "tasks": 3}}
    refused = world.run(
        "submit", world.spec(unique_name("many"), "true", gpus=None, roles=too_many), "--detach"
    )
    assert refused.code == 91, refused.err
    spec = world.spec(unique_name("roles"), "sleep 600", gpus=None, roles=roles)
    application = world.submit(spec)
    try:
        status = world.await_state(application, "RUNNING")
        assert len(status["tasks"]) == 4
        for task in status["tasks"]:
            assert (task["node"] == gpu_node) is task["task"].startswith("worker-"), task
    finally:
        assert world.run("kill", application).code == 0


CHANGES = (
    ("root.dl.capacity", "30"), ("root.dl.capacity", "35%"), ("root.dl.capacity", "3w"),
    ("root.dl.ordering-policy", "drf"), ("root.dl.state", "PAUSED"),
    ("root.dl.user-limit-factor", "x"), ("root.dl.user-limit-factor", "0"),
    ("root.dl.maximum-capacity", "20"), ("maximum-am-resource-percent", "50"),
)  # fmt: skip


def test_yarn_refuses_what_lint_says(capacity: EmbeddedCluster) -> None:
    """And takes the rest."""
    file = capacity.conf_dir / "capacity-scheduler.xml"
    own = file.read_text()
    refresh = ["yarn", "rmadmin", "-refreshQueues"]
    wrong = []
    try:
        for name, value in CHANGES:
            row = f"<property><name>yarn.scheduler.capacity.{name}</name><value>{value}</value>"
            file.write_text(own.replace("</configuration>", f"{row}</property></configuration>"))
            says = any(REFUSED in one.why for one in lint_file(str(file)))
            done = subprocess.run(refresh, env=capacity.environ(), check=False, timeout=120)
            if (done.returncode != 0) is not says:
                wrong.append((name, value))
    finally:
        file.write_text(own)
        subprocess.run(refresh, env=capacity.environ(), check=True, timeout=120)
    assert not wrong


# Held in the first attempt until YARN has seen it twice; it ends a container above its limit then.
HUNGRY = """
import os, time
if os.environ["YARNAM_ATTEMPT"] == "1":
    held = b"x" * (1200 << 20)
    time.sleep(120)
"""


def test_yarn_ends_a_hungry_task_and_the_gang_grows(world: SubmitWorld, unique_name: Any) -> None:
    retry = {"max_restarts": 0, "more_memory": {"factor": 2}}
    spec = world.spec(
        unique_name("hungry"), ["python3", "-c", HUNGRY], gpus=None, retry=retry,
        roles={"worker": {"tasks": 2, "gpus": 1, "memory": "1GiB"}},
        gang={"backoff": {"base": "200ms", "cap": "1s"}},
    )  # fmt: skip
    application = world.submit(spec)
    assert world.run("watch", application).code == 0
    status = world.run("status", application, "--json").json
    first = status["history"][0]
    assert first["cause"]["finding"]["failure"] == "cpu-out-of-memory", first
    assert first["cause"]["finding"]["rule"].startswith("yarn-physical-memory"), first
    assert status["attempt"] == 2
