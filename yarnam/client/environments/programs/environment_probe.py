"""Runs in the job's own Python in a container: prints one line of JSON about it. Imports nothing of
yarnam, and works from Python 3.8 on. Arguments: the modules to import."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import platform
import subprocess
import sys
from typing import Any

MARK = "yarnam-env-check: "
GPU_LIMIT_S = 60


def main() -> None:
    quiet = io.StringIO()
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        modules = {name: imported(name) for name in sys.argv[1:]}
        gpus = {"driver": driver_gpus(), "torch": torch_gpus(), "jax": jax_gpus()}
    found = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "node": platform.node(),
        "modules": modules,
        "gpus": {name: seen for name, seen in gpus.items() if seen is not None},
    }
    os.write(1, f"{MARK}{json.dumps(found)}\n".encode())


def imported(name: str) -> dict[str, str]:
    """Its version, empty if it has none; or why it does not load."""
    try:
        module = importlib.import_module(name)
    except BaseException as error:  # noqa: BLE001 - foreign code may raise and exit as it likes
        return {"error": f"{type(error).__name__}: {error}"}
    return {"version": str(getattr(module, "__version__", ""))}


def driver_gpus() -> list[str] | None:
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, check=True, capture_output=True, timeout=GPU_LIMIT_S)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace").splitlines()


def torch_gpus() -> list[str] | None:
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None
    try:
        return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    except Exception as error:  # noqa: BLE001 - what a driver raises is the finding
        return [f"{type(error).__name__}: {error}"]


def jax_gpus() -> list[str] | None:
    jax: Any = sys.modules.get("jax")
    if jax is None:
        return None
    try:
        return [str(device) for device in jax.devices()]
    except Exception as error:  # noqa: BLE001 - what a driver raises is the finding
        return [f"{type(error).__name__}: {error}"]


if __name__ == "__main__":
    main()
