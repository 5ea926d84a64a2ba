"""Layers: which packages go into one, when it is used again, and that a node finds them."""

from __future__ import annotations

import os
import subprocess
import tarfile
from contextlib import nullcontext
from pathlib import Path

import pytest

from hdfs_utils.transfer import NoProgress
from tests.unit.client.environments.test_packed_environment import CACHE, wheel
from yarnam.client.environments import environment_layers, package_installer, packed_environment
from yarnam.client.environments.environment_layers import (
    LEAST_LAYER_BYTES,
    InstalledPackage,
    environment_name,
    installed_packages,
    large_packages,
    layer_name,
    layers_named,
    requirement_blocks,
    together,
    without_packages,
)
from yarnam.client.environments.packed_environment import build_environment, recipe_of
from yarnam.core.model.job_spec import PackedFrom, PackSource

LARGE = LEAST_LAYER_BYTES


def package(name: str, *files: str, size: int = 1, **changes: object) -> InstalledPackage:
    found = {"content": name, "scripts": (), "is_movable": True, **changes}
    return InstalledPackage(name, files=files or (f"{name}/x",), size_bytes=size, **found)  # type: ignore[arg-type]


def names(packages: list[InstalledPackage]) -> list[str]:
    return [each.name for each in packages]


def test_only_what_is_large_gets_a_layer() -> None:
    assert large_packages([package("numpy"), package("six", "six.py")]) == []
    found = large_packages([package("torch", size=LARGE), package("numpy")])
    assert names(found) == ["torch"]


def test_packages_of_one_directory_stay_together() -> None:
    cuda = [package(f"nvidia-{n}", f"nvidia/{n}/x", size=LARGE // 2) for n in ("cublas", "cudnn")]
    assert names(large_packages([*cuda, package("numpy")])) == ["nvidia-cublas", "nvidia-cudnn"]


def test_packages_whose_libraries_find_each_other_by_their_place_stay_together() -> None:
    torch = package("torch", size=LARGE, needs=frozenset({"nvidia", "torch"}))
    small = package("nvidia-nvtx", "nvidia/nvtx/x")
    kernel = package("flash", needs=frozenset({"torch"}))
    groups = together([kernel, package("numpy"), small, torch])
    assert sorted(sorted(names(group)) for group in groups) == [
        ["flash", "nvidia-nvtx", "torch"],
        ["numpy"],
    ]
    assert names(large_packages([kernel, small, torch])) == ["flash", "nvidia-nvtx", "torch"]


def test_a_package_with_files_elsewhere_stays_with_all_that_belong_to_it() -> None:
    notebook = package("notebook", size=LARGE, is_movable=False)
    assert large_packages([notebook, package("kernel", "notebook/kernel", size=LARGE)]) == []


def test_a_layer_is_named_by_content_and_interpreter() -> None:
    name = layer_name("3.11", [package("torch")])
    assert name == layer_name("3.11", [package("torch")])
    assert name != layer_name("3.12", [package("torch")])
    assert name != layer_name("3.11", [package("torch", content="other")])
    assert layers_named(environment_name("0a", [Path(name)])) == [name]
    assert layers_named(environment_name("0a")) == []


RESOLVED = """\
--extra-index-url https://index.example
NumPy==2.0.1 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
# a note
torch==2.4.1+cpu --hash=sha256:cc
tool[extra]==1.0
mine @ https://host.example/mine-1.0.whl
./local-1.0.whl
"""


def test_lines_of_resolved_requirements() -> None:
    assert requirement_blocks(RESOLVED) == {
        "numpy": "NumPy==2.0.1 --hash=sha256:aa --hash=sha256:bb",
        "torch": "torch==2.4.1+cpu --hash=sha256:cc",
        "tool": "tool[extra]==1.0",
    }
    assert without_packages(RESOLVED, frozenset({"numpy", "mine"})) == [
        "--extra-index-url https://index.example",
        "torch==2.4.1+cpu --hash=sha256:cc",
        "tool[extra]==1.0",
        "mine @ https://host.example/mine-1.0.whl",
        "./local-1.0.whl",
    ]


def test_a_list_of_files_that_climbs_moves_nothing_from_elsewhere(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3" / "site-packages"
    info = site / "bad-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 1.0\n")
    for path in ("/etc/passwd", "../../../etc/x", "bad/../../../secret"):
        (info / "RECORD").write_text(f"bad/x,,\n{path},,\n")
        (found,) = installed_packages(site)
        assert not found.is_movable
        assert found.files == ("bad/x",)


class Node:
    """Makes environments from an index of wheels, and unpacks them as YARN does."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.index = folder, folder / "index"
        self.index.mkdir()
        self.installed: list[list[str]] = []
        self.reports: list[str] = []
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(self.index))
        monkeypatch.setattr(package_installer, "find_uv", lambda: "")
        monkeypatch.setattr(environment_layers, "LEAST_LAYER_BYTES", 10_000)
        real = packed_environment.install

        def install(python: Path, source: Path, file: Path, *given: object, **more: object) -> None:
            self.installed.append([line.split("==")[0] for line in file.read_text().split("\n")])
            real(python, source, file, *given, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(packed_environment, "install", install)

    def built(self, *wanted: str) -> list[Path]:
        file = self.folder / "requirements.txt"
        file.write_text("\n".join(wanted))
        cache = self.folder / "cache"
        recipe = recipe_of(PackedFrom(PackSource.REQUIREMENTS, str(file)), cache, os.environ)
        return build_environment(
            recipe, cache, self.reports.append, lambda _: nullcontext(NoProgress())
        )

    def unpacked(self, name: str, archives: list[Path]) -> Path:
        container = self.folder / name
        for number, archive in enumerate(archives):
            with tarfile.open(archive) as tar:
                tar.extractall(
                    container / (f"environment-layer-{number - 1}" if number else "environment")
                )
        return container


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    (tmp_path / "cache" / "interpreters").mkdir(parents=True)
    for archive in (CACHE / "interpreters").glob("*"):
        (tmp_path / "cache" / "interpreters" / archive.name).symlink_to(archive)
    node = Node(tmp_path, monkeypatch)
    wheel(node.index, "large", more={"large_data/x.txt": "x" * 20_000})
    wheel(node.index, "tiny")
    wheel(node.index, "other")
    return node


def run(program: Path, *arguments: str, **env: str) -> str:
    done = subprocess.run(
        [program, *arguments],
        env={"PATH": os.defpath, **env}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_a_layer_is_made_once_and_found_by_the_interpreter(node: Node) -> None:
    first, layer = node.built("large", "tiny")
    assert node.built("large", "tiny") == [first, layer]
    second, same = node.built("large", "tiny", "other")
    assert same == layer
    assert second != first
    assert node.installed == [["large", "tiny"], ["other", "tiny"]]
    assert layer.stat().st_size < 20_000 < first.stat().st_size
    container = node.unpacked("container", [second, layer])
    python = container / "environment" / "bin" / "python"
    where = "import large, tiny, other; print(large.__file__)"
    expected = container / "environment-layer-0" / "site-packages" / "large.py"
    assert run(python, "-c", where) == str(expected)
    # A program of a package that was not installed again, started by its real path.
    program = container / "environment" / "bin" / "large-run"
    assert run(program) == str(container / "environment")
    # As YARN has it: each archive in a directory of its own, with links in the container's.
    elsewhere = node.folder / "filecache"
    (container / "environment-layer-0").rename(elsewhere)
    assert run(python, "-c", where, YARNAM_ENVIRONMENT_LAYERS=str(elsewhere)) == str(
        elsewhere / "site-packages" / "large.py"
    )


@pytest.mark.long
def test_a_package_that_belongs_beside_a_layer_s_makes_a_new_one(node: Node) -> None:
    wheel(node.index, "plugin", more={"large_data/plugin.txt": "y"})
    _, layer = node.built("large")
    archive, other = node.built("large", "plugin")
    assert other != layer
    assert node.installed[-2:] == [["plugin"], ["large", "plugin"]]
    container = node.unpacked("container", [archive, other])
    assert (container / "environment-layer-0/site-packages/large_data/plugin.txt").exists()
    assert run(container / "environment/bin/python", "-c", "import large, plugin") == ""


@pytest.mark.long
def test_another_version_is_installed_and_not_taken_from_a_layer(node: Node) -> None:
    first = node.built("large==1.0")
    wheel(node.index, "large", "2.0", more={"large_data/x.txt": "z" * 20_000})
    second = node.built("large==2.0")
    assert second[1] != first[1]
    assert node.installed == [["large"], ["large"]]
    (node.folder / "cache" / "environments" / f"{first[1].name}").unlink()
    again = node.built("large==1.0")
    assert again == first, "a layer that is missing is made again"
