"""Pythons with one framework each, for the second tier: made once, in the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

INSTALL_S = 3000
"""torch takes half a minute on a quiet machine, half an hour on a very busy one."""
PACKAGES = {
    "openmpi": ("openmpi", "mpi4py", "numpy"),
    "mpich": ("mpich", "mpi4py", "numpy"),
    "xgboost": ("xgboost-cpu", "scikit-learn"),
    "lightgbm": ("lightgbm", "scikit-learn"),
    "dask": ("distributed", "numpy"),
    "ray": ("ray",),
    "mlflow": ("mlflow-skinny",),
    "torchx": ("torchx",),
    "pex": ("pex",),
    "paddle": ("paddlepaddle", "setuptools"),
    "keras": ("jax", "keras", "scikit-learn"),
    "tensorflow": ("tensorflow-cpu", "scikit-learn"),
    "torch": (
        *("torch", "accelerate", "transformers", "pytorch-lightning", "scikit-learn", "fsspec"),
        *("setuptools", "wheel", "ninja"),
    ),
    "prefect": ("prefect",),
    "dagster": ("dagster",),
    "notebook": ("ipywidgets", "nbclient", "ipykernel", "jupyter-core"),
}
"""From PyPI. Most have tens of megabytes; Paddle 0.8 GB, TensorFlow 1.4, torch 5 with CUDA's."""
BUILT_ON_THEM = {"torch": ("deepspeed",)}
"""Their set-up imports what is in PACKAGES."""
NOT_TO_BE_HAD = ("No matching distribution found", "Could not find a version")


def framework_python(name: str) -> Path:
    """The interpreter of a virtual environment with the packages of ``name``. Skips the test where
    one of them is not to be had; raises CalledProcessError when it cannot be installed."""
    wanted = (PACKAGES[name], BUILT_ON_THEM.get(name, ()), sys.version)
    key = hashlib.sha256(repr(wanted).encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "yarnam" / "test-frameworks" / f"{name}-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder / "."], check=True)
            _install(python, *PACKAGES[name])
            if name in BUILT_ON_THEM:
                _install(python, "--no-build-isolation", *BUILT_ON_THEM[name])
            (folder / "complete").touch()
    return python


def beside_ours(name: str) -> str:
    """A PYTHONPATH on which this Python has yarnam's packages and those of ``name`` too."""
    python = framework_python(name)
    [site] = python.parents[1].glob("lib/python*/site-packages")
    return os.pathsep.join((str(Path(__file__).parents[2]), str(site)))


def _install(python: Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", *arguments]
    try:
        subprocess.run(command, check=True, timeout=INSTALL_S, stderr=subprocess.PIPE, text=True)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(error.stderr)
        if any(text in error.stderr for text in NOT_TO_BE_HAD):
            pytest.skip(f"not to be had here: {error.stderr.strip().splitlines()[-1]}")
        raise
