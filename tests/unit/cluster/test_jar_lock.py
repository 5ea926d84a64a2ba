"""The lock file of jars, and the user's copy of them."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path

import pytest

from tests.unit.cluster.file_server import FileServer
from yarnam.cluster.reporters import SilentReporter
from yarnam.cluster.software.jar_cache import (
    DEFAULT_REPOSITORY,
    Jar,
    JarCache,
    JarLock,
    is_whole,
    read_lock,
    repository,
    shipped_lock,
)
from yarnam.errors import BadConfig

DIGEST = "0" * 64


def lock_text(**changes: object) -> str:
    jar = {"coordinates": "org.x:y:1", "size": 3, "sha256": DIGEST}
    return json.dumps({"format": 1, "hadoop": "3.4.1", "jars": [jar]} | changes)


def test_the_shipped_lock_is_whole() -> None:
    lock = shipped_lock()
    names = [jar.file_name for jar in lock.jars]
    assert len(names) == len(set(names)) == 172
    assert 80e6 < lock.total_bytes < 100e6
    assert "hadoop-yarn-server-resourcemanager-3.4.1.jar" in names
    assert "zookeeper-3.8.4.jar" in names


def test_coordinates_become_a_path_in_mavens_layout() -> None:
    jar = Jar("io.netty:netty-transport-native-epoll:4.1.100.Final:linux-x86_64", 1, DIGEST)
    assert jar.path == (
        "io/netty/netty-transport-native-epoll/4.1.100.Final/"
        "netty-transport-native-epoll-4.1.100.Final-linux-x86_64.jar"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        lock_text(format=2),
        lock_text(jars=[{"coordinates": "org.x:y:1", "size": 3}]),
        lock_text(jars=[{"coordinates": "org.x:y", "size": 3, "sha256": DIGEST}]),
        lock_text(jars=[{"coordinates": "../x:y:1", "size": 3, "sha256": DIGEST}]),
        lock_text(jars=[{"coordinates": "org.x:y:1", "size": 0, "sha256": DIGEST}]),
        lock_text(jars=[{"coordinates": "org.x:y:1", "size": 3, "sha256": "ab"}]),
        lock_text(jars=[{"coordinates": "org.x:y:1", "size": 3, "sha256": DIGEST}] * 2),
    ],
)
def test_a_damaged_lock_is_refused(text: str) -> None:
    with pytest.raises(BadConfig, match="jar lock"):
        read_lock(text)


def test_the_repository_is_a_setting() -> None:
    assert repository({}) == DEFAULT_REPOSITORY
    assert repository({"YARNAM_MAVEN_REPOSITORY": " https://mirror/maven/ "}) == (
        "https://mirror/maven"
    )
    with pytest.raises(BadConfig, match="YARNAM_MAVEN_REPOSITORY"):
        repository({"YARNAM_MAVEN_REPOSITORY": "/srv/maven"})


def test_a_copy_with_one_wrong_byte_is_missing(tmp_path: Path) -> None:
    good, bad = b"good", b"goof"
    jar = Jar("org.x:y:1", len(good), hashlib.sha256(good).hexdigest())
    cache = JarCache(tmp_path, JarLock("3.4.1", (jar,)))
    assert cache.missing() == [jar]
    cache.folder.mkdir()
    (cache.folder / jar.file_name).write_bytes(bad)
    assert cache.missing() == [jar]
    (cache.folder / jar.file_name).write_bytes(good)
    assert cache.missing() == []
    assert not is_whole(cache.folder, jar)


def test_two_at_once_fetch_each_jar_once(tmp_path: Path, file_server: FileServer) -> None:
    jars = []
    for number in range(6):
        content = bytes([number]) * 50_000
        jar = Jar(f"org.x:jar{number}:1", len(content), hashlib.sha256(content).hexdigest())
        file_server.files[f"/{jar.path}"] = content
        jars.append(jar)
    cache = JarCache(tmp_path, JarLock("3.4.1", tuple(jars)))
    fetched: list[int] = []

    def fill() -> None:
        fetched.append(cache.fill(file_server.url, SilentReporter()))

    threads = [threading.Thread(target=fill) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(fetched) == [0, 6]
    assert cache.missing() == []
    assert len(file_server.requests) == 6
