"""Regenerate the lock file of the jars that make up the embedded cluster.

Usage: ``python tools/lock_hadoop_jars.py [--version 3.4.1] [--kdc] [--knox 2.0.0] [--output FILE]``

With ``--kdc``: the jars that its Kerberos server needs beside those. With ``--knox``: those of an
Apache Knox, which a test puts in front of it.

Needs Maven, which is the only tool that resolves a Maven dependency tree correctly. The embedded
cluster itself needs no Maven: it downloads what this file lists and checks every byte of it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import tempfile
from pathlib import Path

ARTIFACTS = (
    "hadoop-common",
    "hadoop-hdfs",
    "hadoop-hdfs-client",
    "hadoop-yarn-server-resourcemanager",
    "hadoop-yarn-server-nodemanager",
    "hadoop-yarn-client",
    # The ResourceManager does not start without this one, although timeline services stay off.
    "hadoop-yarn-server-timelineservice",
)

KDC_ARTIFACTS = ("hadoop-minikdc",)
KDC_GROUPS = ("org.apache.hadoop", "org.apache.kerby")
"""Of what hadoop-minikdc brings; the rest is among the jars already, or is for its tests."""


ACTIVATION = (
    "<dependency><groupId>javax.activation</groupId><artifactId>javax.activation-api</artifactId>"
    "<version>1.2.0</version></dependency>"
)
"""Was part of Java until 10, and Hadoop before 3.2 does not name it."""


KNOX_ARTIFACTS = (
    "gateway-server",
    "gateway-service-definitions",
    "gateway-service-webhdfs",
    "gateway-service-rm",
    "gateway-provider-rewrite",
    "gateway-provider-rewrite-step-secure-query",
    "gateway-provider-rewrite-step-encrypt-uri",
    "gateway-provider-rewrite-func-hostmap-static",
    "gateway-provider-rewrite-func-service-registry",
    "gateway-provider-security-shiro",
    "gateway-provider-identity-assertion-pseudo",
    "gateway-topology-simple",
    "gateway-topology-hadoop-xml",
)
NOT_IN_CENTRAL = (
    "<exclusions><exclusion><groupId>org.jetbrains.pty4j</groupId><artifactId>*</artifactId>"
    "</exclusion></exclusions>"
)
"""Of Knox's web shell, which is off."""


def pom(version: str, artifacts: tuple[str, ...]) -> str:
    is_knox = artifacts == KNOX_ARTIFACTS
    group, less = ("knox", NOT_IN_CENTRAL) if is_knox else ("hadoop", "")
    dependencies = "".join(
        f"<dependency><groupId>org.apache.{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{less}</dependency>"
        for artifact in artifacts
    )
    if version.startswith("3.1."):
        dependencies += ACTIVATION
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>lock</groupId><artifactId>lock</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )


def resolve(version: str, artifacts: tuple[str, ...], work: Path) -> list[dict[str, object]]:
    (work / "pom.xml").write_text(pom(version, artifacts), encoding="utf-8")
    # The repository layout makes the relative path of each copied jar its path on any mirror.
    jars = work / "jars"
    subprocess.run(
        [
            "mvn", "-B", "-q", "dependency:copy-dependencies", "-DincludeScope=runtime",
            "-Dmdep.useRepositoryLayout=true", f"-DoutputDirectory={jars}",
        ],
        cwd=work,
        check=True,
    )  # fmt: skip
    entries: list[dict[str, object]] = []
    for jar in sorted(jars.rglob("*.jar")):
        *group, artifact, release, _ = jar.relative_to(jars).parts
        classifier = jar.stem.removeprefix(f"{artifact}-{release}").removeprefix("-")
        coordinates = ":".join([".".join(group), artifact, release, classifier]).rstrip(":")
        content = jar.read_bytes()
        entries.append(
            {
                "coordinates": coordinates,
                "size": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
            }
        )
    return entries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", default="3.4.1")
    parser.add_argument("--kdc", action="store_true")
    parser.add_argument("--knox", default="")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    home = Path(__file__).parent.parent / "yarnam" / "cluster" / "software"
    name = f"{arguments.version}-kdc" if arguments.kdc else arguments.version
    output = arguments.output or home / f"hadoop-{name}.lock.json"
    artifacts, version = KDC_ARTIFACTS if arguments.kdc else ARTIFACTS, arguments.version
    if arguments.knox:
        artifacts, version, name = KNOX_ARTIFACTS, arguments.knox, f"knox-{arguments.knox}"
        tests = Path(__file__).parent.parent / "tests" / "integration"
        output = arguments.output or tests / f"{name}.lock.json"
    with tempfile.TemporaryDirectory() as work:
        entries = resolve(version, artifacts, Path(work))
    if arguments.kdc:
        lock = json.loads((home / f"hadoop-{arguments.version}.lock.json").read_text("utf-8"))
        known = {jar["coordinates"] for jar in lock["jars"]}
        entries = [
            entry
            for entry in entries
            if entry["coordinates"] not in known
            and str(entry["coordinates"]).startswith(KDC_GROUPS)
        ]
    # One jar per line: a changed dependency is then a one-line diff.
    lines = ",\n".join(f"    {json.dumps(entry)}" for entry in entries)
    output.write_text(
        f'{{\n  "format": 1,\n  "hadoop": "{name}",\n  "jars": [\n{lines}\n  ]\n}}\n',
        encoding="utf-8",
    )
    total = sum(int(str(entry["size"])) for entry in entries)
    print(f"{output}: {len(entries)} jars, {total / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
