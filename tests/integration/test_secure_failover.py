"""Kerberos, two ResourceManagers and a viewfs together: what each site has of them, all at once."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hdfs_utils import connect
from tests.integration.fault_world import active
from tests.integration.secure_site import (
    COMMAND_S,
    await_state,
    become_alice,
    run,
    secure_cluster,
    yarnam,
)
from yarnam.cluster import EmbeddedCluster

pytestmark = [pytest.mark.secure, pytest.mark.timeout(900)]

MOUNTS = """\
  <property><name>fs.viewfs.mounttable.table.link./data</name><value>{hdfs}/user/alice</value></property>
  <property><name>fs.viewfs.mounttable.table.linkFallback</name><value>{hdfs}/nowhere</value></property>
</configuration>
"""

PROGRAM = """\
import os, pathlib, sys, time
import hdfs_utils
assert "KRB5_CLIENT_KTNAME" not in os.environ
begun, flag = map(pathlib.Path, sys.argv[1:])
there = hdfs_utils.connect("viewfs://table/", timeout_s=20)
assert there.read_bytes("/data/in/part") == b"by the mount"
here = pathlib.Path(os.environ["YARNAM_LOCAL_INPUTS"], "part")
assert [one.read_bytes() for one in here.iterdir()] == [b"by the mount"]
begun.touch()
while not flag.exists():
    time.sleep(0.2)
there.write_bytes("/data/out", b"after the failover")
"""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder = tmp_path_factory.mktemp("clusters")
    with secure_cluster(folder, resourcemanagers=2, gpus="simulated", gpus_per_node=2) as cluster:
        yield cluster


@pytest.fixture
def alice(pair: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Her site has a mount table."""
    become_alice(pair, monkeypatch)
    conf = tmp_path / "conf"
    shutil.copytree(pair.conf_dir, conf)
    site = conf / "core-site.xml"
    hdfs = connect(timeout_s=20).uri.rstrip("/")
    site.write_text(site.read_text().replace("</configuration>", MOUNTS.format(hdfs=hdfs)))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(conf))


@pytest.mark.usefixtures("alice")
def test_a_job_on_a_viewfs_goes_on_with_the_other_resource_manager(
    pair: EmbeddedCluster, tmp_path: Path
) -> None:
    connect(timeout_s=20).write_bytes("/user/alice/in/part", b"by the mount")
    (tmp_path / "program.py").write_text(PROGRAM)
    begun, flag = tmp_path / "begun", tmp_path / "flag"
    spec = tmp_path / "job.yaml"
    head = "version: 1\nqueue: root.dl\n"
    role = "roles:\n  worker: {tasks: 1, gpus: 1, memory: 512MiB, vcores: 1}\n"
    spec.write_text(
        f"{head}name: fails-over\n"
        f"command: '{sys.executable} {tmp_path / 'program.py'} {begun} {flag}'\n"
        "data: {inputs: [{name: part, path: 'viewfs://table/data/in', mode: localize}]}\n"
        f"{role}"
    )
    job = run("submit", "--detach", str(spec)).stdout.split()[0]
    await_state(job, "RUNNING", COMMAND_S)
    first = active(pair)
    pair.daemon(first).kill()
    assert active(pair) != first
    assert await_state(job, "RUNNING", COMMAND_S)["attempt"] == 1
    assert "1 of 1 nodes running" in yarnam("nodes")
    # Its own question for a token goes to the other one too.
    spec.write_text(f"{head}name: next\ncommand: 'true'\n{role}")
    assert "SUCCEEDED" in yarnam("submit", "--watch", str(spec))
    assert begun.exists(), "it has read its input"
    flag.touch()
    assert "SUCCEEDED" in yarnam("watch", job)
    assert connect(timeout_s=20).read_bytes("/user/alice/out") == b"after the failover"
    pair.daemon(first).start()
