"""yarnam's commands, as a user of a secure site types them: who asks is in the environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

COMMAND_S = 300
"""For a command that follows a job to its end on a busy machine."""


def yarnam(*command: str) -> str:
    """What a command prints that ends well."""
    return run(*command).stdout


def run(*command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A command that ends well."""
    done = subprocess.run(
        [sys.executable, "-m", "yarnam", *command],
        env={**os.environ, **environ},
        capture_output=True, text=True, timeout=COMMAND_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (command, done.stdout[-3000:], done.stderr[-3000:])
    return done


def await_state(application: str, state: str, limit_s: float) -> dict[str, Any]:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        found: dict[str, Any] = json.loads(yarnam("status", application, "--json"))
        if found["state"] == state:
            return found
        assert not found["verdict"], found["verdict"]
        time.sleep(1)
    raise AssertionError(f"{application} is not {state} within {limit_s:g} s")
