"""Install packages into the copy of an interpreter: by uv if there is one, else by pip."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from yarnam.client.environments.requirement_files import RequirementLine, lines_named_in
from yarnam.errors import BadConfig, BadSpec

INSTALL_LIMIT_S = 3600.0
"""The time for resolving, downloading and unpacking: a full PyTorch with CUDA is 4.8 GB."""

MOST_LINES = 12
"""The last lines of an installer's output that are shown."""

_INSTALL_UV = "Install uv: pip install 'yarnam[environments]'"


def find_uv() -> str:
    """The path of uv; empty if it is not installed."""
    beside = Path(sysconfig.get_path("scripts")) / "uv"
    return str(beside) if beside.exists() else shutil.which("uv") or ""


def install(
    python: Path, file: Path, lines: Sequence[RequirementLine], *, with_hashes: bool
) -> None:
    """Install what ``file`` names into the prefix of ``python``. Raises BadSpec with the lines that
    the installer complains of, and BadConfig: there is no installer, or it does not end."""
    if uv := find_uv():
        command = [uv, "pip", "install", "--python", str(python), "--break-system-packages"]
        command += ["--quiet", "--link-mode", "copy"]  # the cache's own files stay as they are
    elif file.suffix == ".toml":
        raise BadSpec(f"{file.name} can be read by uv only, and there is none", hint=_INSTALL_UV)
    elif _has_pip():
        command = [sys.executable, "-m", "pip", "--python", str(python), "install"]
        command += ["--no-compile", "--disable-pip-version-check", "--no-input", "--quiet"]
    else:
        raise BadConfig("there is neither uv nor pip to install packages", hint=_INSTALL_UV)
    hashes = ["--require-hashes"] if with_hashes else []
    run_installer([*command, *hashes, "-r", str(file)], file, lines)


def _has_pip() -> bool:
    # Looking for the module runs what setuptools hangs into imports, which warns.
    try:
        distribution("pip")
    except PackageNotFoundError:
        return False
    return True


def export_uv_lock(lock: Path, target: Path) -> None:
    """``uv.lock`` as a requirements file with hashes, without the project itself. Raises BadSpec if
    there is no uv, or the lock does not match ``pyproject.toml``."""
    if not (uv := find_uv()):
        raise BadSpec(f"{lock.name} can be read by uv only, and there is none", hint=_INSTALL_UV)
    command = [uv, "export", "--locked", "--no-emit-project", "--no-dev", "--quiet"]
    command += ["--project", str(lock.parent), "--output-file", str(target)]
    run_installer(command, lock, [])


def run_installer(command: Sequence[str], file: Path, lines: Sequence[RequirementLine]) -> None:
    """Run it to its end in the directory of ``file``; see ``install`` for the errors."""
    env = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED}
    try:
        done = subprocess.run(
            command, env=env, cwd=file.parent, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="replace", timeout=INSTALL_LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise BadConfig(f"{command[0]} did not end within {INSTALL_LIMIT_S:.0f} s") from error
    except OSError as error:
        raise BadConfig(f"cannot run {command[0]}: {error}") from error
    if done.returncode == 0:
        return
    said = done.stderr.strip() or done.stdout.strip()
    named = [str(line) for line in lines_named_in(said, list(lines))]
    last = said.splitlines()[-MOST_LINES:]
    raise BadSpec("\n".join([f"cannot make the environment of {file}:", *named, *last]))


_NOT_PASSED = frozenset({"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "CONDA_PREFIX"})
"""They name another environment than the one that is made."""
