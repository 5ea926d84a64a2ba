"""The jars of ``java/``: made of these sources, by any machine alike."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest

from skein_specs.interceptor import RPC_CLASS, interceptor_jar
from tools.build_jars import (
    CHECKSUMS,
    INTERCEPTOR,
    JARS,
    LOCAL_FS,
    MANIFEST,
    Jar,
    build,
    compiler_version,
)
from yarnam.client.site import cache_dir
from yarnam.cluster.hadoop.daemon_commands import LOCAL_FS_CLASS, LOCAL_FS_JAR
from yarnam.cluster.software.jar_cache import HADOOP_VERSION

HADOOP = cache_dir(os.environ) / f"hadoop-{HADOOP_VERSION}"
HAS_JDK = bool(shutil.which("javac") and HADOOP.is_dir())

each_jar = pytest.mark.parametrize("jar", JARS, ids=lambda jar: jar.file.stem)


@each_jar
def test_it_is_made_of_the_sources_in_the_tree(jar: Jar) -> None:
    """When this fails: python -m tools.build_jars"""
    with zipfile.ZipFile(jar.file) as archive:
        assert archive.read(CHECKSUMS).decode() == jar.source_checksums
    assert jar.sources


def test_they_are_where_the_product_looks_for_them() -> None:
    assert interceptor_jar() == INTERCEPTOR.file.read_bytes()
    assert LOCAL_FS.file == LOCAL_FS_JAR
    for jar, name in ((INTERCEPTOR, RPC_CLASS), (LOCAL_FS, LOCAL_FS_CLASS)):
        with zipfile.ZipFile(jar.file) as archive:
            assert f"{name.replace('.', '/')}.class" in archive.namelist()


@pytest.mark.long
@each_jar
@pytest.mark.skipif(not HAS_JDK, reason="needs a JDK and the embedded cluster's jars")
def test_the_same_compiler_makes_the_same_jar(jar: Jar, tmp_path: Path) -> None:
    with zipfile.ZipFile(jar.file) as archive:
        manifest = archive.read(MANIFEST).decode()
    build(jar, HADOOP, tmp_path / "built.jar")
    if f"Build-Jdk-Spec: {compiler_version()}\r\n" in manifest:
        assert (tmp_path / "built.jar").read_bytes() == jar.file.read_bytes()
