"""Which environment each training process gets, from the placement of the gang. Pure.

The generic variables are made here, those of one framework in ``yarnam.core.frameworks``. See
docs/reference/rendezvous.md for every variable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from yarnam.core.frameworks.compat_tony import tony_variables
from yarnam.core.frameworks.copy_peers import Holder, copy_peers
from yarnam.core.frameworks.framework import Framework
from yarnam.core.frameworks.gang_table import GangTable
from yarnam.core.frameworks.registry import framework_named
from yarnam.core.frameworks.task_ports import joined, port_key
from yarnam.core.model.actions import GangMember
from yarnam.core.model.ids import PRE_RUN_ROLE, TaskId
from yarnam.core.model.job_spec import JobSpec
from yarnam.wire.input_shares import NO_SHARE_ROLES, all_shares, first_shares
from yarnam.wire.output_paths import pre_run_checkpoint_path, task_output_path
from yarnam.wire.protocol import (
    ENV_COPY_HOLDERS,
    ENV_COPY_PEER,
    ENV_PRE_RUN,
    ENV_SDK,
    PORT_OF_COPIES,
)


def variable_name(prefix: str, name: str) -> str:
    """``YARNAM_INPUT_`` and ``train-set`` make ``YARNAM_INPUT_TRAIN_SET``."""
    return prefix + re.sub(r"[^A-Z0-9]", "_", name.upper())


def environments(
    job: JobSpec, members: Sequence[GangMember], attempt: int, application: str = ""
) -> tuple[tuple[dict[str, str], ...], ...]:
    """The rendezvous environment of each member's processes, in local rank order. The variables win
    over the job's own, but for the few defaults that the job or role sets itself. Raises
    InternalError when a member lacks a port that its framework needs."""
    if not members:
        return ()
    if members[0].task.role == PRE_RUN_ROLE:
        return ((_pre_run_environment(job, members[0], attempt, application),),)
    made = _Environments(GangTable(job, tuple(members), attempt, application))
    return tuple(
        tuple(made.environment(number, local) for local in range(member.placed.processes))
        for number, member in enumerate(members)
    )


def _pre_run_environment(
    job: JobSpec, member: GangMember, attempt: int, application: str
) -> dict[str, str]:
    """The environment as rank 0 of a world of one, with the share of the inputs of one process of
    the gang, and an empty directory of its own for checkpoints."""
    role = job.leading_role
    trained = replace(
        member, task=TaskId(role, 0), placed=replace(member.placed, role=role, processes=1)
    )
    if job.checkpoint.directory:
        place = pre_run_checkpoint_path(job.checkpoint.directory, application)
        job = replace(job, checkpoint=replace(job.checkpoint, directory=place, restore="none"))
    table = GangTable(job, (trained,), attempt, application, is_pre_run=True)
    return {**_Environments(table).environment(0, 0), ENV_PRE_RUN: "1"}


def in_common(envs: Sequence[Sequence[Mapping[str, str]]]) -> dict[str, str]:
    """The values that all processes of the gang share. A list of all hosts is by far the largest
    part of an environment, and a gang of ``n`` processes would have it ``n`` times."""
    every = [env for of_member in envs for env in of_member]
    common = dict(every[0]) if every else {}
    for env in every[1:]:
        common = {name: value for name, value in common.items() if env.get(name) == value}
    return common


@dataclass(frozen=True)
class _Environments:
    """It has no slots, so that values of the whole gang are computed once, not for each process."""

    table: GangTable

    @cached_property
    def _framework(self) -> Framework:
        return framework_named(self.table.job.framework)

    def environment(self, number: int, local: int) -> dict[str, str]:
        generic = self._generic(number, local)
        if self.table.job.compat == "tony":
            generic |= tony_variables(self.table, number, local, self._world.world_size)
        known = self._known_numbers.get(self.table.members[number].task)
        if known is None:
            return generic
        return generic | self._framework.environment(self._known, known, local)

    @cached_property
    def _world(self) -> GangTable:
        """Those that train together: neither services nor optional, which come last."""
        return self._without(self.table.job.auxiliary_roles)

    @cached_property
    def _known(self) -> GangTable:
        """Those that the framework knows: the world, and other roles of its own."""
        auxiliary = self.table.job.auxiliary_roles
        known = {role for role in auxiliary if self._framework.knows(role, is_auxiliary=True)}
        return self._without(auxiliary - known)

    @cached_property
    def _known_numbers(self) -> dict[TaskId, int]:
        return {member.task: number for number, member in enumerate(self._known.members)}

    def _without(self, roles: frozenset[str]) -> GangTable:
        members = self.table.members
        left = tuple(member for member in members if member.task.role not in roles)
        is_all = self.table.is_pre_run or len(left) == len(members)
        return self.table if is_all else replace(self.table, members=left)

    @cached_property
    def _first_shares(self) -> Sequence[int | None]:
        return first_shares(self.table.members, self.table.job.auxiliary_roles)

    @cached_property
    def _all_shares(self) -> int:
        if self.table.is_pre_run:
            without = NO_SHARE_ROLES | self.table.job.auxiliary_roles
            readers = [role for role in self.table.job.roles if role.name not in without]
            return sum(role.tasks * role.processes_per_task for role in readers)
        return all_shares(self.table.members, self.table.job.auxiliary_roles)

    def _generic(self, number: int, local: int) -> dict[str, str]:
        table, world = self.table, self._world
        member = table.members[number]
        host, port = world.coordinator
        env = {
            "YARNAM_JOB_NAME": table.job.name,
            "YARNAM_APPLICATION_ID": table.application,
            "YARNAM_ATTEMPT": str(table.attempt),
            "YARNAM_RANK": str(table.rank(number, local)),
            "YARNAM_WORLD_SIZE": str(world.world_size),
            "YARNAM_LOCAL_RANK": str(local),
            "YARNAM_LOCAL_WORLD_SIZE": str(member.placed.processes),
            "YARNAM_GROUP_RANK": str(number),
            "YARNAM_GROUP_WORLD_SIZE": str(len(world.members)),
            "YARNAM_NODE_RANK": str(table.node_ranks[member.placed.node]),
            "YARNAM_NUM_NODES": str(len(world.node_ranks)),
            "YARNAM_ROLE": member.task.role,
            "YARNAM_TASK_INDEX": str(member.task.index),
            "YARNAM_ROLE_RANK": str(table.role_rank(number, local)),
            "YARNAM_ROLE_WORLD_SIZE": str(table.role_world_size(number)),
            "YARNAM_COORDINATOR_ADDRESS": joined(host, port),
            "YARNAM_COORDINATOR_HOST": host,
            "YARNAM_COORDINATOR_PORT": str(port),
            "YARNAM_HOSTS": world.hosts,
            "YARNAM_ADDRESS": member.placed.address,
        }
        env |= self._places()
        env |= self._copies(number)
        env |= self._output(str(member.task))
        env[ENV_SDK] = json.dumps(self._sdk(number, local), separators=(",", ":"))
        for name in table.role(number).ports:
            own = table.port(number, port_key(name, local))
            env[variable_name("YARNAM_PORT_", name)] = str(own)
        return env | self._addresses(member.task.role)

    def _addresses(self, role: str) -> dict[str, str]:
        """The addresses of the named ports of all roles. If several roles have a port of one name,
        the member's own role comes first, then the first one in the spec."""
        known = self._port_addresses
        roles = (role, *(spec.name for spec in self.table.job.roles))
        return {
            name: value for one in reversed(roles) for name, value in known.get(one, {}).items()
        }

    @cached_property
    def _port_addresses(self) -> dict[str, dict[str, str]]:
        table = self.table
        return {
            role: {
                variable_name("YARNAM_ADDRESSES_", name): ",".join(table.addresses(name, role))
                for name in table.role_named(role).ports
            }
            for role in table.by_role
        }

    def _sdk(self, number: int, local: int) -> dict[str, object]:
        """The values that only ``yarnam.train`` reads: complete, so that it needs no defaults of
        its own."""
        sdk: dict[str, object] = {
            "input_share": self._share(number, local),
            "checkpoint": self._checkpoint_options(),
        }
        if self.table.is_pre_run:
            sdk["pre_run_steps"] = self.table.job.pre_run.steps
        return sdk

    def _share(self, number: int, local: int) -> tuple[int, int] | None:
        """This process's share of the inputs, and of how many; ``None`` if it has none."""
        first = self._first_shares[number] if self.table.job.inputs else None
        return None if first is None else (first + local, self._all_shares)

    def _checkpoint_options(self) -> dict[str, object] | None:
        spec = self.table.job.checkpoint
        if not spec.directory:
            return None
        best = {"metric": spec.best_metric, "mode": spec.best_mode, "keep": spec.best_keep}
        return {
            "keep": spec.keep,
            "keep_every": spec.keep_every,
            "best": best if spec.best_metric else None,
            "every": spec.every,
            "background": spec.in_background,
            "restore": spec.restore,
            "spool_limit_s": spec.spool_limit_s,
            "spool_max_mib": spec.spool_max_mib,
            "mirror": spec.mirror,
        }

    def _places(self) -> dict[str, str]:
        inputs = self.table.job.inputs
        env = {variable_name("YARNAM_INPUT_", given.name): given.uri for given in inputs}
        env |= {
            variable_name("YARNAM_SKIPPED_", given.name): "\n".join(given.skipped)
            for given in inputs
            if given.skipped
        }
        return env | self._checkpoints()

    def _output(self, task: str) -> dict[str, str]:
        """A place of the task's own: the AM makes the job's output of them when all have
        succeeded."""
        target = self.table.job.output
        if not target:
            return {}
        place = task_output_path(target, self.table.application, self.table.attempt, task)
        return {"YARNAM_OUTPUT": place, "YARNAM_OUTPUT_TARGET": target}

    def _checkpoints(self) -> dict[str, str]:
        spec = self.table.job.checkpoint
        if not spec.directory:
            return {}
        env = {"YARNAM_CHECKPOINT_DIR": spec.directory, "YARNAM_CHECKPOINT_KEEP": str(spec.keep)}
        if self.table.application:
            # The attempt grows with every launch of the gang, over all lives of the AM.
            env["YARNAM_CHECKPOINT_TOKEN"] = f"{self.table.application}:{self.table.attempt}"
        return env

    def _copies(self, number: int) -> dict[str, str]:
        """Where the task's agent sends copies of checkpoints, and whom it asks for them."""
        if not self.table.job.checkpoint.in_memory:
            return {}
        holders = ",".join(self._holders.values())
        return {ENV_COPY_HOLDERS: holders, ENV_COPY_PEER: self._copy_peers.get(number, "")}

    @cached_property
    def _holders(self) -> dict[int, str]:
        """Their addresses, by the number of the member."""
        found = {}
        for number, member in enumerate(self.table.members):
            port = dict(member.placed.ports).get(PORT_OF_COPIES)
            if port is not None:
                found[number] = joined(member.placed.address, port)
        return found

    @cached_property
    def _copy_peers(self) -> dict[int, str]:
        numbers = tuple(self._holders)
        placed = [self.table.members[number].placed for number in numbers]
        peers = copy_peers([Holder(one.rack, one.node) for one in placed])
        return {
            number: self._holders[numbers[peer]]
            for number, peer in zip(numbers, peers, strict=True)
            if peer is not None
        }
