"""Files in an encryption zone of HDFS. Its keys are in a key store of Java's, so Hadoop's own
processes encrypt and decrypt, and HDFS's native client cannot."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from hdfs_utils import connect
from hdfs_utils.errors import NotSupported
from yarnam.cluster import EmbeddedCluster
from yarnam.cluster.shape import ClusterShape

pytestmark = [pytest.mark.hdfs, pytest.mark.long, pytest.mark.timeout(400)]

CONTENT = b"a secret at rest" * 1000
COMMAND_S = 120
PROVIDER = "hadoop.security.key.provider.path"


@pytest.fixture(scope="module")
def zone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    keys = f"jceks://file{tmp_path_factory.mktemp('keys') / 'keys.jceks'}"
    cluster = EmbeddedCluster(
        ClusterShape(nodes=1, racks=1, overrides={"hdfs-site": {PROVIDER: keys}}),
        name=f"zone-{os.getpid()}",
        state_root=tmp_path_factory.mktemp("clusters"),
        shared_machine=True,
    )
    try:
        cluster.up()
        hadoop(cluster, "hadoop", "key", "create", "key1", "-provider", keys)
        # It reads its key store when it starts.
        cluster.daemon("nn").restart()
        connect(conf_dir=client_conf(cluster), timeout_s=30).mkdirs("/zone")
        hadoop(cluster, "hdfs", "crypto", "-createZone", "-keyName", "key1", "-path", "/zone")
        yield cluster
    finally:
        cluster.down()


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
