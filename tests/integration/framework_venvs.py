"""Pythons with one framework each, for the second tier: made once, in the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
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
    "jupyterlab": ("jupyterlab",),
    "horovod": ("setuptools<70", "wheel", "cloudpickle", "psutil", "pyyaml", "packaging", "cffi"),
}
"""From PyPI. Most have tens of megabytes; Paddle 0.8 GB, TensorFlow 1.4, torch 5 with CUDA's."""
BUILT_ON_THEM = {"torch": ("deepspeed",), "horovod": ("horovod==0.28.1",)}
"""Their set-up imports what is in PACKAGES. Horovod's wheel is compiled from its sources, in 3 to 7
minutes on two cores."""
BUILD_ENV = {
    "horovod": {
        "HOROVOD_WITH_GLOO": "1",
        "HOROVOD_WITHOUT_MPI": "1",
        "HOROVOD_WITH_PYTORCH": "1",
        "HOROVOD_WITHOUT_TENSORFLOW": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "MAKEFLAGS": f"-j{os.cpu_count()}",
    }
}
DEBIAN_PYTHON = "/usr/bin/python3"
DEBIAN_PACKAGES = {"horovod": ("python3-torch", "libtorch-dev", "pybind11-dev", "cmake", "g++")}
"""Of the distribution, for its own Python: Horovod does not compile with PyTorch 2's headers."""
NOT_TO_BE_HAD = ("No matching distribution found", "Could not find a version")


def framework_python(name: str) -> Path:
    """The interpreter of a virtual environment with the packages of ``name``. Skips the test where
    one of them is not to be had; raises CalledProcessError when it cannot be installed."""
    _require_debian_packages(DEBIAN_PACKAGES.get(name, ()))
    wanted = (PACKAGES[name], BUILT_ON_THEM.get(name, ()), sys.version)
    key = hashlib.sha256(repr(wanted).encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "yarnam" / "test-frameworks" / f"{name}-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            base = [sys.executable, "-m", "venv", "--clear"]
            if name in DEBIAN_PACKAGES:
                base = [DEBIAN_PYTHON, "-m", "venv", "--clear", "--system-site-packages"]
            subprocess.run([*base, folder / "."], check=True)
            _install(python, *PACKAGES[name])
            if name in BUILT_ON_THEM:
                variables = BUILD_ENV.get(name, {})
                _install(python, "--no-build-isolation", *BUILT_ON_THEM[name], variables=variables)
            (folder / "complete").touch()
    return python


def beside_ours(name: str) -> str:
    """A PYTHONPATH on which this Python has yarnam's packages and those of ``name`` too."""
    python = framework_python(name)
    [site] = python.parents[1].glob("lib/python*/site-packages")
    return os.pathsep.join((str(Path(__file__).parents[2]), str(site)))


def _require_debian_packages(names: Sequence[str]) -> None:
    """Skips the test where one of them is not installed."""
    missing = [name for name in names if not _is_installed(name)]
    if missing:
        pytest.skip(f"apt-get install --no-install-recommends {' '.join(missing)}")


def _is_installed(package: str) -> bool:
    command = ["dpkg-query", "--show", "--showformat", "${db:Status-Status}", package]
    try:
        done = subprocess.run(command, capture_output=True, check=False, text=True)
    except FileNotFoundError:
        return False
    return done.stdout == "installed"


def _install(python: Path, *arguments: str, variables: Mapping[str, str] | None = None) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", *arguments]
    try:
        subprocess.run(
            command, check=True, timeout=INSTALL_S, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **(variables or {})},
        )  # fmt: skip
    except subprocess.CalledProcessError as error:
        sys.stderr.write(error.stderr)
        if any(text in error.stderr for text in NOT_TO_BE_HAD):
            pytest.skip(f"not to be had here: {error.stderr.strip().splitlines()[-1]}")
        raise
