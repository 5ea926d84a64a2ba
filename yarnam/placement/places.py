"""Places: the sets of nodes that containers are asked on, and the targets made of them.

A target is one Skein service: role, size and place, fixed at submit, each one costing submit
time. So places are few: the best racks, ANY, and a few exact node sets where those give more than
a rack does (they do not when every task needs a node of its own anyway, or when the set is the
whole rack).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from yarnam.model.ids import NodeId, RackId
from yarnam.model.job import JobSpec
from yarnam.model.placement import LocalityLevel, Target
from yarnam.placement.shapes import Group, Shape


@dataclass(frozen=True, slots=True)
class Place:
    """Where containers may land: one of ``nodes``, else in one of ``racks``, else anywhere."""

    nodes: tuple[NodeId, ...] = ()
    racks: tuple[RackId, ...] = ()

    @property
    def level(self) -> LocalityLevel:
        """Of the target, not of what the gang gets there."""
        if self.nodes:
            return LocalityLevel.NODE
        return LocalityLevel.RACK if self.racks else LocalityLevel.ANY


ANYWHERE = Place()


@dataclass(frozen=True, slots=True)
class Candidate:
    """The whole gang, in one shape, in one place. ``targets`` go with the shape's groups."""

    shape: Shape
    place: Place
    targets: tuple[Target, ...]

    @property
    def gpus_per_task(self) -> int:
        """Of the largest containers."""
        return max(group.resources.gpus for group in self.shape)


def rack_names(racks: Iterable[RackId]) -> dict[RackId, str]:
    """Short, unique names of racks for services; the same racks get the same names."""
    names: dict[RackId, str] = {}
    taken: set[str] = set()
    for rack in sorted(racks):
        name = unique_name(f"r-{_plain(rack)}", taken)
        taken.add(name)
        names[rack] = name
    return names


def unique_name(base: str, taken: Iterable[str]) -> str:
    """The name itself, or with a number that nobody has."""
    known = set(taken)
    name, number = base, 1
    while name in known:
        number += 1
        name = f"{base}-{number}"
    return name


def target_at(group: Group, place: Place, name: str) -> Target:
    """The service for one group in one place: ``worker-8g-r-rack1``, ``ps-0g-any``. ``name`` is
    unique for place and shape."""
    return Target(
        service=f"{group.role}-{group.resources.gpus}g-{name}",
        role=group.role,
        level=place.level,
        resources=group.resources,
        processes_per_task=group.processes,
        nodes=place.nodes,
        racks=place.racks,
        gpu_model=group.model,
        place=name,
    )


def candidates_from(job: JobSpec, targets: Iterable[Target]) -> tuple[Candidate, ...]:
    """What can be asked for with these targets: only whole gangs, the role's processes as in the
    spec. Targets of one gang have the same ``place``."""
    places: dict[object, dict[str, list[Target]]] = {}
    for target in targets:
        key = target.place or (target.nodes, target.racks, target.gpu_model)
        places.setdefault(key, {}).setdefault(target.role, []).append(target)
    found: list[Candidate] = []
    for roles in places.values():
        if any(role.name not in roles for role in job.roles):
            continue
        if len(job.roles) == 1:
            choices: list[tuple[Target, ...]] = [(target,) for target in roles[job.roles[0].name]]
        else:
            choices = [tuple(roles[role.name][0] for role in job.roles)]
        for choice in choices:
            shape = _shape(job, choice)
            if shape is not None:
                found.append(Candidate(shape, _common_place(choice), choice))
    return tuple(found)


def _common_place(choice: tuple[Target, ...]) -> Place:
    """The place of all these targets; where they differ, the smallest that holds them all and can
    be written down."""
    first = Place(choice[0].nodes, choice[0].racks)
    if all((target.nodes, target.racks) == (first.nodes, first.racks) for target in choice):
        return first
    if all(target.nodes for target in choice):
        return Place(nodes=tuple(sorted({node for target in choice for node in target.nodes})))
    return ANYWHERE


def _shape(job: JobSpec, choice: tuple[Target, ...]) -> Shape | None:
    groups: list[Group] = []
    differ = len({(target.nodes, target.racks) for target in choice}) > 1
    for role, target in zip(job.roles, choice, strict=True):
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
            )
        )
    return tuple(groups)


def _plain(rack: RackId) -> str:
    """A rack path as a part of a service's name: letters, digits and hyphens, at most 24."""
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in rack.lower())
    return "-".join(part for part in kept.split("-") if part)[-24:] or "rack"
