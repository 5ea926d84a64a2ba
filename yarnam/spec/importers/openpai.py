"""OpenPAI: a job of protocol version 2 (``config/v2/protocol.js`` of its REST server)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from yarnam.errors import BadSpec
from yarnam.spec.importers.conversion import (
    Conversion,
    Source,
    flat,
    job_name,
    mapping,
    queue_name,
    role_name,
)

_PARAMETER = re.compile(r"<%\s*\$(parameters|secrets)\.([A-Za-z0-9_]+)\s*%>")
_OTHER = re.compile(r"<%.*?%>")

_DROPPED = {
    r"(type|contributor|description)": "it says nothing of how the job runs",
    r"prerequisites": "yarnam starts no container images yet; inputs belong into `data.inputs`",
    r"deployments|defaults\.deployment": "commands before and after belong into `command`",
    r"extras\.hivedScheduler\..*": "`placement.gpu_model` and `gang.priority` say that here",
    r"extras\.submitFrom|extras\.com\.microsoft.*|extras\.tensorBoard.*": "of OpenPAI's web portal",
    r"taskRoles\.[^.]+\.(dockerImage|data|script|output)": "yarnam starts no container images yet",
    r"taskRoles\.[^.]+\.extraContainerOptions\..*": "of container images",
    r"taskRoles\.[^.]+\.prerequisites": "yarnam starts no container images yet",
    r"taskRoles\.[^.]+\.completion\..*": "a failed task of any role ends the gang, which has "
    "succeeded when all tasks have",
    r"taskRoles\.[^.]+\.taskRetryCount": "a gang is restarted as a whole: see `retry`",
}
"""Patterns of the keys that are dropped, and why."""


def convert(document: Mapping[str, Any], what: str) -> Conversion:
    """The spec of an OpenPAI job. Raises BadSpec: unknown keys, or another version."""
    if document.get("protocolVersion") not in (2, "2"):
        raise BadSpec(f"{what}: protocolVersion is not 2", hint="Older versions are not converted.")
    parameters = mapping(f"{what}: parameters", document.get("parameters"))
    secrets = mapping(f"{what}: secrets", document.get("secrets"))
    plain = {k: v for k, v in document.items() if k not in ("parameters", "secrets")}
    source = Source(what, flat(plain))
    source.take("protocolVersion")
    retries = source.whole("jobRetryCount", 0)
    names = mapping(f"{what}: taskRoles", document.get("taskRoles"))
    if not names:
        raise BadSpec(f"{what} has no taskRoles")
    roles = {role_name(name): _role(source, name, parameters) for name in names}
    if source.take("extras.gangAllocation", True) not in (True, "true"):
        source.values["extras.gangAllocation"] = False
        source.drop("extras.gangAllocation", "a gang starts together, or not at all")
    for pattern, why in _DROPPED.items():
        source.drop_all(pattern, why)
    spec = {
        "version": 1,
        "name": job_name(str(source.take("name", "openpai"))),
        "queue": queue_name(str(source.take("defaults.virtualCluster", "default"))),
        # The secrets are the submitting user's: not one of them is written into the spec.
        "env": {name: {"from": "client"} for name in secrets},
        "roles": roles,
        "retry": {"max_restarts": retries} if retries > 0 else {},
    }
    return source.finish(spec)


def _role(source: Source, name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    prefix = f"taskRoles.{name}."
    commands = source.take(f"{prefix}commands")
    if not isinstance(commands, list) or not commands:
        raise BadSpec(f"{source.what}: the task role {name} has no commands")
    resources = f"{prefix}resourcePerInstance."
    ports = [
        key.removeprefix(f"{resources}ports.").lower()
        for key in source.values
        if key.startswith(f"{resources}ports.")
    ]
    for port in [key for key in source.values if key.startswith(f"{resources}ports.")]:
        source.take(port)
    role: dict[str, Any] = {
        "tasks": source.whole(f"{prefix}instances", 1),
        "gpus": source.whole(f"{resources}gpu", 0),
        "vcores": source.whole(f"{resources}cpu", 1),
        "memory": f"{source.whole(f'{resources}memoryMB', 2048)}MiB",
        "processes": "per-task",
        # One line for the shell; the first command that fails ends the task.
        "command": " && ".join(_filled(source.what, str(one), parameters) for one in commands),
    }
    if ports:
        role["ports"] = ports
    return role


def _filled(what: str, text: str, parameters: Mapping[str, Any]) -> str:
    def value(found: re.Match[str]) -> str:
        kind, name = found.groups()
        if kind == "secrets":
            return f"${{{name}}}"
        if name not in parameters:
            raise BadSpec(f"{what}: the parameter {name} is not set")
        return str(parameters[name])

    filled = _PARAMETER.sub(value, text)
    if left := _OTHER.search(filled):
        raise BadSpec(f"{what}: {left[0]} cannot be converted")
    return filled
