"""Checks over the rules of all roles: which of them end, and when."""

from __future__ import annotations

from yarnam.core.frameworks.registry import framework_named
from yarnam.core.model.ids import CHIEF_ROLE, PS_ROLE
from yarnam.core.model.job_spec import CompletionRule, JobSpec
from yarnam.spec.checks import Problems
from yarnam.spec.problems import closest
from yarnam.spec.sections.document import Document
from yarnam.spec.sections.role_sections import Role, TaskRange
from yarnam.spec.yaml_tree import Path, Tree


def check_roles(document: Document, tree: Tree) -> None:
    """Add a problem to the tree for each rule of a role that cannot be kept."""
    problems = Problems(tree)
    for name, role in (document.roles or {}).items():
        _check_completion(name, role, problems)
        _check_service(name, role, problems)
        _check_elastic(name, role, problems)
        _check_after(name, role, document, problems)
        _check_ready(name, role, document, problems)
    _check_circles(document, problems)


def _check_completion(name: str, role: Role, problems: Problems) -> None:
    path: Path = ("roles", name, "completion")
    if isinstance(role.completion, str):
        return
    at_least, succeed = role.completion.at_least, role.completion.succeed
    if (at_least is None) == (succeed is None):
        problems.add(path, "needs exactly one of at_least and succeed")
    if at_least is not None and at_least > role.most_tasks:
        least = (*path, "at_least")
        text = f"the role has only {role.most_tasks} task{'s' if role.most_tasks > 1 else ''}"
        problems.add(least, text, (least, ("roles", name, "tasks")))


def _check_service(name: str, role: Role, problems: Problems) -> None:
    service: Path = ("roles", name, "service")
    if role.service:
        if "completion" in role.model_fields_set:
            path: Path = ("roles", name, "completion")
            text = "a service has none: it is stopped when the other roles are complete"
            problems.add(path, text, (path, service))
    elif "early_exit" in role.model_fields_set and not (name == PS_ROLE and role.service is None):
        path = ("roles", name, "early_exit")
        problems.add(path, "only a service has it; write service: true", (path, service))
    if role.early_exit == "fail" and role.optional:
        path, optional = ("roles", name, "early_exit"), ("roles", name, "optional")
        problems.add(path, "an optional role may end as it likes: remove one", (path, optional))


def _check_elastic(name: str, role: Role, problems: Problems) -> None:
    if not isinstance(role.tasks, TaskRange):
        return
    tasks: Path = ("roles", name, "tasks")
    rules = {"service": role.service, "optional": role.optional}
    rules["completion"] = role.completion != "all"
    for key, is_set in rules.items():
        if is_set:
            path: Path = ("roles", name, key)
            text = "an elastic role needs all of its tasks, since a change of size restarts them"
            problems.add(path, text, (path, tasks))


def _check_after(name: str, role: Role, document: Document, problems: Problems) -> None:
    path: Path = ("roles", name, "after")
    for one in role.all_after:
        if one.role == name:
            problems.add(path, f"role {name} cannot start after itself")
        elif one.role not in (document.roles or {}):
            known = closest(one.role, document.roles or {})
            problems.add(path, f"there is no role {one.role}{known}", (path, ("roles",)))
        elif one.until == "ended":
            _check_until_ended(path, one.role, document, problems)


def _check_until_ended(path: Path, first: str, document: Document, problems: Problems) -> None:
    roles = document.roles or {}
    role = roles[first]
    if role.service or (role.service is None and first == PS_ROLE):
        text = f"{first} is a service, which ends last: wait until it is ready"
        problems.add(path, text, (path, ("roles", first)))
    elastic = [name for name, each in roles.items() if isinstance(each.tasks, TaskRange)]
    if elastic:
        text = f"a change of size of {elastic[0]} would run {first} again: give it a fixed size"
        problems.add(path, text, (path, ("roles", elastic[0], "tasks")))


def _check_circles(document: Document, problems: Problems) -> None:
    """Roles that wait for each other would wait for ever."""
    roles = document.roles or {}
    first = {name: [one.role for one in role.all_after] for name, role in roles.items()}
    left = {name for name in roles if name not in first[name]}
    while True:
        free = {name for name in left if not left & set(first[name])}
        if not free:
            break
        left -= free
    for name in roles:
        if name in left:
            others = ", ".join(one for one in first[name] if one in left)
            text = f"role {name} waits for {others}, which waits for it in turn"
            problems.add(("roles", name, "after"), text, (("roles",),))
            return


def _check_ready(name: str, role: Role, document: Document, problems: Problems) -> None:
    path: Path = ("roles", name, "ready", "port")
    port = role.ready.port
    framework = framework_named(document.framework)
    # A server's port cannot be observed once the agent does not hold it any more.
    seen = [name for name in framework.ports if name not in framework.bare_ports]
    ports = (*role.ports, *document.ports, *seen)
    if port is not None and port not in ports:
        hint = closest(port, ports) or f"; add it: ports: [{port}]"
        problems.add(path, f"the role has no port {port}{hint}", (path, ("roles", name, "ports")))
    is_awaited = any(
        one.role == name for other in (document.roles or {}).values() for one in other.all_after
    )
    here: Path = ("roles", name, "ready")
    if problems.has(here) and not is_awaited:
        problems.add(here, f"no role starts after {name}", (("roles",),))


def check_ending(job: JobSpec, problems: Problems) -> None:
    """Some role must have to succeed, or the job would run for ever, or its success mean
    nothing."""
    names = {role.name for role in job.roles}
    must = [
        role.name
        for role in job.roles
        if role.name not in job.services
        and not role.optional
        and not (
            role.completion.rule is CompletionRule.CHIEF
            and role.name != CHIEF_ROLE
            and CHIEF_ROLE in names
        )
    ]
    if job.roles and not must:
        text = "no role has to succeed: at least one must be neither a service nor optional"
        problems.add(("roles",), text)
