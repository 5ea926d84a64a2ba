"""Places: the sets of nodes that containers are asked on, and the targets made of them.

A target is one Skein service: role, size and place, fixed at submit, each one costing submit
time. So places are few: the best racks, ANY, and a few exact node sets where those give more than
a rack does (they do not when every task needs a node of its own anyway, or when the set is the
whole rack).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from yarnam.model.ids import NodeId, RackId
from yarnam.model.job import JobSpec
from yarnam.model.placement import LocalityLevel, Target
from yarnam.placement.rooms import Room
from yarnam.placement.shapes import Group, Shape

MOST_NODES_LISTED = 64
"""Longest strict node list of a service; beyond it excluded nodes are refused grant by grant. Each
node of a list is one more line in every ask the AM sends (AMRMClientImpl sends one per node)."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where containers may land: one of ``nodes``, else one of ``racks``, else anywhere."""

    nodes: tuple[NodeId, ...] = ()
    racks: tuple[RackId, ...] = ()

    @property
    def level(self) -> LocalityLevel:
        """Of the target, not of what the gang gets there."""
        if self.nodes:
            return LocalityLevel.NODE
        return LocalityLevel.RACK if self.racks else LocalityLevel.ANY

    def rooms(self, rooms: Sequence[Room]) -> Sequence[Room]:
        """Those of the rooms that are in this place."""
        if self.nodes:
            nodes = frozenset(self.nodes)
            return [room for room in rooms if room.node in nodes]
        if self.racks:
            return [room for room in rooms if room.rack in self.racks]
        return rooms


ANYWHERE = Place()


@dataclass(frozen=True, slots=True)
class Candidate:
    """The whole gang, in one shape, in one place. ``targets`` go with the shape's groups."""

    shape: Shape
    place: Place
    targets: tuple[Target, ...]


def rack_names(racks: Iterable[RackId]) -> dict[RackId, str]:
    """Short, unique names of racks for services; the same racks get the same names."""
    names: dict[RackId, str] = {}
    for rack in sorted(racks):
        base = name = f"r-{_plain(rack)}"
        number = 1
        while name in names.values():
            number += 1
            name = f"{base}-{number}"
        names[rack] = name
    return names


def targets_at(shape: Shape, place: Place, name: str) -> tuple[Target, ...]:
    """The services for one shape in one place: ``worker-8g-r-rack1``, ``ps-0g-any``."""
    return tuple(
        Target(
            service=f"{group.role}-{group.resources.gpus}g-{name}",
            role=group.role,
            level=place.level,
            resources=group.resources,
            processes_per_task=group.processes,
            nodes=place.nodes,
            racks=place.racks,
        )
        for group in shape
    )


def candidates_from(job: JobSpec, targets: Iterable[Target]) -> tuple[Candidate, ...]:
    """What can be asked for with these targets: only whole gangs, the role's processes as in the
    spec."""
    places: dict[Place, dict[str, list[Target]]] = {}
    for target in targets:
        roles = places.setdefault(Place(target.nodes, target.racks), {})
        roles.setdefault(target.role, []).append(target)
    found: list[Candidate] = []
    for place, roles in places.items():
        if any(role.name not in roles for role in job.roles):
            continue
        if len(job.roles) == 1:
            choices: list[tuple[Target, ...]] = [(target,) for target in roles[job.roles[0].name]]
        else:
            choices = [tuple(roles[role.name][0] for role in job.roles)]
        for choice in choices:
            shape = _shape(job, choice)
            if shape is not None:
                found.append(Candidate(shape, place, choice))
    return tuple(found)


def _shape(job: JobSpec, choice: tuple[Target, ...]) -> Shape | None:
    groups: list[Group] = []
    for role, target in zip(job.roles, choice, strict=True):
        processes = role.tasks * role.processes_per_task
        count, rest = divmod(processes, target.processes_per_task)
        if rest:
            return None
        groups.append(Group(role.name, count, target.resources, target.processes_per_task))
    return tuple(groups)


def _plain(rack: RackId) -> str:
    """A rack path as a part of a service's name: letters, digits and hyphens, at most 24."""
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in rack.lower())
    return "-".join(part for part in kept.split("-") if part)[-24:] or "rack"
