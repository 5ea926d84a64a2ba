"""Further servers of Hadoop's beside the embedded cluster: HttpFS, one address that passes all on
to HDFS, and the KMS, which keeps the keys of encryption zones."""

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

HTTPFS_JARS = JarLock(
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
KMS_JARS = JarLock(
    f"{HADOOP_VERSION}-kms",
    (
        Jar(
            f"org.apache.hadoop:hadoop-kms:{HADOOP_VERSION}", 96_796,
            "a6b1c3c96be76d7c3ec734c9eb8e24b1bac2e4fe423de783f731ad25caac9d80",
        ),
        Jar(
            "org.slf4j:jul-to-slf4j:1.7.36", 4_519,
            "9e641fb142c5f0b0623d6222c09ea87523a41bf6bed48ac79940724010b989de",
        ),
    ),
)  # fmt: skip
"""What they need beside the jars of the cluster."""

START_LIMIT_S = 120.0


class _Silent:
    def begin(self, files: int, total_bytes: int) -> None:
        pass

    def advance(self, count: int) -> None:
        pass

    def finish(self) -> None:
        pass


SILENT = _Silent()


@contextmanager
def httpfs(cluster: EmbeddedCluster, folder: Path) -> Iterator[str]:
    """The URI of a gateway that trusts everybody."""
    port = free_port()
    files = {
        "httpfs-signature.secret": "secret",
        "httpfs-site.xml": properties_xml({
            "httpfs.http.hostname": "127.0.0.1",
            "httpfs.http.port": str(port),
            "httpfs.hadoop.config.dir": str(cluster.conf_dir),
        }),
    }  # fmt: skip
    main = "org.apache.hadoop.fs.http.server.HttpFSServerWebServer"
    with _server(cluster, folder, "httpfs", HTTPFS_JARS, main, files) as process:
        _await(f"http://127.0.0.1:{port}/webhdfs/v1/?op=LISTSTATUS&user.name=root", process)
        yield f"webhdfs://127.0.0.1:{port}"


@contextmanager
def kms(cluster: EmbeddedCluster, folder: Path, port: int) -> Iterator[None]:
    """A key server at ``kms://http@127.0.0.1:PORT/kms`` that trusts everybody."""
    anyone = {f"hadoop.kms.proxyuser.root.{what}": "*" for what in ("hosts", "users")}
    deeds = ("MANAGEMENT", "GENERATE_EEK", "DECRYPT_EEK", "READ")
    files = {
        "kms-site.xml": properties_xml({
            "hadoop.kms.http.host": "127.0.0.1",
            "hadoop.kms.http.port": str(port),
            "hadoop.kms.key.provider.uri": f"jceks://file@{folder / 'keys.jceks'}",
            "hadoop.kms.authentication.type": "simple",
            **anyone,
        }),
        "kms-acls.xml": properties_xml({f"default.key.acl.{deed}": "*" for deed in deeds}),
        "core-site.xml": properties_xml({}),
    }  # fmt: skip
    main = "org.apache.hadoop.crypto.key.kms.server.KMSWebServer"
    with _server(cluster, folder, "kms", KMS_JARS, main, files) as process:
        _await(f"http://127.0.0.1:{port}/kms/v1/keys/names?user.name=root", process)
        yield


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def _server(
    cluster: EmbeddedCluster,
    folder: Path,
    name: str,
    lock: JarLock,
    main: str,
    files: dict[str, str],
) -> Iterator[subprocess.Popen[bytes]]:
    """A process with the NameNode's class path and options; ``files``: its configuration."""
    jars = JarCache(cache_dir(), lock)
    jars.fill(repository(), SILENT)
    for part in ("conf", "logs", "temp"):
        (folder / part).mkdir(parents=True)
    for file, text in files.items():
        (folder / "conf" / file).write_text(text)
    like = daemon_command(cluster.plan, "nn")
    class_path = [str(folder / "conf"), *map(str, jars.files()), like.environment["CLASSPATH"]]
    java, *options = like.argv
    argv = [
        java,
        *(one for one in options if one.startswith("-") and "yarnam." not in one),
        f"-Dyarnam.log={folder / 'logs' / name}.log",
        f"-D{name}.home.dir={folder}",
        f"-D{name}.config.dir={folder / 'conf'}",
        f"-D{name}.log.dir={folder / 'logs'}",
        f"-D{name}.temp.dir={folder / 'temp'}",
        main,
    ]
    environ = {**like.environment, "CLASSPATH": ":".join(class_path)}
    with (
        (folder / "out").open("wb") as out,
        subprocess.Popen(argv, env=environ, stdout=out, stderr=out) as process,
    ):
        try:
            yield process
        except TimeoutError:
            print((folder / "out").read_text()[-5000:])
            raise
        finally:
            process.kill()


def await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    """Until somebody listens on this port of the loopback."""
    deadline = time.monotonic() + START_LIMIT_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=20).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError(f"nobody listens on {port}")


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=20).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError(f"nobody answers at {url}")
