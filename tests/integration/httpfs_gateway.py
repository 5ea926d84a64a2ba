"""Hadoop's HttpFS in front of the embedded cluster's HDFS: one address, which passes all on."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from yarnam.cluster.cluster_paths import cache_dir
from yarnam.cluster.hadoop.daemon_commands import daemon_command
from yarnam.cluster.hadoop.properties import properties_xml
from yarnam.cluster.shape import HADOOP_VERSION
from yarnam.cluster.software.jar_cache import Jar, JarCache, JarLock, repository

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

LOCK = JarLock(
    f"{HADOOP_VERSION}-httpfs",
    (
        Jar(
            f"org.apache.hadoop:hadoop-hdfs-httpfs:{HADOOP_VERSION}", 270_752,
            "bad7fdfe5baa11b323b141100912f5527e1e6ffa1472fa620bd69ffad929be95",
        ),
        Jar(
            "com.googlecode.json-simple:json-simple:1.1.1", 23_931,
            "4e69696892b88b41c55d49ab2fdcc21eead92bf54acc588c0050596c3b75199c",
        ),
    ),
)  # fmt: skip
"""What it needs beside the jars of the cluster."""

SERVER = "org.apache.hadoop.fs.http.server.HttpFSServerWebServer"
START_LIMIT_S = 120.0


class _Silent:
    def begin(self, files: int, total_bytes: int) -> None:
        pass

    def advance(self, count: int) -> None:
        pass

    def finish(self) -> None:
        pass


@contextmanager
def httpfs(cluster: EmbeddedCluster, folder: Path) -> Iterator[str]:
    """The URI of a gateway that trusts everybody."""
    jars = JarCache(cache_dir(), LOCK)
    jars.fill(repository(), _Silent())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name in ("conf", "logs", "temp"):
        (folder / name).mkdir(parents=True)
    (folder / "conf" / "httpfs-signature.secret").write_text("secret")
    (folder / "conf" / "httpfs-site.xml").write_text(
        properties_xml({
            "httpfs.http.hostname": "127.0.0.1",
            "httpfs.http.port": str(port),
            "httpfs.hadoop.config.dir": str(cluster.conf_dir),
        })
    )  # fmt: skip
    like = daemon_command(cluster.plan, "nn")
    class_path = [str(folder / "conf"), *map(str, jars.files()), like.environment["CLASSPATH"]]
    java, *options = like.argv
    argv = [
        java,
        *(one for one in options if one.startswith("-") and "yarnam." not in one),
        f"-Dyarnam.log={folder / 'logs' / 'httpfs.log'}",
        f"-Dhttpfs.home.dir={folder}",
        f"-Dhttpfs.config.dir={folder / 'conf'}",
        f"-Dhttpfs.log.dir={folder / 'logs'}",
        f"-Dhttpfs.temp.dir={folder / 'temp'}",
        SERVER,
    ]
    environ = {**like.environment, "CLASSPATH": ":".join(class_path)}
    with (
        (folder / "out").open("wb") as out,
        subprocess.Popen(argv, env=environ, stdout=out, stderr=out) as process,
    ):
        try:
            _await(f"http://127.0.0.1:{port}/webhdfs/v1/?op=LISTSTATUS&user.name=root", process)
            yield f"webhdfs://127.0.0.1:{port}"
        except TimeoutError:
            print((folder / "out").read_text()[-5000:])
            raise
        finally:
            process.kill()


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=20).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError(f"HttpFS does not answer at {url}")
