"""Build the jar that stands in front of the heartbeats of Skein's ApplicationMaster.

Usage: ``python tools/build_interceptor.py [--jars FOLDER] [--output FILE]``

Needs a JDK's ``javac`` and Hadoop's jars, by default those of the embedded cluster (``yarnam
cluster up`` downloads them). The same sources and the same JDK give the same bytes. The jar lists
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
from pathlib import Path

from yarnam.client.site import cache_dir
from yarnam.cluster.software.jar_cache import HADOOP_VERSION

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "java"
JAR = ROOT / "skein_specs" / "allocate-interceptor.jar"
CHECKSUMS = "META-INF/SOURCES.sha256"
MANIFEST = "META-INF/MANIFEST.MF"

NEEDED_JARS = ("hadoop-common", "hadoop-yarn-api", "hadoop-yarn-common")
RELEASE = "8"
"""Of Java: the oldest that Hadoop 3 runs on."""


def source_checksums(sources: Path = SOURCES) -> str:
    """The sources as ``sha256sum`` lists them, by path."""
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(sources).as_posix()}\n"
        for path in sorted(sources.rglob("*.java"))
    )


def compiler_version() -> str:
    """The feature version of ``javac``, as in ``17``. Raises OSError where there is none."""
    done = subprocess.run(["javac", "-version"], check=True, capture_output=True, text=True)
    found = re.search(r"javac (\d+)", done.stdout + done.stderr)
    if not found:
        raise OSError(f"javac does not tell its version: {done.stdout}{done.stderr}")
    return found[1]


def build(jars: Path, output: Path) -> None:
    """Compile the sources against Hadoop's jars and write the jar. Raises CalledProcessError."""
    class_path = ":".join(str(path) for name in NEEDED_JARS for path in jars.glob(f"{name}-3*.jar"))
    with tempfile.TemporaryDirectory() as scratch:
        sources = sorted(map(str, SOURCES.rglob("*.java")))
        subprocess.run(
            ["javac", "--release", RELEASE, "-nowarn", "-Xlint:none", "-proc:none",
             "-cp", class_path, "-d", scratch, *sources],
            check=True,
        )  # fmt: skip
        manifest = f"Manifest-Version: 1.0\r\nBuild-Jdk-Spec: {compiler_version()}\r\n\r\n"
        entries = {MANIFEST: manifest.encode(), CHECKSUMS: source_checksums().encode()}
        for path in sorted(Path(scratch).rglob("*.class")):
            entries[path.relative_to(scratch).as_posix()] = path.read_bytes()
    with zipfile.ZipFile(output, "w") as archive:
        # Stored: what deflate makes of it differs between releases of zlib.
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(name, date_time=(2000, 1, 1, 0, 0, 0)), content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jars", type=Path, default=None, help="folder with Hadoop's jars")
    parser.add_argument("--output", type=Path, default=JAR)
    chosen = parser.parse_args()
    jars = chosen.jars or cache_dir(os.environ) / f"hadoop-{HADOOP_VERSION}"
    build(jars, chosen.output)
    print(f"{chosen.output}: {chosen.output.stat().st_size} bytes, Hadoop {HADOOP_VERSION}")


if __name__ == "__main__":
    main()
