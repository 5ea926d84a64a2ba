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
from yarnam.spec.importers.openpai_policies import hived_of, retry_of

_PARAMETER = re.compile(r"<%\s*\$(parameters|secrets)\.([A-Za-z0-9_]+)\s*%>")
_OTHER = re.compile(r"<%.*?%>")

_DROPPED = {
    r"(type|contributor|description)": "it says nothing of how the job runs",
    r"prerequisites": "yarnam starts no container images yet; inputs belong into `data.inputs`",
    r"deployments|defaults\.deployment": "commands before and after belong into `command`",
    r"extras\.submitFrom|extras\.com\.microsoft.*|extras\.tensorBoard.*": "of OpenPAI's web portal",
    r"taskRoles\.[^.]+\.(dockerImage|data|script|output)": "yarnam starts no container images yet",
    r"taskRoles\.[^.]+\.extraContainerOptions\..*": "of container images",
    r"taskRoles\.[^.]+\.prerequisites": "yarnam starts no container images yet",
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
    retry = retry_of(source)
    names = mapping(f"{what}: taskRoles", document.get("taskRoles"))
    if not names:
        raise BadSpec(f"{what} has no taskRoles")
    roles = {role_name(name): _role(source, name, parameters) for name in names}
    _complete(source, {name: roles[role_name(name)] for name in names})
    gang, placement = hived_of(source, names)
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
        "gang": gang,
        "placement": placement,
        "retry": retry,
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


def _complete(source: Source, roles: Mapping[str, dict[str, Any]]) -> None:
    """Of each role, what OpenPAI's ``completion`` says: the job succeeds with the first role of
    which ``minSucceededInstances`` have, and fails with ``minFailedInstances`` of one (-1: no
    number of them). Fills in ``roles``."""
    for name in roles:
        if not source.values.get(f"taskRoles.{name}.completion"):
            source.take(f"taskRoles.{name}.completion")
    keys = {name: f"taskRoles.{name}.completion." for name in roles}
    enough = {name: _number(source, f"{keys[name]}minSucceededInstances", -1) for name in roles}
    fatal = {name: _number(source, f"{keys[name]}minFailedInstances", 1) for name in roles}
    decides = [name for name in roles if enough[name] > 0]
    for name, role in roles.items():
        why = _set_rule(role, enough[name], fatal[name], decides=bool(decides))
        if why:
            source.note(f"{keys[name]}minFailedInstances", why)
    for name in decides if len(decides) > 1 else ():
        why = "all of these roles must have succeeded; in OpenPAI the first one is enough"
        source.note(f"{keys[name]}minSucceededInstances", why)
    if all(role.get("optional") for role in roles.values()):
        for name, role in roles.items():
            del role["optional"]
            why = "some task has to succeed: here all of them"
            source.note(f"{keys[name]}minFailedInstances", why)


def _set_rule(role: dict[str, Any], enough: int, fatal: int, *, decides: bool) -> str:
    """``decides``: some role ends the job by its successes. Returns what is not quite the same;
    empty: nothing."""
    tasks = role["tasks"]
    if enough > 0:
        _at_least(role, min(enough, tasks))
        return "" if fatal == tasks - min(enough, tasks) + 1 else _COUNTS_LATE
    if fatal < 0:
        role["optional"] = True
    if decides:
        role["service"] = True
        return _COUNTS_AT_ONCE if fatal > 1 else ""
    if fatal > 1:
        _at_least(role, max(1, tasks - fatal + 1))
        return "the rest is stopped once enough have succeeded that this cannot be reached"
    return ""


_COUNTS_LATE = "failures count once the tasks that are left are too few to succeed"
_COUNTS_AT_ONCE = "the first failure of a role that ends with the others stops the job"


def _number(source: Source, key: str, default: int) -> int:
    """``null`` is the default, as there."""
    if source.values.get(key, default) is None:
        source.take(key)
    return source.whole(key, default)


def _at_least(role: dict[str, Any], count: int) -> None:
    if count < role["tasks"]:
        role["completion"] = {"at_least": count}


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
