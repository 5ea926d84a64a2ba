"""The environments that a spec's gang gets, from a made-up placement: two tasks on a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from yarnam.core.frameworks.registry import framework_named
from yarnam.core.model.actions import GangMember
from yarnam.core.model.ids import AskId, NodeId, RackId, TaskId
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.plans import Placed
from yarnam.spec import parse_spec_dict
from yarnam.wire.rendezvous import environments

APPLICATION = "application_7_1"


def job(framework: str, **keys: Any) -> JobSpec:
    plain: dict[str, Any] = {
        "version": 1, "name": "digits", "queue": "root.ml", "framework": framework,
        "command": ["train"], **keys,
    }  # fmt: skip
    return parse_spec_dict(plain, user="ann", check_paths=False)


def placed(made: JobSpec) -> tuple[GangMember, ...]:
    """All tasks in the order of the spec: 10.0.0.1, 10.0.0.1, 10.0.0.2...; ports from 61000 on,
    a hundred for each task."""
    members = []
    for role in made.roles:
        for index in range(role.tasks):
            number = len(members)
            names = framework_named(made.framework).port_names(role.ports, role.processes_per_task)
            node = number // 2 + 1
            first = 61000 + 100 * number
            place = Placed(
                role.name,
                NodeId(f"n{node}"),
                RackId("/r"),
                processes=role.processes_per_task,
                address=f"10.0.0.{node}",
                ports=tuple((name, first + offset) for offset, name in enumerate(names)),
            )
            members.append(GangMember(AskId(1, role.name, index), TaskId(role.name, index), place))
    return tuple(members)


def variables(framework: str, attempt: int = 1, **keys: Any) -> list[dict[str, str]]:
    """What each process gets beside the generic variables, by rank."""
    made = job(framework, **keys)
    envs = environments(made, placed(made), attempt, APPLICATION)
    return [without_generic(env) for task in envs for env in task]


def without_generic(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if not name.startswith("YARNAM_")}
