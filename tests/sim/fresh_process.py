"""What a program prints in a process of its own, with a hash seed of its own."""

from __future__ import annotations

import os
import subprocess
import sys


def printed(program: str, *arguments: str, hash_seed: str, limit_s: float = 300.0) -> str:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=True,
    ).stdout
