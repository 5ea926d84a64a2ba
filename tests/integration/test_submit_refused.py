"""What cannot work is refused at once, with its reason, and leaves nothing: the real cluster."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from tests.integration.submit_world import SubmitWorld

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs]

REFUSAL_LIMIT_S = 20.0
"""From the command's start to its end. On two quiet cores it is less than 5 s; beside another
cluster 5.9 s was seen."""


@pytest.fixture
def world(submit_world: SubmitWorld) -> SubmitWorld:
    return submit_world


def refused(world: SubmitWorld, spec: str, *options: str, **environ: str) -> Any:
    """The error; checks that it came in time and that nothing is left."""
    before = world.traces()
    done = world.run("submit", spec, "--json", *options, **environ)
    assert done.took_s <= REFUSAL_LIMIT_S
    assert world.no_process_left()
    # On a shared cluster others come and go: nothing of ours may have come.
    ours = {trace for trace in world.traces() - before if trace.startswith(world.home)}
    assert not [path for path in ours if _names(world, path, spec)]
    assert not [app for app in world.rm.applications(user=world.user) if app.name == _name(spec)]
    error = done.json["error"]
    assert error["exit_code"] == done.code
    assert error["message"].split("\n")[0] in done.err
    return error


def _name(spec: str) -> str:
    return Path(spec).stem


def _names(world: SubmitWorld, job_dir: str, spec: str) -> bool:
    record = f"{job_dir}/job.json"
    return world.files.exists(record) and _name(spec).encode() in world.files.read_bytes(record)


def test_an_unknown_queue(world: SubmitWorld, unique_name: Any) -> None:
    error = refused(world, world.spec(unique_name("q"), "true", queue="root.d1"))
    assert error["name"] == "BAD_SPEC"
    assert "queue root.d1 does not exist" in error["message"]
    assert "root.dl" in error["hint"]


def test_a_gang_larger_than_the_cluster(world: SubmitWorld, unique_name: Any) -> None:
    error = refused(world, world.spec(unique_name("big"), "true", gpus=64))
    assert error["name"] == "NEVER_FITS"
    assert "64 GPUs" in error["message"]


def test_a_task_larger_than_any_node(world: SubmitWorld, unique_name: Any) -> None:
    roles = {"worker": {"tasks": 1, "gpus": 9, "memory": "1 GiB", "vcores": 1}}
    spec = world.spec(
        unique_name("wide"), "true", gpus=None, memory_per_gpu=None, vcores_per_gpu=None,
        roles=roles,
    )  # fmt: skip
    error = refused(world, spec)
    assert error["name"] == "NEVER_FITS"
    assert "9 GPUs" in error["message"]


def test_a_gang_larger_than_the_queue(world: SubmitWorld, unique_name: Any) -> None:
    error = refused(world, world.spec(unique_name("small"), "true", gpus=4), "-q", "root.small")
    assert error["name"] == "NEVER_FITS"
    assert "root.small" in error["message"]


def test_a_missing_input(world: SubmitWorld, unique_name: Any) -> None:
    data = {"inputs": [{"name": "train", "path": "hdfs:///no/such/data"}]}
    error = refused(world, world.spec(unique_name("in"), "true", data=data))
    assert error["name"] == "BAD_SPEC"
    assert error["message"] == "input 'train': hdfs:///no/such/data does not exist"


def test_a_missing_file(world: SubmitWorld, unique_name: Any) -> None:
    error = refused(world, world.spec(unique_name("file"), "true", files=["not-there.txt"]))
    assert error["name"] == "BAD_SPEC"
    assert "not-there.txt" in error["message"]


def test_a_missing_environment(world: SubmitWorld, unique_name: Any) -> None:
    environment = {"archive": "hdfs:///no/such/env.tar.gz"}
    error = refused(world, world.spec(unique_name("env"), "true", environment=environment))
    assert error["name"] == "BAD_SPEC"
    assert "hdfs:///no/such/env.tar.gz" in error["message"]


@pytest.mark.parametrize(
    "kind", ["-setQuota", pytest.param("-setSpaceQuota", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("key", ["outputs", "checkpoint"])
def test_no_quota_left_where_it_will_write(
    world: SubmitWorld, unique_name: Any, kind: str, key: str
) -> None:
    """One name is the directory's own; and a block with its replica does not fit in a megabyte."""
    home = f"/tmp/{unique_name('quota')}"
    world.files.mkdirs(home)
    quota = ["hdfs", "dfsadmin", kind, "1" if kind == "-setQuota" else "1m", home]
    subprocess.run(quota, env=world.environ, check=True, capture_output=True)
    changes: dict[str, Any] = {
        "outputs": {"data": {"outputs": f"{home}/there"}},
        "checkpoint": {"checkpoint": {"directory": f"{home}/there"}},
    }
    try:
        error = refused(world, world.spec(unique_name("full"), "true", **changes[key]))
        assert error["name"] == "NO_PERMISSION"
        what = {"outputs": "data.outputs", "checkpoint": "checkpoint.directory"}[key]
        assert f"{what}: cannot write to {home}/there" in error["message"]
        assert "quota" in error["message"]
        assert "larger" in error["hint"]
        assert world.files.list(home) == []
    finally:
        world.files.delete(home, recursive=True)


def test_a_spec_error(world: SubmitWorld, unique_name: Any) -> None:
    spec = world.spec(unique_name("bad"), "true", gpuz=1)
    error = refused(world, spec)
    assert error["name"] == "BAD_SPEC"
    assert "gpuz" in error["message"]
    assert spec in error["message"]


def test_no_cluster_is_configured(world: SubmitWorld, unique_name: Any) -> None:
    environ = world.environ
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        environ.pop(name, None)
    error = refused(world, world.spec(unique_name("none"), "true"))
    assert error["name"] == "BAD_CONFIG"
    assert "yarnam cluster up" in error["hint"]
    assert "--local" in error["hint"]


@pytest.fixture
def broken_conf(cluster: EmbeddedCluster, tmp_path: Path) -> Path:
    conf = tmp_path / "conf"
    shutil.copytree(cluster.conf_dir, conf)
    return conf


def replace_port(conf: Path, name: str, address: str) -> None:
    """Nothing listens on port 1."""
    text = (conf / name).read_text()
    assert address in text
    (conf / name).write_text(text.replace(address, address.rpartition(":")[0] + ":1"))


def http_address(conf: Path) -> str:
    root = ET.parse(conf / "hdfs-site.xml").getroot()
    named = {one.findtext("name"): one.findtext("value") or "" for one in root.iter("property")}
    return named["dfs.namenode.http-address"]


def test_hdfs_does_not_answer(
    world: SubmitWorld, cluster: EmbeddedCluster, broken_conf: Path, unique_name: Any
) -> None:
    replace_port(broken_conf, "core-site.xml", cluster.namenode_uri.removeprefix("hdfs://"))
    replace_port(broken_conf, "hdfs-site.xml", http_address(broken_conf))
    spec = world.spec(unique_name("hdfs"), "true")
    done = world.run("submit", spec, "--json", HADOOP_CONF_DIR=str(broken_conf))
    assert done.code == 69
    assert "checking hdfs:" in done.json["error"]["message"]
    assert done.took_s <= 20
    assert world.no_process_left()


@pytest.mark.parametrize("way", [pytest.param("rest", marks=pytest.mark.long), "driver"])
def test_hdfs_answers_over_http_only(
    world: SubmitWorld, cluster: EmbeddedCluster, broken_conf: Path, unique_name: Any, way: str
) -> None:
    """yarnam itself goes on over HTTP; Skein's driver cannot, and everything is taken back."""
    address = cluster.namenode_uri.removeprefix("hdfs://")
    replace_port(broken_conf, "core-site.xml", address)
    spec = world.spec(unique_name("http-only"), "true")
    environ = {"HADOOP_CONF_DIR": str(broken_conf), "YARNAM_SUBMIT": way}
    done = world.run("submit", spec, "--json", **environ)
    if way == "rest":
        assert done.code == 0
        # Its containers have the same broken configuration.
        assert world.run("kill", done.json["application"], **environ).code == 0
        return
    assert done.code == 69
    assert f"{address.rpartition(':')[0]}:1" in done.json["error"]["message"]
    jobs = world.files.list(f"{world.home}/.yarnam/jobs")
    assert not [entry.path for entry in jobs if _names(world, entry.path, spec)]
    assert world.no_process_left()


def test_the_resource_manager_does_not_answer(
    world: SubmitWorld, cluster: EmbeddedCluster, broken_conf: Path, unique_name: Any
) -> None:
    replace_port(broken_conf, "yarn-site.xml", cluster.rm_url.removeprefix("http://"))
    error = refused(world, world.spec(unique_name("rm"), "true"), HADOOP_CONF_DIR=str(broken_conf))
    assert error["name"] == "UNAVAILABLE"
    assert "ResourceManager" in error["message"]


@pytest.mark.parametrize("way", ["rest", pytest.param("driver", marks=pytest.mark.long)])
def test_a_queue_that_is_closed_to_the_user(world: SubmitWorld, unique_name: Any, way: str) -> None:
    """YARN tells only a queue's administrators who may submit: this one is refused by YARN itself,
    after staging, and everything is taken back."""
    spec = world.spec(unique_name("locked"), "true", queue="root.locked")
    done = world.run("submit", spec, "--json", YARNAM_SUBMIT=way)
    assert done.code == 77
    error = done.json["error"]
    assert error["name"] == "NO_PERMISSION"
    assert "root.locked" in error["message"]
    assert "\tat " not in error["message"]
    jobs = world.files.list(f"{world.home}/.yarnam/jobs")
    assert not [entry.path for entry in jobs if _names(world, entry.path, spec)]
    assert world.no_process_left()


def test_local_takes_the_embedded_cluster_of_this_machine(
    world: SubmitWorld, cluster: EmbeddedCluster, unique_name: Any
) -> None:
    """Without any Hadoop configuration in the environment; nothing but the plan is asked for."""
    environ = world.environ
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME", "JAVA_HOME"):
        environ.pop(name, None)
    environ["YARNAM_CLUSTER"] = cluster.name
    environ["XDG_STATE_HOME"] = str(cluster.paths.base.parents[1])
    done = world.run("submit", world.spec(unique_name("local"), "true"), "--local", "--dry-run")
    assert done.code == 0, done.err
    assert cluster.namenode_uri in done.out
