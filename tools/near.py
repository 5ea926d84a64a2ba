"""``make near``: the checks and tests of what the working tree changed and of what imports it.

Usage: ``python -m tools.near [--against COMMIT] [--seconds N] [--list]``. Tests are chosen by what
they import: first those of the changed modules themselves, then those of the modules that import
them. As many run as are expected to end in time, by how long each file took last time; the others
are named with an estimate. Nothing here replaces ``make check unit``.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("yarnam", "hdfs_utils", "skein_specs")
CACHE = ROOT / ".import_linter_cache"
DURATIONS = ROOT / ".pytest_cache/v/yarnam/durations"
"""Seconds of each test file when it last ran; ``tests/conftest.py`` keeps them."""

UNKNOWN_S = 1.5
"""Of a file that has never run here. Ours, the median of all."""

SHARED = ("tests/conftest.py", "pyproject.toml", "tools/")
"""What concerns all tests: only ``make check unit`` answers for it."""


def run(*arguments: str) -> str:
    return subprocess.run(arguments, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def changed_files(against: str) -> list[str]:
    """Tracked files that differ from the commit, and new ones."""
    differ = run("git", "diff", "--name-only", against, "--").splitlines()
    new = run("git", "ls-files", "--others", "--exclude-standard").splitlines()
    return sorted({*differ, *new})


def module_of(path: str) -> str:
    name = path.removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


def imported_by(path: Path) -> set[str]:
    """The modules that a test file imports, and the names that may be modules."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def ranked_tests(changed: Iterable[str]) -> list[tuple[int, str]]:
    """Test files with their distance from the change: 0 for tests that changed, 1 for those of the
    changed modules, 2 for those of the modules that import them."""
    changed = list(changed)
    graph = grimp.build_graph(*PACKAGES, cache_dir=str(CACHE))
    modules = {module_of(path) for path in changed if path.startswith(PACKAGES)}
    known = modules & graph.modules
    importers = {one for module in known for one in graph.find_modules_that_directly_import(module)}
    folders = {f"tests/unit/{'/'.join(p.split('/')[1:-1])}" for p in changed if p[:7] == "yarnam/"}
    folders = {folder.replace("tests/unit/core/", "tests/unit/") for folder in folders}
    ranks: list[tuple[int, str]] = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.split("/")[1] not in {"unit", "property", "sim", "golden", "contract"}:
            continue
        if name in changed:
            ranks.append((0, name))
            continue
        imports = imported_by(path)
        if imports & modules or any(name.startswith(f"{folder}/") for folder in folders):
            ranks.append((1, name))
        elif imports & importers:
            ranks.append((2, name))
    return sorted(ranks)


def durations() -> dict[str, float]:
    try:
        found = json.loads(DURATIONS.read_text())
    except (OSError, ValueError):
        return {}
    return {str(name): float(seconds) for name, seconds in found.items()}


def within(
    ranked: list[tuple[int, str]], took_s: dict[str, float], limit_s: float
) -> tuple[list[str], list[str]]:
    """The files to run now, nearest and shortest first, and those that are left out. Tests that
    changed run in any case."""
    chosen, left, sum_s = [], [], 0.0
    for rank, name in sorted(ranked, key=lambda one: (one[0], took_s.get(one[1], UNKNOWN_S))):
        sum_s += took_s.get(name, UNKNOWN_S)
        (chosen if rank == 0 or sum_s <= limit_s else left).append(name)
    return chosen, left


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--against", default="HEAD", help="the commit to compare with")
    parser.add_argument("--seconds", type=float, default=40.0, help="for the tests, about")
    parser.add_argument("--list", action="store_true", help="name the tests, and run nothing")
    options = parser.parse_args()
    began_s, changed = time.monotonic(), changed_files(options.against)
    if not changed:
        print(f"near: nothing differs from {options.against}")
        return 0
    took_s = durations()
    chosen, left = within(ranked_tests(changed), took_s, options.seconds)
    if options.list:
        print("\n".join(chosen))
        return 0
    bin_dir = Path(sys.executable).parent
    sources = [path for path in changed if path.endswith(".py") and (ROOT / path).exists()]
    checks = [[str(bin_dir / "mypy")], [str(bin_dir / "lint-imports"), "--no-logo"]]
    if sources:
        checks += [
            [str(bin_dir / "ruff"), *verb, *sources] for verb in (["check"], ["format", "--check"])
        ]
    running = [
        subprocess.Popen(check, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for check in checks
    ]
    codes = []
    if chosen:
        tests = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal"]
        marks = ["-m", "not (yarn or hdfs or zookeeper or long or benchmark or gpu or browser)"]
        codes.append(subprocess.run([*tests, *marks, *chosen], cwd=ROOT, check=False).returncode)
    for check, process in zip(checks, running, strict=True):
        output, _ = process.communicate()
        if process.returncode:
            print(f"=== {' '.join(check[:3])}\n{output.decode()}")
        codes.append(process.returncode)
    if left:
        rest_s = sum(took_s.get(name, UNKNOWN_S) for name in left)
        print(f"near: {len(left)} files of tests were left out, about {rest_s / 60:.1f} min")
        print("near: --seconds 9999 runs them too; so does make check unit")
    if any(path.startswith(SHARED) for path in changed):
        print("near: the change concerns all tests; run make check unit")
    print(f"near: {len(chosen)} files of tests, {time.monotonic() - began_s:.0f} s")
    return max((code for code in codes if code != 5), default=0)  # 5: no test was chosen


if __name__ == "__main__":
    sys.exit(main())
