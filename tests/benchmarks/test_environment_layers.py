"""What a large environment costs the submitting machine and a node: made for the first time, and
with one more small package.

The stand-in has the files of PyTorch's usual wheels in number and shape, and 300 MB
(``YARNAM_BENCH_FILES``, 10,000; ``YARNAM_BENCH_MB``). "Before" is one archive that one core
compresses, made by the same code in the same run. Times take turns; each is the best of two.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from hdfs_utils.transfer import NoProgress
from tests.unit.client.environments.test_packed_environment import CACHE, wheel
from yarnam.client.environments import environment_layers, package_installer, runtime_archive
from yarnam.client.environments.packed_environment import build_environment, recipe_of
from yarnam.core.model.job_spec import PackedFrom, PackSource

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

FILES = int(os.environ.get("YARNAM_BENCH_FILES", "10000"))
MEGABYTES = int(os.environ.get("YARNAM_BENCH_MB", "300"))


def stand_in(index: Path) -> None:
    """Nine files of ten are modules; nearly all bytes are in twenty libraries."""
    draw = random.Random(7)
    words = [draw.randbytes(6) for _ in range(4000)]
    path = index / "large-1.0-py3-none-any.whl"
    info = "large-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        names = []
        for number in range(FILES):
            name = f"large/m{number // 100}/f{number}.py"
            archive.writestr(name, f"def f{number}(x):\n    return x + {number}\n" * 20)
            names.append(name)
        for number in range(20):
            name = f"large/lib{number}.so"
            # Shared libraries compress to about a half.
            piece = b"".join(draw.choices(words, k=20_000)) + draw.randbytes(40_000)
            archive.writestr(name, piece * (MEGABYTES * 1_000_000 // 20 // len(piece)))
            names.append(name)
        texts = {
            f"{info}/METADATA": "Metadata-Version: 2.1\nName: large\nVersion: 1.0\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = f"{info}/RECORD"
        texts[record] = "".join(f"{name},,\n" for name in [*names, *texts, record])
        for name, text in texts.items():
            archive.writestr(name, text)


@contextmanager
def as_before(is_before: bool) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if is_before:
            patch.setattr(environment_layers, "LEAST_LAYER_BYTES", 1 << 60)
            patch.setattr(runtime_archive.os, "cpu_count", lambda: 1)
        yield


def made(folder: Path, cache: Path, *wanted: str) -> tuple[float, list[Path]]:
    file = folder / "requirements.txt"
    file.write_text("\n".join(wanted))
    began = time.perf_counter()
    recipe = recipe_of(PackedFrom(PackSource.REQUIREMENTS, str(file)), cache, os.environ)
    archives = build_environment(recipe, cache, print, lambda _: nullcontext(NoProgress()))
    return time.perf_counter() - began, archives


def unpacked(folder: Path, archives: list[Path]) -> float:
    """As YARN's localizer does it: gzip and tar, one archive after the other."""
    began = time.perf_counter()
    for archive in archives:
        target = folder / archive.name
        target.mkdir(parents=True)
        subprocess.run(
            ["sh", "-c", 'gzip -dc "$0" | tar -x -C "$1"', str(archive), str(target)], check=True
        )
    return time.perf_counter() - began


def test_first_and_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = tmp_path / "index"
    index.mkdir()
    stand_in(index)
    wheel(index, "tiny")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(index))
    installer = "uv" if package_installer.find_uv() else "pip"
    best: dict[tuple[str, bool], float] = {}
    for turn in range(2):
        for is_before in (True, False):
            cache = tmp_path / f"cache-{turn}-{is_before}"
            (cache / "interpreters").mkdir(parents=True)
            for archive in (CACHE / "interpreters").glob("*"):
                (cache / "interpreters" / archive.name).symlink_to(archive)
            with as_before(is_before):
                first_s, first = made(tmp_path, cache, "large")
                changed_s, changed = made(tmp_path, cache, "large", "tiny")
            new = [path for path in changed if path not in first]
            node = tmp_path / f"node-{turn}-{is_before}"
            figures = {
                "first, made in s": first_s,
                "changed, made in s": changed_s,
                "changed, MB to upload": sum(path.stat().st_size for path in new) / 1e6,
                "first, unpacked in s": unpacked(node / "first", first),
                "changed, unpacked in s": unpacked(node / "changed", new),
            }
            for name, value in figures.items():
                key = (name, is_before)
                best[key] = min(value, best.get(key, value))
    print(f"\n{FILES} files, {MEGABYTES} MB, {installer}:")
    for name in figures:
        before, now = best[name, True], best[name, False]
        print(f"  {name}: {now:.1f}, before {before:.1f}, ratio {now / before:.2f}")
