"""The runtime archive: complete, light, the same for the same environment, cheap to name."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from yarnam.client.environments import runtime_archive
from yarnam.client.environments.runtime_archive import RuntimeSource, build_runtime, runtime_source

ENTRIES = ("yarnam.cli.containers.am_process", "yarnam.cli.containers.agent_process")


@pytest.fixture(scope="module")
def source() -> RuntimeSource:
    return runtime_source()


@pytest.fixture(scope="module")
def archive(source: RuntimeSource, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_runtime(source, tmp_path_factory.mktemp("runtime"))


@pytest.fixture(scope="module")
def unpacked(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(archive) as tar:
        # Not `filter=`: Python 3.10 and early 3.11 lack it, and the archive is our own.
        for member in tar.getmembers():
            tar.extract(member, folder)
    return folder


def isolated(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    """Run in a Python that sees nothing installed, only ``path``."""
    where = f"import sys; sys.path[:0] = {[str(each) for each in path]!r}\n"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", where + code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("entry", ENTRIES)
def test_am_and_agent_load_from_the_archive_alone(unpacked: Path, entry: str) -> None:
    done = isolated(f"import {entry}\n", unpacked / "lib")
    assert done.returncode == 0, done.stderr


def test_everything_that_containers_import_is_in_it(unpacked: Path) -> None:
    code = """
import importlib, pathlib, sys
lib = pathlib.Path(sys.path[0])
for room in ("am", "agent", "adapters", "core", "wire", "ports", "errors"):
    modules = list((lib / "yarnam" / room).rglob("*.py"))
    assert modules, room
    for path in modules:
        name = ".".join(path.relative_to(lib).with_suffix("").parts).removesuffix(".__init__")
        importlib.import_module(name)
import skein, hdfs_native, hdfs_utils, skein_specs
"""
    done = isolated(code, unpacked / "lib")
    assert done.returncode == 0, done.stderr


def test_the_sdk_needs_nothing_and_brings_nothing_else(unpacked: Path) -> None:
    done = isolated("import yarnam.train\nprint(yarnam.train.__file__)\n", unpacked / "sdk")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (unpacked / "sdk" / "yarnam").iterdir()) == [
        "__init__.py", "_version.py", "train",
    ]  # fmt: skip


def test_no_jar_and_nothing_of_the_client_travels(unpacked: Path) -> None:
    names = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*")}
    assert not [name for name in names if name.endswith(".jar")]
    for room in runtime_archive.EXCLUDED_PACKAGES:
        assert f"lib/yarnam/{room}" not in names
    assert not any(name.startswith(("lib/click", "lib/rich", "lib/pydantic")) for name in names)


def test_the_same_environment_gives_the_same_bytes(
    source: RuntimeSource, archive: Path, tmp_path: Path
) -> None:
    again = build_runtime(source, tmp_path)
    assert again.read_bytes() == archive.read_bytes()
    before = again.stat().st_ino
    assert build_runtime(source, tmp_path).stat().st_ino == before, "it was not made again"


def test_naming_an_unchanged_environment_is_cheap() -> None:
    runtime_source()
    took = []
    for _ in range(5):
        began = time.process_time()
        runtime_source()
        took.append(time.process_time() - began)
    assert min(took) < 0.1


def test_a_changed_source_gives_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "pretend_package"
    package.mkdir()
    (package / "__init__.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    first = runtime_source(["pretend_package"]).key
    assert runtime_source(["pretend_package"]).key == first
    (package / "__init__.py").write_text("x = 2\n")
    assert runtime_source(["pretend_package"]).key != first
