"""Ranks and addresses of a placed gang: what all environments are made of.

One order decides everything: the members as ``LaunchGang`` lists them (rack, node, GPU). Global
rank = processes of the members before + local rank. *Local* means within the task, because each
task is a container with its own CUDA_VISIBLE_DEVICES: two tasks on one node both have a local rank
0, and it is right for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, cast

from yarnam.core.frameworks.task_ports import COORDINATOR_PORT, joined, port_key
from yarnam.core.model.actions import GangMember
from yarnam.core.model.ids import NodeId, TaskId
from yarnam.core.model.job_spec import JobSpec, RoleSpec
from yarnam.errors import InternalError

T = TypeVar("T")


def first_ranks(members: Sequence[GangMember]) -> tuple[int, ...]:
    """The global rank of each member's first process."""
    ranks: list[int] = []
    total = 0
    for member in members:
        ranks.append(total)
        total += member.placed.processes
    return tuple(ranks)


@dataclass(frozen=True)
class GangTable:
    """It has no slots, so that values of the whole gang are computed once, not for each process.
    ``number`` is that of a member, ``local`` that of a process in it."""

    job: JobSpec
    members: tuple[GangMember, ...]
    attempt: int
    application: str
    is_pre_run: bool = False

    @property
    def resizes_in_place(self) -> bool:
        """Whether the gang changes its size while its processes continue."""
        return self.job.resizes_in_place and not self.is_pre_run

    @cached_property
    def world_size(self) -> int:
        return sum(member.placed.processes for member in self.members)

    @cached_property
    def _first_ranks(self) -> tuple[int, ...]:
        return first_ranks(self.members)

    @cached_property
    def hosts(self) -> str:
        return ",".join(member.placed.address for member in self.members)

    @cached_property
    def node_ranks(self) -> dict[NodeId, int]:
        nodes = dict.fromkeys(member.placed.node for member in self.members)
        return {node: number for number, node in enumerate(nodes)}

    def rank(self, number: int, local: int) -> int:
        return self._first_ranks[number] + local

    @property
    def coordinator(self) -> tuple[str, int]:
        """Address and port on rank 0's task."""
        first = self.members[0]
        return first.placed.address, self.port(0, COORDINATOR_PORT)

    def port(self, number: int, key: str) -> int:
        """Raises InternalError when the member does not hold it."""
        return _port(self.members[number], key)

    def address(self, number: int, name: str, local: int = 0) -> str:
        """``host:port`` of the port ``name`` of one process."""
        host = self.members[number].placed.address
        return joined(host, self.port(number, port_key(name, local)))

    def role(self, number: int) -> RoleSpec:
        return self.role_named(self.members[number].task.role)

    def role_named(self, name: str) -> RoleSpec:
        for role in self.job.roles:
            if role.name == name:
                return role
        raise InternalError(f"the gang has a task of role {name!r}, which the job does not have")

    @cached_property
    def by_role(self) -> dict[str, tuple[GangMember, ...]]:
        """Members by task index, so that worker-0 is 0 in every framework."""
        found: dict[str, list[GangMember]] = {}
        for member in sorted(self.members, key=lambda member: member.task.index):
            found.setdefault(member.task.role, []).append(member)
        return {name: tuple(members) for name, members in found.items()}

    @cached_property
    def _role_ranks(self) -> dict[TaskId, int]:
        """The first process of each task among those of its role."""
        found: dict[TaskId, int] = {}
        for members in self.by_role.values():
            for member, rank in zip(members, first_ranks(members), strict=True):
                found[member.task] = rank
        return found

    def role_rank(self, number: int, local: int) -> int:
        return self._role_ranks[self.members[number].task] + local

    def role_world_size(self, number: int) -> int:
        return self._role_sizes[self.members[number].task.role]

    @cached_property
    def _role_sizes(self) -> dict[str, int]:
        return {
            name: sum(member.placed.processes for member in members)
            for name, members in self.by_role.items()
        }

    def threads(self, number: int) -> int:
        """The share of the task's vcores of one process of a member."""
        role = self.role(number)
        return max(1, role.resources.vcores // max(1, role.processes_per_task))

    def process_addresses(self, name: str) -> list[str]:
        """``host:port`` of the port ``name`` for each process of the gang, by rank."""
        return [
            self.address(number, name, local)
            for number, member in enumerate(self.members)
            for local in range(member.placed.processes)
        ]

    def addresses(self, name: str, role: str) -> list[str]:
        """``host:port`` of the port ``name`` for each process of a role, by task index."""
        return [
            joined(member.placed.address, _port(member, port_key(name, local)))
            for member in self.by_role.get(role, ())
            for local in range(member.placed.processes)
        ]

    def once(self, make: Callable[[GangTable], T]) -> T:
        """``make(self)``, called once for the gang, not for each process."""
        if make not in self._made:
            self._made[make] = make(self)
        return cast("T", self._made[make])

    @cached_property
    def _made(self) -> dict[object, object]:
        made: dict[object, object] = {}
        return made

    def defaults(self, number: int, values: Mapping[str, str]) -> dict[str, str]:
        """Those of ``values`` that neither the job nor the member's role sets itself."""
        given = {name for name, _ in (*self.job.env, *self.role(number).env)}
        return {name: value for name, value in values.items() if name not in given}


def _port(member: GangMember, key: str) -> int:
    for known, port in member.placed.ports:
        if known == key:
            return port
    raise InternalError(
        f"task {member.task.role}-{member.task.index} holds no port {key!r}",
        hint="Its agent did not report it: agent and AM are probably of two versions.",
    )
