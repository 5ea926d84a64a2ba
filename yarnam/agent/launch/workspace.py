"""The directory in which the user's processes start, and the Python that they find there."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from yarnam.agent.task_config import TaskJob
from yarnam.wire.protocol import LAYER_PREFIX, LOCAL_CODE, LOCAL_ENVIRONMENT

WORK = "work"
BIN = ".yarnam-bin"
TONYS_ENVIRONMENT = "venv"
PYTHON_NAMES = ("python", "python3")
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class UserPython(NamedTuple):
    """``path`` is None when there is none; ``problem`` then names what was searched."""

    path: Path | None
    problem: str = ""


class Workspace(NamedTuple):
    directory: Path
    bin_directory: Path
    python: UserPython


def make_workspace(container: Path, job: TaskJob, path: str) -> Workspace:
    """A fresh ``work`` directory: a link to each shipped file, one to each entry of ``code/``,
    and a directory with ``python`` and ``python3`` that run the job's own. ``path`` is the PATH
    where a bare name is looked up. Raises OSError (disk full)."""
    work = container / WORK
    if work.exists():
        shutil.rmtree(work)
    work.mkdir()
    for name in job.files:
        if (container / name).exists():
            link = work / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(container / name)
    code = container / LOCAL_CODE
    if LOCAL_CODE in job.files and code.is_dir():
        for entry in code.iterdir():
            link = work / entry.name
            # A file that was shipped under this name was named on purpose: it wins.
            if not link.is_symlink():
                link.symlink_to(entry)
    tonys = work / TONYS_ENVIRONMENT
    if job.is_tonys and job.has_environment and not tonys.is_symlink():
        tonys.symlink_to(container / LOCAL_ENVIRONMENT)
    python = find_python(container, job, path)
    bin_directory = container / BIN
    bin_directory.mkdir(exist_ok=True)
    if python.path is not None:
        for name in PYTHON_NAMES:
            _write_wrapper(bin_directory / name, python.path)
    return Workspace(work, bin_directory, python)


def find_python(container: Path, job: TaskJob, path: str) -> UserPython:
    """The interpreter of ``environment.python``: inside the unpacked archive if there is one,
    a path as it stands (relative ones from the container's directory), else a name on PATH."""
    name = job.python
    if job.has_environment and not name.startswith("/"):
        root = container / LOCAL_ENVIRONMENT
        inner = name if "/" in name else f"bin/{name}"
        # Archives of a directory (tar cf env.tar env) have one level more than packed ones.
        for candidate in (root / inner, *sorted(root.glob(f"*/{inner}"))):
            if os.access(candidate, os.X_OK):
                return UserPython(candidate)
        return UserPython(None, f"the environment's archive holds no {inner}")
    if "/" in name:
        candidate = container / name
        if os.access(candidate, os.X_OK) and candidate.is_file():
            return UserPython(candidate)
        return UserPython(None, f"{candidate} is not an executable file")
    found = shutil.which(name, path=path)
    if found is None:
        return UserPython(None, f"{name} is not on PATH ({path})")
    return UserPython(Path(found))


def layers_of(container: Path) -> list[str]:
    """The unpacked layers of the environment, whose interpreter adds them to its path."""
    return sorted(str(path) for path in container.glob(f"{LAYER_PREFIX}*"))


def _write_wrapper(wrapper: Path, python: Path) -> None:
    # Not a link: an interpreter that is started through a link elsewhere loses its venv.
    wrapper.unlink(missing_ok=True)
    wrapper.write_text(f'#!/bin/sh\nexec {shlex.quote(str(python))} "$@"\n')
    wrapper.chmod(0o755)


def search_path(workspace: Workspace, env: Mapping[str, str]) -> str:
    """PATH for the user's processes: the wrappers, the interpreter's own directory (its console
    scripts) unless PATH has it, then what container or job set."""
    rest = env.get("PATH") or DEFAULT_PATH
    parts = [str(workspace.bin_directory)]
    if workspace.python.path is not None:
        own = str(workspace.python.path.parent)
        if own not in rest.split(":"):
            parts.append(own)
    return ":".join([*parts, rest])


class Program(NamedTuple):
    """The program to execute; ``problem`` is set if there is none."""

    path: str
    argv: tuple[str, ...]
    problem: str = ""


def find_program(workspace: Workspace, command: tuple[str, ...], path: str) -> Program:
    """Find the command as a shell would. Arguments are not touched; ``python`` itself becomes
    the interpreter's full path, because Python finds its environment by its own name."""
    name = command[0]
    if name in PYTHON_NAMES:
        python = workspace.python
        if python.path is None:
            return Program("", command, f"command not found: {name!r}: {python.problem}")
        return Program(str(python.path), (str(python.path), *command[1:]))
    if "/" in name:
        program = workspace.directory / name
        return Program(str(program), command, _problem(program, name))
    found = shutil.which(name, path=path)
    if found is None:
        here = workspace.directory / name
        hint = f"; it is in the working directory: write ./{name}" if here.exists() else ""
        return Program("", command, f"command not found: {name!r} is not on PATH ({path}){hint}")
    return Program(found, command)


def _problem(program: Path, name: str) -> str:
    if not program.exists():
        return f"command not found: {name!r}: there is no {program}"
    if program.is_dir():
        return f"command not found: {name!r}: {program} is a directory"
    if not os.access(program, os.X_OK):
        return f"command not executable: {name!r}: {program} has no execute permission"
    return ""
