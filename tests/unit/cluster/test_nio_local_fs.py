"""The local file system of the NodeManagers sets permissions without a process for each."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from yarnam.client.site import cache_dir
from yarnam.cluster.hadoop.daemon_commands import LOCAL_FS_CLASS, LOCAL_FS_JAR
from yarnam.cluster.software.jar_cache import HADOOP_VERSION

HADOOP = cache_dir(os.environ) / f"hadoop-{HADOOP_VERSION}"
SCENARIO = Path(__file__).parent / "java" / "LocalFsScenario.java"

MODES = {"plain": 0o644, "script": 0o500, "folder": 0o755, "private": 0o700, "sticky": 0o1777}


@pytest.mark.skipif(
    not (shutil.which("javac") and HADOOP.is_dir()),
    reason="needs a JDK and the embedded cluster's jars",
)
def test_it_sets_what_is_asked_for_and_starts_no_chmod(tmp_path: Path) -> None:
    asked: list[str] = []
    for name, mode in MODES.items():
        (tmp_path / name).mkdir(mode=0o711)
        asked += [oct(mode)[2:], str(tmp_path / name)]
    no_programs = {"PATH": "/nowhere", "HOME": str(tmp_path)}
    no_sticky = asked[:-2]
    java, class_path = shutil.which("java"), f"{LOCAL_FS_JAR}:{HADOOP}/*"
    command = [str(java), "-cp", class_path, str(SCENARIO), LOCAL_FS_CLASS]
    done = subprocess.run(
        [*command, *no_sticky], env=no_programs, check=True, capture_output=True, text=True
    )
    assert LOCAL_FS_CLASS in done.stdout
    subprocess.run([*command, *asked[-2:]], check=True, capture_output=True)
    assert {name: (tmp_path / name).stat().st_mode & 0o7777 for name in MODES} == MODES
