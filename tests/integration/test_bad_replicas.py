"""One bad replica of two, on a cluster of its own: HDFS has the data, so the file is clean."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hdfs_utils
from hdfs_utils.validation import Verdict, check_file
from tests.integration.hdfs_faults import own_cluster
from tests.integration.replicas import damage_one_replica
from tests.unit.hdfs_utils.validation import samples

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

pytestmark = [pytest.mark.hdfs, pytest.mark.slow, pytest.mark.chaos]

YARNAM = str(Path(sys.executable).parent / "yarnam")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """With two DataNodes."""
    with own_cluster(f"replicas-{os.getpid()}", tmp_path_factory.mktemp("state")) as started:
        yield started


def test_a_bad_replica_beside_a_good_one_accuses_nobody(own: EmbeddedCluster) -> None:
    fs = hdfs_utils.connect(conf_dir=str(own.conf_dir))
    for number in range(6):  # the bad one is the nearest for some of them
        path = f"/tmp/set/{number}.tfrecord"
        with fs.open_writer(path, replication=2) as writer:
            writer.write(samples.make("a.tfrecord", number))
        damage_one_replica(own, path, replicas=2)
        report = check_file(fs, fs.stat(path))
        assert report.verdict is Verdict.CLEAN, report.findings
