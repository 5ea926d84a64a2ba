"""Files in an encryption zone of HDFS. Where its keys are in a key store of Java's, Hadoop's own
processes alone encrypt and decrypt; where they are in a KMS, HDFS's native client does too."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hdfs_utils import connect
from hdfs_utils.errors import NotSupported
from tests.integration.hadoop_web_servers import free_port, kms
from yarnam.cluster import EmbeddedCluster
from yarnam.cluster.shape import ClusterShape

pytestmark = [pytest.mark.hdfs, pytest.mark.long, pytest.mark.timeout(400)]

CONTENT = b"a secret at rest" * 1000
COMMAND_S = 120
PROVIDER = "hadoop.security.key.provider.path"


@pytest.fixture(scope="module")
def zone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    keys = f"jceks://file{tmp_path_factory.mktemp('keys') / 'keys.jceks'}"
    with with_keys("zone", keys, tmp_path_factory) as cluster:
        hadoop(cluster, "hadoop", "key", "create", "key1", "-provider", keys)
        # It reads its key store when it starts.
        cluster.daemon("nn").restart()
        make_zone(cluster)
        yield cluster


@pytest.fixture(scope="module")
def kms_zone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    port = free_port()
    keys = f"kms://http@127.0.0.1:{port}/kms"
    with (
        with_keys("kms", keys, tmp_path_factory) as cluster,
        kms(cluster, tmp_path_factory.mktemp("kms"), port),
    ):
        hadoop(cluster, "hadoop", "key", "create", "key1", "-provider", keys)
        make_zone(cluster)
        yield cluster


@contextmanager
def with_keys(name: str, keys: str, folders: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """A cluster whose HDFS finds its keys there."""
    cluster = EmbeddedCluster(
        ClusterShape(nodes=1, racks=1, overrides={"hdfs-site": {PROVIDER: keys}}),
        name=f"{name}-{os.getpid()}",
        state_root=folders.mktemp("clusters"),
        shared_machine=True,
    )
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()


def make_zone(cluster: EmbeddedCluster) -> None:
    connect(conf_dir=client_conf(cluster), timeout_s=30).mkdirs("/zone")
    hadoop(cluster, "hdfs", "crypto", "-createZone", "-keyName", "key1", "-path", "/zone")


def client_conf(cluster: EmbeddedCluster) -> str:
    """A client's configuration without the key store, which is the daemons' own."""
    folder = cluster.paths.root / "client-conf"
    if not folder.exists():
        shutil.copytree(cluster.conf_dir, folder)
        site = (folder / "hdfs-site.xml").read_text()
        (folder / "hdfs-site.xml").write_text(site.replace(PROVIDER, "of.the.daemons"))
    return str(folder)


def hadoop(cluster: EmbeddedCluster, *command: str) -> bytes:
    return subprocess.run(
        command, env=cluster.environ(), check=True, timeout=COMMAND_S, capture_output=True
    ).stdout


def test_webhdfs_reads_and_writes_in_it(zone: EmbeddedCluster) -> None:
    """And by default it is taken where the native client cannot."""
    conf = client_conf(zone)
    web = connect(conf_dir=conf, backend="webhdfs", timeout_s=30)
    web.write_bytes("/zone/by-http", CONTENT)
    assert web.read_bytes("/zone/by-http") == CONTENT
    assert hadoop(zone, "hdfs", "dfs", "-cat", "/zone/by-http") == CONTENT
    assert connect(conf_dir=conf, timeout_s=30).read_bytes("/zone/by-http") == CONTENT
    either = connect(conf_dir=conf, timeout_s=30)
    either.write_bytes("/zone/by-either", CONTENT)
    assert either.read_bytes("/zone/by-either") == CONTENT
    assert either.backend == "webhdfs"


def test_the_native_client_says_why_it_cannot(zone: EmbeddedCluster) -> None:
    conf = client_conf(zone)
    connect(conf_dir=conf, backend="webhdfs", timeout_s=30).write_bytes("/zone/told", CONTENT)
    native = connect(conf_dir=conf, backend="native", timeout_s=30)
    with pytest.raises(NotSupported, match="encryption zone"):
        native.read_bytes("/zone/told")
    with pytest.raises(NotSupported, match="encryption zone"):
        native.write_bytes("/zone/new", CONTENT)


@pytest.mark.parametrize("backend", ["native", "webhdfs", "auto"])
def test_with_a_kms_every_client_reads_what_others_wrote(
    kms_zone: EmbeddedCluster, backend: str
) -> None:
    fs = connect(conf_dir=str(kms_zone.conf_dir), backend=backend, timeout_s=30)
    fs.write_bytes(f"/zone/{backend}", CONTENT)
    assert fs.read_bytes(f"/zone/{backend}") == CONTENT
    assert hadoop(kms_zone, "hdfs", "dfs", "-cat", f"/zone/{backend}") == CONTENT
    hadoop(kms_zone, "hdfs", "dfs", "-cp", f"/zone/{backend}", f"/zone/{backend}-by-java")
    assert fs.read_bytes(f"/zone/{backend}-by-java") == CONTENT
