"""The variables that OpenPAI sets in each container (``PAI_*``), from those that yarnam sets."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

_MENTION = re.compile(r"\bPAI_\w*")
_TASK = re.compile(
    r"\bPAI_(?:HOST_IP_|PORT_LIST_|TASK_ROLE_\w+_HOST_LIST|(?!CONTAINER_)\w+_PORT\b)"
)


@dataclass(frozen=True, slots=True)
class TaskRole:
    """A role as OpenPAI has it. ``ports``: by label, their names in the spec."""

    name: str
    tasks: int
    ports: Mapping[str, str]


def task_roles(tasks: Mapping[str, int], labels: Mapping[str, Iterable[str]]) -> list[TaskRole]:
    """The roles of a job, with the labels of their ports as a spec may name them."""
    return [
        TaskRole(role, count, {label: _port_name(label) for label in labels[role]})
        for role, count in tasks.items()
    ]


def addressed(roles: Iterable[TaskRole]) -> list[TaskRole]:
    """The same roles, where a script asks for addresses of tasks: each has a port, by which its
    addresses are known, and names that no other role has."""
    return [
        replace(one, ports={label: _port_name(f"{one.name}_{label}") for label in one.ports})
        if one.ports
        else replace(one, ports={"host": _port_name(f"{one.name}_host")})
        for one in roles
    ]


def _port_name(text: str) -> str:
    return re.sub(r"[^a-z0-9_]", "_", text.lower()).lstrip("_0123456789")[:40] or "port"


def asks_for_addresses(scripts: Iterable[str]) -> bool:
    """Whether some script names a variable with the host or a port of a task."""
    return any(_TASK.search(script) for script in scripts)


def exports(script: str, role: TaskRole, roles: Iterable[TaskRole]) -> tuple[list[str], list[str]]:
    """The lines that set the variables of OpenPAI named in ``script``, and the names of those that
    have no counterpart. A name that the script completes (``PAI_HOST_IP_${role}_0``) stands for all
    that begin so."""
    known = _values(role, list(roles))
    lines: dict[str, str] = {}
    missing: dict[str, None] = {}
    for name in dict.fromkeys(_MENTION.findall(script)):
        is_begin = name not in known and name.endswith("_")
        names = [one for one in known if one == name or (is_begin and one.startswith(name))]
        lines |= {one: f"export {one}={known[one]}" for one in names}
        if not names:
            missing[name] = None
    return [lines[one] for one in known if one in lines], list(missing)


def _values(role: TaskRole, roles: list[TaskRole]) -> dict[str, str]:
    """By name, each as a shell has it on the right of an assignment."""
    names = shlex.quote(",".join(one.name for one in roles))
    found = {
        "PAI_JOB_NAME": '"$YARNAM_JOB_NAME"',
        "PAI_USER_NAME": '"$(id -un)"',
        "PAI_TASK_ROLE_COUNT": str(len(roles)),
        "PAI_TASK_ROLE_LIST": names,
        "PAI_JOB_TASK_ROLE_COUNT": str(len(roles)),
        "PAI_JOB_TASK_ROLE_LIST": names,
        "PAI_JOB_TASK_COUNT": str(sum(one.tasks for one in roles)),
        "PAI_CURRENT_TASK_ROLE_NAME": shlex.quote(role.name),
        "PAI_CURRENT_TASK_ROLE_TASK_COUNT": str(role.tasks),
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": '"$YARNAM_TASK_INDEX"',
        "PAI_CONTAINER_HOST_IP": '"$YARNAM_ADDRESS"',
        "PAI_CURRENT_CONTAINER_IP": '"$YARNAM_ADDRESS"',
    }
    for label, port in role.ports.items():
        own = f'"${_variable("PORT", port)}"'
        found[f"PAI_CONTAINER_HOST_{label}_PORT_LIST"] = own
        if label in ("ssh", "http"):
            found["PAI_CONTAINER_SSH_PORT" if label == "ssh" else "PAI_CONTAINER_HOST_PORT"] = own
    for one in roles:
        found[f"PAI_TASK_ROLE_TASK_COUNT_{one.name}"] = str(one.tasks)
        found |= _addresses(one)
    return found


def _addresses(role: TaskRole) -> dict[str, str]:
    """The host and the ports of each task, from the lists of addresses by task index."""
    found: dict[str, str] = {}
    if not role.ports:
        return found
    first = role.ports.get("http", next(iter(role.ports.values())))
    found[f"PAI_TASK_ROLE_{role.name}_HOST_LIST"] = f'"${_variable("ADDRESSES", first)}"'
    for index in range(role.tasks):
        found[f"PAI_HOST_IP_{role.name}_{index}"] = _part(first, index, r"s/:[0-9]*$//")
        for label, port in role.ports.items():
            value = _part(port, index, "s/.*://")
            found[f"PAI_PORT_LIST_{role.name}_{index}_{label}"] = value
            found[f"PAI_{role.name}_{index}_{label}_PORT"] = value
    return found


def _part(port: str, index: int, cut: str) -> str:
    """Cuts the address of a task with an expression of sed."""
    return f'"$(cut -d, -f{index + 1} <<< "${_variable("ADDRESSES", port)}" | sed \'{cut}\')"'


def _variable(family: str, port: str) -> str:
    """As ``docs/reference/rendezvous.md`` has it."""
    return f"YARNAM_{family}_" + re.sub(r"[^A-Z0-9]", "_", port.upper())
