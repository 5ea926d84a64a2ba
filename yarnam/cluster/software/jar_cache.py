"""The jars of the embedded cluster: the checked-in lock file and the user's copy of them."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from yarnam.cluster.cluster_lock import exclusive
from yarnam.cluster.shape import HADOOP_VERSION
from yarnam.cluster.software.download import Download, DownloadProgress, download_all, sha256_of
from yarnam.errors import BadConfig

KDC_VERSION = f"{HADOOP_VERSION}-kdc"
"""Hadoop's MiniKdc, and what it needs beside the jars of that version."""
DEFAULT_REPOSITORY = "https://repo.maven.apache.org/maven2"
REPOSITORY_VARIABLE = "YARNAM_MAVEN_REPOSITORY"
# Another `up` may be fetching the same 92 MB over a slow line.
CACHE_LOCK_LIMIT_S = 1800


@dataclass(frozen=True, slots=True)
class Jar:
    coordinates: str
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        _, artifact, *rest = self.coordinates.split(":")
        return "-".join([artifact, *rest]) + ".jar"

    @property
    def path(self) -> str:
        """Where any repository in Maven's layout keeps it."""
        group, artifact, release = self.coordinates.split(":")[:3]
        return f"{group.replace('.', '/')}/{artifact}/{release}/{self.file_name}"


@dataclass(frozen=True, slots=True)
class JarLock:
    hadoop: str
    jars: tuple[Jar, ...]

    @property
    def total_bytes(self) -> int:
        return sum(jar.size for jar in self.jars)


def read_lock(text: str) -> JarLock:
    """Parse the lock file; a damaged one is refused before anything is fetched."""
    try:
        document: dict[str, Any] = json.loads(text)
        if document["format"] != 1:
            raise BadConfig(f"the jar lock has format {document['format']}, known is 1")
        jars = tuple(
            Jar(str(each["coordinates"]), int(each["size"]), str(each["sha256"]))
            for each in document["jars"]
        )
        version = str(document["hadoop"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadConfig(f"the jar lock is damaged: {error!r}") from error
    names = [jar.file_name for jar in jars]
    for jar in jars:
        if not 3 <= len(jar.coordinates.split(":")) <= 4 or "/" in jar.coordinates:
            raise BadConfig(f"the jar lock names '{jar.coordinates}', which is not a coordinate")
        if len(jar.sha256) != 64 or jar.size <= 0:
            raise BadConfig(f"the jar lock has no usable size and SHA-256 of {jar.coordinates}")
    if len(set(names)) != len(names):
        raise BadConfig("the jar lock names a file twice")
    return JarLock(version, jars)


def shipped_lock(version: str = HADOOP_VERSION) -> JarLock:
    name = f"hadoop-{version}.lock.json"
    return read_lock(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))


def repository(environ: dict[str, str] | None = None) -> str:
    value = (environ if environ is not None else os.environ).get(REPOSITORY_VARIABLE, "")
    address = value.strip().rstrip("/") or DEFAULT_REPOSITORY
    if not address.startswith(("http://", "https://")):
        raise BadConfig(
            f"{REPOSITORY_VARIABLE} is '{address}'",
            hint="It is the http or https address of a repository in Maven's layout.",
        )
    return address


@dataclass(frozen=True, slots=True)
class JarCache:
    """The user's verified copy of the locked jars, in one flat folder per Hadoop version."""

    cache: Path
    lock: JarLock

    @property
    def folder(self) -> Path:
        return self.cache / f"hadoop-{self.lock.hadoop}"

    def files(self) -> list[Path]:
        return [self.folder / jar.file_name for jar in self.lock.jars]

    def missing(self) -> list[Jar]:
        """Jars that are absent or differ from the lock file in size or SHA-256."""
        with ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as pool:
            good = pool.map(lambda jar: is_whole(self.folder / jar.file_name, jar), self.lock.jars)
        return [jar for jar, ok in zip(self.lock.jars, good, strict=True) if not ok]

    def fill(self, address: str, progress: DownloadProgress) -> int:
        """Fetch what is missing; returns the number of jars fetched."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with exclusive(self.folder.with_suffix(".lock"), CACHE_LOCK_LIMIT_S, "the jar cache"):
            missing = self.missing()
            if missing:
                downloads = [
                    Download(
                        url=f"{address}/{jar.path}",
                        target=self.folder / jar.file_name,
                        size=jar.size,
                        sha256=jar.sha256,
                    )
                    for jar in missing
                ]
                download_all(downloads, progress)
        return len(missing)


def is_whole(path: Path, jar: Jar) -> bool:
    """Whether the file is the locked one. 92 MB hash in a fraction of a second, so always do."""
    try:
        if path.stat().st_size != jar.size:
            return False
        return sha256_of(path) == jar.sha256
    except OSError:
        return False
