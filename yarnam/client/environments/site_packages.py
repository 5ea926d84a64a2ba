"""Installed packages of this machine: whether they can travel, and how."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import decode_record
from yarnam.client.environments.programs import interpreter_facts as facts_program
from yarnam.errors import BadSpec

FACTS_LIMIT_S = 60.0
"""The time for one start of a Python."""
MAX_FACTS_BYTES = 1 << 16

_SHEBANG = re.compile(rb"\A#!(?:/bin/sh\n'''exec' )?[^\n]*python[^\n]*\n(?:' '''\n)?")
_RELATIVE = b"""#!/bin/sh
'''exec' "$(dirname -- "$(realpath -- "$0")")/python3" "$0" "$@"
' '''
"""
"""uv's start script for relocatable environments: a shell script whose third line on is Python."""


def facts_of(python: Path) -> Mapping[str, str]:
    """``interpreter_facts`` of another Python. Raises BadSpec: it does not run."""
    command = [str(python), "-I", str(facts_program.__file__)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=FACTS_LIMIT_S, check=True)
        plain = decode_record(done.stdout, max_bytes=MAX_FACTS_BYTES).plain
    except (OSError, subprocess.SubprocessError, MalformedData) as error:
        raise BadSpec(f"the Python {python} does not run: {error}") from error
    return {name: str(value) for name, value in plain.items()}


def find_venv(path: str, environ: Mapping[str, str]) -> Path:
    """The directory of ``venv: PATH``, or of the active one. Raises BadSpec."""
    if path == "active":
        path = environ.get("VIRTUAL_ENV", "")
        if not path:
            raise BadSpec(
                "environment: venv: active, but no virtual environment is active",
                hint="Activate it (VIRTUAL_ENV is not set), or give its path.",
            )
    folder = Path(path)
    settings = folder / "pyvenv.cfg"
    if not settings.is_file():
        raise BadSpec(f"environment: {folder} is not a virtual environment: it has no pyvenv.cfg")
    text = settings.read_text(encoding="utf-8", errors="replace")
    if re.search(r"^include-system-site-packages\s*=\s*true\s*$", text, re.M | re.I):
        raise BadSpec(
            f"environment: {folder} uses packages of the system, which the nodes lack",
            hint="Make it without --system-site-packages.",
        )
    return folder


def refuse_what_stays_here(site: Path) -> None:
    """Raises BadSpec with the names of packages that are installed as links to this machine."""
    left = sorted(set(_linked(site)))
    if left:
        raise BadSpec(
            f"environment: installed as a link to this machine: {', '.join(left)}",
            hint="Install without -e (--editable), or ship the package with `code:`.",
        )


def _linked(site: Path) -> Iterator[str]:
    for link in site.glob("*.egg-link"):
        yield link.stem
    for record in site.glob("*.dist-info/direct_url.json"):
        if re.search(rb'"editable"\s*:\s*true', record.read_bytes()):
            yield record.parent.name.partition("-")[0]
    for hook in site.glob("*.pth"):
        lines = hook.read_text(encoding="utf-8", errors="replace").splitlines()
        if any(line.startswith("/") and not line.startswith(str(site)) for line in lines):
            yield hook.stem.removeprefix("__editable__.").removeprefix("_editable_impl_")


def fingerprint(folders: Sequence[Path]) -> str:
    """Changes with the name, the size or the time of any file."""
    digest = hashlib.sha256()
    for folder in folders:
        for where, below, files in os.walk(folder):
            below[:] = sorted(name for name in below if name != "__pycache__")
            for name in sorted(files):
                status = os.lstat(f"{where}/{name}")
                text = f"{where}/{name}\0{status.st_size}\0{status.st_mtime_ns}\n"
                digest.update(text.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def copy_packages(site: Path, target: Path, ignored: Sequence[str] = ()) -> None:
    """Merge a directory of packages into another. Raises BadSpec."""
    ignore = shutil.ignore_patterns("__pycache__", *ignored)
    try:
        shutil.copytree(site, target, symlinks=True, ignore=ignore, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        raise BadSpec(f"cannot copy {site}: {error}") from error


def copy_scripts(source: Path, target: Path) -> None:
    """The programs of an environment that are Python scripts, not its interpreters."""
    for program in sorted(source.iterdir()):
        if program.is_file() and not program.is_symlink() and not (target / program.name).exists():
            with program.open("rb") as stream:
                if stream.read(2) == b"#!":
                    shutil.copy(program, target)


def make_scripts_relative(folder: Path) -> None:
    """Programs that name the interpreter of this machine run the one beside them instead."""
    for program in folder.iterdir():
        if program.is_file() and not program.is_symlink():
            content = program.read_bytes()
            if found := _SHEBANG.match(content):
                program.write_bytes(_RELATIVE + content[found.end() :])
