"""Apache Submarine 0.6 and older: the YAML file of ``submarine job run -f``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from yarnam.errors import BadSpec
from yarnam.spec.importers.conversion import (
    Conversion,
    Source,
    assignments,
    flat,
    job_name,
    listed,
    mapping,
    memory,
    queue_name,
    role_name,
)

FRAMEWORKS = {"tensorflow": "tensorflow", "pytorch": "pytorch"}
_DROPPED = {
    r"spec\.job_type": "yarnam runs distributed training alone",
    r"configs\.(docker_image|mounts)": "yarnam starts no container images yet",
    r"configs\.(quicklinks|wait_job_finish)": "of Submarine's client: see `yarnam submit --watch`",
    r"roles\.[^.]+\.(docker_image|mounts)": "yarnam starts no container images yet",
    r"security\..*": "yarnam takes the ticket or the tokens of the submitting user",
    r"tensor_?[bB]oard\..*": "run `yarnam tensorboard JOB` beside the job",
}
"""Patterns of the keys that are dropped, and why."""


def convert(document: Mapping[str, Any], what: str) -> Conversion:
    """The spec of a Submarine job. Raises BadSpec: unknown keys, or no roles."""
    names = mapping(f"{what}: roles", document.get("roles"))
    if not names:
        raise BadSpec(f"{what} has no roles")
    source = Source(what, flat(document))
    framework = str(source.take("spec.framework", "")).lower()
    inputs, saved = source.take("configs.input_path"), source.take("configs.saved_model_path")
    checkpoint = source.take("configs.checkpoint_path")
    roles = {role_name(name): _role(source, name) for name in names}
    for pattern, why in _DROPPED.items():
        source.drop_all(pattern, why)
    spec: dict[str, Any] = {
        "version": 1,
        "name": job_name(str(source.take("spec.name", "submarine"))),
        "queue": queue_name(str(source.take("scheduling.queue", "default"))),
        "framework": FRAMEWORKS.get(framework, "command"),
        "env": _env(source, "configs.envs"),
        "files": _files(source, "configs.localizations"),
        "roles": roles,
        "data": {"inputs": [{"path": inputs, "name": "input"}]} if inputs else {},
        "checkpoint": {"directory": checkpoint} if checkpoint else {},
    }
    if saved:
        spec["data"]["outputs"] = {"path": saved}
    spec["files"] += [file for role in roles.values() for file in role.pop("files")]
    return source.finish(spec)


def _role(source: Source, name: str) -> dict[str, Any]:
    prefix = f"roles.{name}."
    amounts = assignments(
        f"{source.what}: {prefix}resources", str(source.take(f"{prefix}resources", ""))
    )

    def count(name: str, default: str) -> int:
        text = amounts.get(name, default)
        if not text.isdecimal():
            raise BadSpec(f"{source.what}: {prefix}resources: {name} is {text!r}, no whole number")
        return int(text)

    role: dict[str, Any] = {
        "tasks": source.whole(f"{prefix}replicas", 1),
        "memory": memory(amounts.get("memory", "2g")),
        "vcores": count("vcores", "1"),
        "gpus": count("gpu", amounts.get("yarn.io/gpu", "0")),
        "processes": "per-task",
        "env": _env(source, f"{prefix}envs"),
        "command": source.take(f"{prefix}launch_cmd"),
        "files": _files(source, f"{prefix}localizations"),
    }
    if not role["command"]:
        raise BadSpec(f"{source.what}: the role {name} has no launch_cmd")
    return {key: value for key, value in role.items() if value != {}}


def _env(source: Source, key: str) -> dict[str, str]:
    """A list of ``NAME=VALUE``, or a mapping, which came apart into its keys."""
    found = {}
    for one in listed(f"{source.what}: {key}", source.take(key) or None):
        found.update(assignments(f"{source.what}: {key}", str(one), separator="\n"))
    for name in [name for name in source.values if name.startswith(f"{key}.")]:
        found[name.removeprefix(f"{key}.")] = str(source.take(name))
    return found


def _files(source: Source, key: str) -> list[dict[str, Any]]:
    """``remote:local[:access]`` each, where the remote side may be a URI."""
    found = []
    for one in listed(f"{source.what}: {key}", source.take(key)):
        remote, _, local = re.sub(r":r[wo]?$", "", str(one)).rpartition(":")
        file = {"source": remote} if remote else {"source": local}
        if remote and local not in (".", "./*"):
            file["name"] = local.removeprefix("./")
        found.append(file)
    return found
