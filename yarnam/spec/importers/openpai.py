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
from yarnam.spec.importers.openpai_variables import (
    TaskRole,
    addressed,
    asks_for_addresses,
    exports,
    task_roles,
)

_REFERENCE = re.compile(r"<%(.*?)%>", re.DOTALL)
_PATH = re.compile(r"\$(parameters|secrets|script|output|data)((?:\.\w+|\[\d+\])*)")
_PREREQUISITES = ("script", "output", "data")
"""Keys of a role that name a prerequisite of this type; its commands refer to it by the type."""

IMAGES = "no image is used: write environment.docker where the site's nodes start images"

_DROPPED = {
    r"(type|version|contributor|description)": "it says nothing of how the job runs",
    r"prerequisites": f"{IMAGES}; inputs belong into `data.inputs`",
    r"deployments|defaults\.deployment": "the commands of the default one are in `command`",
    r"extras\.(?!hivedScheduler\b).+": "of OpenPAI's web portal and its plugins",
    r"taskRoles\.[^.]+\.(dockerImage|data|script|output)": IMAGES,
    r"taskRoles\.[^.]+\.extraContainerOptions\..*": "of container images",
    r"taskRoles\.[^.]+\.prerequisites": IMAGES,
    r"taskRoles\.[^.]+\.taskRetryCount": "a gang is restarted as a whole: see `retry`",
}
"""Patterns of the keys that are dropped, and why."""


def convert(document: Mapping[str, Any], what: str) -> Conversion:
    """The spec of an OpenPAI job. Raises BadSpec: unknown keys, or another version."""
    if document.get("protocolVersion") not in (2, "2"):
        raise BadSpec(f"{what}: protocolVersion is not 2", hint="Older versions are not converted.")
    values = {
        key: mapping(f"{what}: {key}", document.get(key)) for key in ("parameters", "secrets")
    }
    plain = {k: v for k, v in document.items() if k not in values}
    # A key without a value is one that is not set.
    source = Source(what, {k: v for k, v in flat(plain).items() if v is not None and v != {}})
    source.take("protocolVersion")
    retry = retry_of(source)
    names = mapping(f"{what}: taskRoles", document.get("taskRoles"))
    if not names:
        raise BadSpec(f"{what} has no taskRoles")
    scripts = {name: _script(source, document, name, values) for name in names}
    labels = {name: _port_labels(source, name) for name in names}
    tasks = {name: source.whole(f"taskRoles.{name}.instances", 1) for name in names}
    given = task_roles(tasks, labels)
    if asks_for_addresses(scripts.values()):
        given = addressed(given)
    roles = {role_name(one.name): _role(source, one, given, scripts[one.name]) for one in given}
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
        "env": {name: {"from": "client"} for name in values["secrets"]},
        "roles": roles,
        "gang": gang,
        "placement": placement,
        "retry": retry,
    }
    return source.finish(spec)


def _script(
    source: Source, document: Mapping[str, Any], name: str, values: Mapping[str, Any]
) -> str:
    """The commands of a role as OpenPAI runs them: the lines of one script, those of the default
    deployment before and after. As there, a line that fails does not end it."""
    commands = source.take(f"taskRoles.{name}.commands")
    if not isinstance(commands, list) or not commands:
        raise BadSpec(f"{source.what}: the task role {name} has no commands")
    role = _at(document, "taskRoles", name)
    deployment = _at(
        _named(document.get("deployments"), _at(document, "defaults", "deployment")) or {},
        "taskRoles",
        name,
    )
    lines = [
        str(one).strip()
        for part in (_at(deployment, "preCommands"), commands, _at(deployment, "postCommands"))
        for one in part or ()
    ]
    known = dict(values)
    for kind in _PREREQUISITES:
        known[kind] = _named(document.get("prerequisites"), _at(role, kind), kind)
    return _filled(source.what, "\n".join(lines), known)


def _at(tree: Any, *keys: str) -> Any:
    """Follows the keys; None where one is missing."""
    for key in keys:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree


def _named(entries: Any, name: Any, kind: str = "") -> Mapping[str, Any] | None:
    """The entry of a list with this name, and of this type; None where there is none."""
    for one in entries if isinstance(entries, list) else ():
        if _at(one, "name") == name is not None and kind in ("", _at(one, "type")):
            return dict(one)
    return None


def _port_labels(source: Source, name: str) -> list[str]:
    prefix = f"taskRoles.{name}.resourcePerInstance.ports."
    found = [key for key in source.values if key.startswith(prefix)]
    for key in found:
        if source.whole(key, 1) > 1:
            source.note(key, "a process has one port of each name")
    return [key.removeprefix(prefix) for key in found]


def _role(source: Source, role: TaskRole, roles: list[TaskRole], script: str) -> dict[str, Any]:
    prefix = f"taskRoles.{role.name}."
    resources = f"{prefix}resourcePerInstance."
    before, missing = exports(script, role, roles)
    if before:
        names = ", ".join(line.split("=")[0].removeprefix("export ") for line in before)
        source.note(f"{prefix}commands", f"the script sets {names}, from yarnam's own variables")
    if missing:
        source.note(f"{prefix}commands", f"nothing sets {', '.join(missing)} here")
    found: dict[str, Any] = {
        "tasks": role.tasks,
        "gpus": source.whole(f"{resources}gpu", 0),
        "vcores": source.whole(f"{resources}cpu", 1),
        "memory": f"{source.whole(f'{resources}memoryMB', 2048)}MiB",
        "processes": "per-task",
        "command": "\n".join([*before, script]),
    }
    if role.ports:
        found["ports"] = list(role.ports.values())
    return found


def _complete(source: Source, roles: Mapping[str, dict[str, Any]]) -> None:
    """Convert OpenPAI's ``completion`` of each role: the job succeeds with the first role of
    which ``minSucceededInstances`` have, and fails with ``minFailedInstances`` of one (-1: no
    number of them). Fills in ``roles``."""
    keys = {name: f"taskRoles.{name}.completion." for name in roles}
    enough = {name: source.whole(f"{keys[name]}minSucceededInstances", -1) for name in roles}
    fatal = {name: source.whole(f"{keys[name]}minFailedInstances", 1) for name in roles}
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
    """``decides``: some role ends the job by its successes. Returns what is not quite the same, if
    anything."""
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


def _at_least(role: dict[str, Any], count: int) -> None:
    if count < role["tasks"]:
        role["completion"] = {"at_least": count}


def _filled(what: str, text: str, known: Mapping[str, Any]) -> str:
    def value(found: re.Match[str]) -> str:
        path = _PATH.fullmatch(found[1].strip())
        if path is None:
            raise BadSpec(f"{what}: {found[0]} cannot be converted")
        kind, rest = path[1], re.findall(r"\w+", path[2])
        if kind == "secrets" and len(rest) == 1:
            return f"${{{rest[0]}}}"
        reached = known[kind]
        for key in rest:
            if isinstance(reached, list):
                reached = reached[int(key)] if key.isdigit() and int(key) < len(reached) else None
            else:
                reached = _at(reached, key)
        if reached is None and kind == "parameters":
            raise BadSpec(f"{what}: the parameter {'.'.join(rest)} is not set")
        if reached is None or isinstance(reached, Mapping):
            raise BadSpec(f"{what}: {found[0]} stands for nothing that the job has")
        return _as_text(reached)

    return _REFERENCE.sub(value, text)


def _as_text(value: Any) -> str:
    """As JavaScript writes it."""
    if isinstance(value, list):
        return ",".join(_as_text(one) for one in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
