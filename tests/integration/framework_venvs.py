"""Pythons with one framework each, for the second tier: made once, in the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

INSTALL_S = 900
PACKAGES = {
    "openmpi": ("openmpi", "mpi4py", "numpy"),
    "mpich": ("mpich", "mpi4py", "numpy"),
    "xgboost": ("xgboost-cpu", "scikit-learn"),
    "lightgbm": ("lightgbm", "scikit-learn"),
    "dask": ("distributed", "numpy"),
    "ray": ("ray",),
    "mlflow": ("mlflow-skinny",),
    "torchx": ("torchx",),
    "paddle": ("paddlepaddle", "setuptools"),
}
"""From PyPI, small ones: tens of megabytes each, but for Ray, and for Paddle with 800."""


def framework_python(name: str) -> Path:
    """The interpreter of a virtual environment with the packages of ``name``. Raises
    CalledProcessError when they cannot be installed."""
    key = hashlib.sha256(repr((PACKAGES[name], sys.version)).encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "yarnam" / "test-frameworks" / f"{name}-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder / "."], check=True)
            install = [python, "-m", "pip", "install", "--quiet", *PACKAGES[name]]
            subprocess.run(install, check=True, timeout=INSTALL_S)
            (folder / "complete").touch()
    return python
