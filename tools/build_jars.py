"""Build the jars of the sources in ``java/``: the class in front of the heartbeats of Skein's
ApplicationMaster, and the local file system of the embedded cluster's NodeManagers.

Usage: ``python tools/build_jars.py [--jars FOLDER]``

Needs a JDK's ``javac`` and Hadoop's jars, by default those of the embedded cluster (``yarnam
cluster up`` downloads them). The same sources and the same JDK give the same bytes. A jar lists
the checksums of its sources, so that a test can tell whether it was built from them.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from yarnam.client.site import cache_dir
from yarnam.cluster.software.jar_cache import HADOOP_VERSION

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "java"
CHECKSUMS = "META-INF/SOURCES.sha256"
MANIFEST = "META-INF/MANIFEST.MF"

NEEDED_JARS = ("hadoop-common", "hadoop-yarn-api", "hadoop-yarn-common")
RELEASE = "8"
"""Of Java: the oldest that Hadoop 3 runs on."""


@dataclass(frozen=True, slots=True)
class Jar:
    file: Path
    package: str
    """Its classes are those of this folder of ``java/``, without folders below."""

    @property
    def sources(self) -> list[Path]:
        return sorted((SOURCES / self.package).glob("*.java"))

    @property
    def source_checksums(self) -> str:
        """The sources as ``sha256sum`` lists them, by path."""
        return "".join(
            f"{hashlib.sha256(path.read_bytes()).hexdigest()}  "
            f"{path.relative_to(SOURCES).as_posix()}\n"
            for path in self.sources
        )


INTERCEPTOR = Jar(ROOT / "skein_specs" / "allocate-interceptor.jar", "yarnam")
LOCAL_FS = Jar(ROOT / "yarnam" / "cluster" / "hadoop" / "nio-local-fs.jar", "yarnam/cluster")
JARS = (INTERCEPTOR, LOCAL_FS)


def compiler_version() -> str:
    """The feature version of ``javac``, as in ``17``. Raises OSError where there is none."""
    done = subprocess.run(["javac", "-version"], check=True, capture_output=True, text=True)
    found = re.search(r"javac (\d+)", done.stdout + done.stderr)
    if not found:
        raise OSError(f"javac does not tell its version: {done.stdout}{done.stderr}")
    return found[1]


def build(jar: Jar, hadoop: Path, output: Path) -> None:
    """Compile the sources against Hadoop's jars and write the jar. Raises CalledProcessError."""
    class_path = ":".join(
        str(path) for name in NEEDED_JARS for path in hadoop.glob(f"{name}-3*.jar")
    )
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            ["javac", "--release", RELEASE, "-nowarn", "-Xlint:none", "-proc:none",
             "-cp", class_path, "-d", scratch, *map(str, jar.sources)],
            check=True,
        )  # fmt: skip
        manifest = f"Manifest-Version: 1.0\r\nBuild-Jdk-Spec: {compiler_version()}\r\n\r\n"
        entries = {MANIFEST: manifest.encode(), CHECKSUMS: jar.source_checksums.encode()}
        for path in sorted(Path(scratch).rglob("*.class")):
            entries[path.relative_to(scratch).as_posix()] = path.read_bytes()
    with zipfile.ZipFile(output, "w") as archive:
        # Stored: what deflate makes of it differs between releases of zlib.
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(name, date_time=(2000, 1, 1, 0, 0, 0)), content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jars", type=Path, default=None, help="folder with Hadoop's jars")
    hadoop = parser.parse_args().jars or cache_dir(os.environ) / f"hadoop-{HADOOP_VERSION}"
    for jar in JARS:
        build(jar, hadoop, jar.file)
        print(f"{jar.file}: {jar.file.stat().st_size} bytes, Hadoop {HADOOP_VERSION}")


if __name__ == "__main__":
    main()
