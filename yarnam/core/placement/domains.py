"""Placement domains: the sets of nodes that containers are asked for on, and the targets in them.

A target is one Skein service: role, size and domain, fixed at submit, each one costing submit
time. So there are few domains: the best racks, ANY, and a few exact node sets where those give more
than a rack does (they do not when every task needs a node of its own anyway, or when the set is the
whole rack).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.job_spec import JobSpec, RoleSpec
from yarnam.core.model.plans import LocalityLevel, Target
from yarnam.core.placement.gang_shape import Group, Shape


@dataclass(frozen=True, slots=True)
class PlacementDomain:
    """Where containers may land: one of ``nodes``, else in one of ``racks``, else anywhere."""

    nodes: tuple[NodeId, ...] = ()
    racks: tuple[RackId, ...] = ()

    @property
    def level(self) -> LocalityLevel:
        """The level of the target, which may be looser than the place that the gang gets there."""
        if self.nodes:
            return LocalityLevel.NODE
        return LocalityLevel.RACK if self.racks else LocalityLevel.ANY


ANYWHERE = PlacementDomain()


@dataclass(frozen=True, slots=True)
class TargetCandidate:
    """The whole gang, in one shape, in one domain. ``targets`` match the shape's groups."""

    shape: Shape
    domain: PlacementDomain
    targets: tuple[Target, ...]

    @property
    def gpus_per_task(self) -> int:
        """The GPUs per task of the largest containers."""
        return max(group.resources.gpus for group in self.shape)


def rack_names(racks: Iterable[RackId]) -> dict[RackId, str]:
    """Short, unique names of racks for services; the same racks always get the same names."""
    names: dict[RackId, str] = {}
    taken: set[str] = set()
    for rack in sorted(racks):
        base = f"r-{_service_name_part(rack)}"
        name, number = base, 1
        while name in taken:
            number += 1
            name = f"{base}-{number}"
        taken.add(name)
        names[rack] = name
    return names


def target_in(group: Group, domain: PlacementDomain, name: str) -> Target:
    """The service for one group in one domain: ``worker-8g-r-rack1``, ``ps-0g-any``. ``name`` is
    unique per domain and shape."""
    return Target(
        service=f"{group.role}-{group.resources.gpus}g-{name}",
        role=group.role,
        level=domain.level,
        resources=group.resources,
        processes_per_task=group.processes,
        nodes=domain.nodes,
        racks=domain.racks,
        gpu_model=group.model,
        domain=name,
    )


def candidates_from(job: JobSpec, targets: Iterable[Target]) -> tuple[TargetCandidate, ...]:
    """The whole gangs that can be asked for with these targets, each role with as many processes as
    in the spec."""
    return _candidates_from(job.roles, tuple(targets))


@lru_cache(maxsize=1024)
def _candidates_from(
    roles_of_job: tuple[RoleSpec, ...], targets: tuple[Target, ...]
) -> tuple[TargetCandidate, ...]:
    """A waiting job plans on the same targets repeatedly."""
    domains: dict[object, dict[str, list[Target]]] = {}
    for target in targets:
        key = target.domain or (target.nodes, target.racks, target.gpu_model)
        domains.setdefault(key, {}).setdefault(target.role, []).append(target)
    found: list[TargetCandidate] = []
    for roles in domains.values():
        if any(role.name not in roles for role in roles_of_job):
            continue
        if len(roles_of_job) == 1:
            [only] = roles_of_job
            choices: list[tuple[Target, ...]] = [(target,) for target in roles[only.name]]
        else:
            choices = [tuple(roles[role.name][0] for role in roles_of_job)]
        for choice in choices:
            shape = _shape(roles_of_job, choice)
            if shape is not None:
                found.append(TargetCandidate(shape, _common_domain(choice), choice))
    return tuple(found)


def _common_domain(choice: tuple[Target, ...]) -> PlacementDomain:
    """The domain of all these targets; where they differ, the smallest one that covers them all and
    can be written down."""
    first = PlacementDomain(choice[0].nodes, choice[0].racks)
    if all((target.nodes, target.racks) == (first.nodes, first.racks) for target in choice):
        return first
    if all(target.nodes for target in choice):
        return PlacementDomain(
            nodes=tuple(sorted({node for target in choice for node in target.nodes}))
        )
    return ANYWHERE


def _shape(roles: tuple[RoleSpec, ...], choice: tuple[Target, ...]) -> Shape | None:
    groups: list[Group] = []
    differ = len({(target.nodes, target.racks) for target in choice}) > 1
    for role, target in zip(roles, choice, strict=True):
        processes = role.tasks * role.processes_per_task
        count, rest = divmod(processes, target.processes_per_task)
        if rest:
            return None
        groups.append(
            Group(
                role.name,
                count,
                target.resources,
                target.processes_per_task,
                target.gpu_model,
                within_nodes=frozenset(target.nodes) if differ and target.nodes else None,
                within_racks=frozenset(target.racks) if differ and target.racks else None,
                label=role.node_label,
            )
        )
    return tuple(groups)


def _service_name_part(rack: RackId) -> str:
    """A rack path as part of a service's name: at most 24 letters, digits and hyphens."""
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in rack.lower())
    return "-".join(part for part in kept.split("-") if part)[-24:] or "rack"
