"""What the rules of the roles must satisfy together: which of them end, and when."""

from __future__ import annotations

from yarnam.core.model.ids import CHIEF_ROLE, PS_ROLE
from yarnam.core.model.job_spec import CompletionRule, JobSpec
from yarnam.spec.checks import Problems
from yarnam.spec.sections.document import Document
from yarnam.spec.sections.role_sections import AtLeast, Role, TaskRange
from yarnam.spec.yaml_tree import Path, Tree


def check_roles(document: Document, tree: Tree) -> None:
    """Add a problem to the tree for each rule of a role that cannot be kept."""
    problems = Problems(tree)
    for name, role in (document.roles or {}).items():
        _check_completion(name, role, problems)
        _check_service(name, role, problems)
        _check_elastic(name, role, problems)


def _check_completion(name: str, role: Role, problems: Problems) -> None:
    path: Path = ("roles", name, "completion")
    if isinstance(role.completion, AtLeast) and role.completion.at_least > role.most_tasks:
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
