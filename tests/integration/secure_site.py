"""A small cluster with Kerberos, and yarnam's commands as a user of it types them: who asks is in
the environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from yarnam.cluster import EmbeddedCluster
from yarnam.cluster.shape import ClusterShape

COMMAND_S = 300
"""For a command that follows a job to its end on a busy machine."""

# A busy machine may take a minute to start the Java of an ApplicationMaster.
_PATIENT = {"yarn.am.liveness-monitor.expiry-interval-ms": "300000"}


@contextmanager
def secure_cluster(
    folder: Path, overrides: Mapping[str, Mapping[str, str]] | None = None, **shape: Any
) -> Iterator[EmbeddedCluster]:
    """One node; it leaves nothing."""
    sites = {**(overrides or {})}
    sites["yarn-site"] = {**sites.get("yarn-site", {}), **_PATIENT}
    cluster = EmbeddedCluster(
        ClusterShape(nodes=1, racks=1, secure=True, overrides=sites, **shape),
        name=f"secure-{os.getpid()}",
        state_root=folder,
        shared_machine=True,
    )
    try:
        cluster.up()
        yield cluster
        # The daemons live still: a secure NodeManager without a native library may end itself.
        assert cluster.status().problems == ()
    finally:
        cluster.down()
    assert cluster.processes() == []
    assert not cluster.paths.root.exists()


def become_alice(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is alice, whoever the account is, by her keytab."""
    for name, value in cluster.environ("alice").items():
        monkeypatch.setenv(name, value)


def yarnam(*command: str) -> str:
    """What a command prints that ends well."""
    return run(*command).stdout


def run(*command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A command that ends well."""
    done = attempt(*command, **environ)
    assert done.returncode == 0, (command, done.stdout[-3000:], done.stderr[-3000:])
    return done


def attempt(*command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A command that may fail."""
    return subprocess.run(
        [sys.executable, "-m", "yarnam", *command],
        env={**os.environ, **environ},
        capture_output=True, text=True, timeout=COMMAND_S, check=False,
    )  # fmt: skip


def await_state(
    application: str, state: str, limit_s: float, *, attempt: int = 0
) -> dict[str, Any]:
    """The first status so, of this attempt at least."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        found: dict[str, Any] = json.loads(yarnam("status", application, "--json"))
        if found["state"] == state and found["attempt"] >= attempt:
            return found
        assert not found["verdict"], found["verdict"]
        time.sleep(1)
    raise AssertionError(f"{application} is not {state} within {limit_s:g} s")
