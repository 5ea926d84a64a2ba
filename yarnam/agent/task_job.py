"""The part of the job's record that one task needs.

Read from plain JSON: structuring the whole record would load a quarter of the agent's memory and
half of its start-up time for a handful of fields. A test holds it against ``wire.records``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yarnam.errors import BadConfig, WireMismatch
from yarnam.wire.protocol import RECORD_VERSION


@dataclass(frozen=True, slots=True)
class TaskJob:
    """Times in seconds. ``env`` is the job's and the role's, secrets filled in."""

    name: str
    user: str
    framework: str
    role: str
    command: tuple[str, ...]
    processes: int
    gpus: int
    port_labels: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    files: tuple[str, ...]
    """Names of the shipped files in the container's directory."""
    python: str
    has_environment: bool
    """An archive with the user's Python is unpacked as ``environment``."""
    has_inputs: bool
    is_staged: bool
    """Some of them are brought to the node."""
    cache_max_bytes: int
    """0: as the node's disks allow."""
    readers: tuple[tuple[str, int], ...]
    """Roles and the processes of all their tasks, as the spec has them."""
    spool_limit_s: float
    """How long a checkpoint may wait on the node's disk; 0: none does."""
    orphan_timeout_s: float
    stop_grace_s: float


def read_task_job(record: Path, secrets: Path, role: str, service: str) -> TaskJob:
    """Raises BadConfig (file missing or damaged) and WireMismatch (another version wrote it)."""
    plain = _read_json(record)
    if plain.get("version") != RECORD_VERSION:
        raise WireMismatch(
            f"{record.name} has version {plain.get('version')}, this agent reads {RECORD_VERSION}",
            hint="Client and runtime are of two versions of yarnam: submit with the same one.",
        )
    values = _read_json(secrets) if secrets.exists() else {}
    try:
        return _task_job(plain, values, role, service)
    except (KeyError, TypeError, StopIteration) as error:
        raise WireMismatch(f"{record.name} does not describe role {role!r}: {error!r}") from error


def _task_job(
    record: Mapping[str, Any], secrets: Mapping[str, str], role_name: str, service: str
) -> TaskJob:
    job = record["job"]
    role = next(role for role in job["roles"] if role["name"] == role_name)
    # The planner may have chosen another shape than the spec: the target is what was asked for.
    target = next((t for t in record["targets"] if service and t["service"] == service), None)
    size = target or role
    env = dict((*job["env"], *role["env"]))
    return TaskJob(
        name=job["name"],
        user=job["user"],
        framework=job["framework"],
        role=role["name"],
        command=tuple(role["command"]),
        processes=int(size["processes_per_task"]),
        gpus=int(size["resources"]["gpus"]),
        port_labels=tuple(role["ports"]),
        env=tuple((env | dict(secrets)).items()),
        files=tuple(shipped["name"] for shipped in job["files"]),
        python=job["environment"]["python"],
        has_environment=bool(job["environment"]["archive"]),
        has_inputs=bool(job["inputs"]),
        is_staged=any(given["mode"] != "stream" for given in job["inputs"]),
        cache_max_bytes=int(job["staging"]["cache_max_mib"]) << 20,
        readers=tuple((r["name"], r["tasks"] * r["processes_per_task"]) for r in job["roles"]),
        spool_limit_s=float(job["checkpoint"]["spool_limit_s"]),
        orphan_timeout_s=float(job["am"]["orphan_timeout_s"]),
        stop_grace_s=float(job["am"]["stop_grace_s"]),
    )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        plain = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise BadConfig(
            f"cannot read {path}: {error}",
            hint="YARN makes this file from the job's directory on HDFS; submit the job again.",
        ) from error
    if not isinstance(plain, dict):
        raise BadConfig(f"{path} does not hold a JSON object")
    return plain
