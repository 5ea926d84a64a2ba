"""The shortest path on a cluster with Kerberos, in every run: submit, run, look. The rest is in
test_secure_cluster."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hdfs_utils import connect
from tests.integration.secure_site import become_alice, secure_cluster, yarnam

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs]


@pytest.fixture
def alice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with secure_cluster(tmp_path / "clusters") as cluster:
        become_alice(cluster, monkeypatch)
        yield


IN_CONTAINER = """\
import os
import hdfs_utils
assert "KRB5_CLIENT_KTNAME" not in os.environ
path = f"/user/alice/by-rank-{os.environ['YARNAM_RANK']}"
hdfs_utils.connect(timeout_s=20).write_bytes(path, b"by token")
"""


@pytest.mark.usefixtures("alice")
@pytest.mark.timeout(400)
def test_a_job_runs_as_the_principal(tmp_path: Path) -> None:
    """Submitted by ticket; the ApplicationMaster, its agents and the job have tokens only."""
    (tmp_path / "write.py").write_text(IN_CONTAINER)
    spec = tmp_path / "job.yaml"
    spec.write_text(
        "version: 1\nname: secure\nqueue: root.dl\n"
        f"command: '{sys.executable} {tmp_path / 'write.py'}'\n"
        "roles:\n  worker: {tasks: 2, gpus: 1, memory: 512MiB, vcores: 1}\n"
    )
    assert "SUCCEEDED" in yarnam("submit", "--watch", str(spec))
    fs = connect(timeout_s=20)
    for rank in (0, 1):
        assert fs.stat(f"/user/alice/by-rank-{rank}").owner == "alice"
    (job,) = (job for job in json.loads(yarnam("ps", "--all", "--json")) if job["name"] == "secure")
    assert (job["user"], job["state"]) == ("alice", "SUCCEEDED")
    assert "1 of 1 nodes running" in yarnam("nodes")
    yarnam("doctor")
