"""Which environment each training process gets, from the placement of the gang. Pure.

One order decides everything: the members as ``LaunchGang`` lists them (rack, node, GPU). Global
rank = processes of the members before + local rank. *Local* means within the task, because each
task is a container with its own CUDA_VISIBLE_DEVICES: two tasks on one node both have a local rank
0, and it is right for both. See docs/reference/rendezvous.md for every variable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from yarnam.core.model.actions import GangMember
from yarnam.core.model.ids import PRE_RUN_ROLE, NodeId, TaskId, leading_role
from yarnam.core.model.job_spec import Framework, JobSpec, RoleSpec
from yarnam.errors import InternalError
from yarnam.wire.input_shares import NO_SHARE_ROLES, all_shares, first_shares
from yarnam.wire.output_paths import pre_run_checkpoint_path, task_output_path
from yarnam.wire.protocol import COORDINATOR_PORT, ENV_PRE_RUN, ENV_SDK, TASK_PORT, port_key

# Roles of TensorFlow's that are not members of the training cluster.
_NOT_IN_TF_CLUSTER = frozenset({"evaluator"})


def variable_name(prefix: str, name: str) -> str:
    """``YARNAM_INPUT_`` and ``train-set`` make ``YARNAM_INPUT_TRAIN_SET``."""
    return prefix + re.sub(r"[^A-Z0-9]", "_", name.upper())


def first_ranks(members: Sequence[GangMember]) -> tuple[int, ...]:
    """The global rank of each member's first process."""
    ranks, total = [], 0
    for member in members:
        ranks.append(total)
        total += member.placed.processes
    return tuple(ranks)


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
    table = _Table(job, tuple(members), attempt, application)
    return tuple(
        tuple(table.environment(number, local) for local in range(member.placed.processes))
        for number, member in enumerate(table.members)
    )


def _pre_run_environment(
    job: JobSpec, member: GangMember, attempt: int, application: str
) -> dict[str, str]:
    """As rank 0 of a world of one, with that share of the inputs that one process of the gang has,
    and a directory of its own for checkpoints, in which there are none."""
    role = leading_role([one.name for one in job.roles])
    trained = replace(
        member, task=TaskId(role, 0), placed=replace(member.placed, role=role, processes=1)
    )
    if job.checkpoint.directory:
        place = pre_run_checkpoint_path(job.checkpoint.directory, application)
        job = replace(job, checkpoint=replace(job.checkpoint, directory=place, restore="none"))
    table = _Table(job, (trained,), attempt, application, is_pre_run=True)
    return {**table.environment(0, 0), ENV_PRE_RUN: "1"}


def in_common(envs: Sequence[Sequence[Mapping[str, str]]]) -> dict[str, str]:
    """What all processes of the gang have alike. A list of all hosts is much the largest part of
    an environment, and a gang of ``n`` processes would have it ``n`` times."""
    every = [env for of_member in envs for env in of_member]
    common = dict(every[0]) if every else {}
    for env in every[1:]:
        common = {name: value for name, value in common.items() if env.get(name) == value}
    return common


@dataclass(frozen=True)
class _Table:
    """Without slots: what holds for the whole gang is computed once, not for each process."""

    job: JobSpec
    members: tuple[GangMember, ...]
    attempt: int
    application: str
    is_pre_run: bool = False

    def environment(self, number: int, local: int) -> dict[str, str]:
        env = self._generic(number, local)
        framework = self.job.framework
        if framework is Framework.JAX:
            env |= self._jax(number, local)
        elif framework is Framework.PYTORCH:
            env |= self._torch(number, local)
        elif framework is Framework.TENSORFLOW:
            env["TF_CONFIG"] = self._tf_config(number, local)
        return env

    @cached_property
    def world_size(self) -> int:
        return sum(member.placed.processes for member in self.members)

    @cached_property
    def _first_ranks(self) -> tuple[int, ...]:
        return first_ranks(self.members)

    @cached_property
    def _first_shares(self) -> Sequence[int | None]:
        return first_shares(self.members)

    @cached_property
    def _all_shares(self) -> int:
        if self.is_pre_run:
            readers = [role for role in self.job.roles if role.name not in NO_SHARE_ROLES]
            return sum(role.tasks * role.processes_per_task for role in readers)
        return all_shares(self.members)

    @cached_property
    def _hosts(self) -> str:
        return ",".join(member.placed.address for member in self.members)

    @cached_property
    def _node_ranks(self) -> dict[NodeId, int]:
        nodes = dict.fromkeys(member.placed.node for member in self.members)
        return {node: number for number, node in enumerate(nodes)}

    def rank(self, number: int, local: int) -> int:
        return self._first_ranks[number] + local

    @property
    def coordinator(self) -> tuple[str, int]:
        first = self.members[0]
        return first.placed.address, _port(first, COORDINATOR_PORT)

    def _role(self, number: int) -> RoleSpec:
        return self._role_of(self.members[number].task.role)

    def _role_of(self, name: str) -> RoleSpec:
        for role in self.job.roles:
            if role.name == name:
                return role
        raise InternalError(f"the gang has a task of role {name!r}, which the job does not have")

    def _of_role(self, name: str) -> tuple[GangMember, ...]:
        """A role's members by task index, so that worker-0 is 0 in every framework."""
        return self._by_role.get(name, ())

    @cached_property
    def _by_role(self) -> dict[str, tuple[GangMember, ...]]:
        found: dict[str, list[GangMember]] = {}
        for member in sorted(self.members, key=lambda member: member.task.index):
            found.setdefault(member.task.role, []).append(member)
        return {name: tuple(members) for name, members in found.items()}

    @cached_property
    def _role_ranks(self) -> dict[TaskId, int]:
        """The first process of each task among those of its role."""
        found = {}
        for members in self._by_role.values():
            for member, rank in zip(members, first_ranks(members), strict=True):
                found[member.task] = rank
        return found

    def _role_rank(self, number: int, local: int) -> int:
        return self._role_ranks[self.members[number].task] + local

    def _role_world_size(self, number: int) -> int:
        return self._role_sizes[self.members[number].task.role]

    @cached_property
    def _role_sizes(self) -> dict[str, int]:
        return {
            name: sum(member.placed.processes for member in members)
            for name, members in self._by_role.items()
        }

    def _generic(self, number: int, local: int) -> dict[str, str]:
        member = self.members[number]
        host, port = self.coordinator
        env = {
            "YARNAM_JOB_NAME": self.job.name,
            "YARNAM_APPLICATION_ID": self.application,
            "YARNAM_ATTEMPT": str(self.attempt),
            "YARNAM_RANK": str(self.rank(number, local)),
            "YARNAM_WORLD_SIZE": str(self.world_size),
            "YARNAM_LOCAL_RANK": str(local),
            "YARNAM_LOCAL_WORLD_SIZE": str(member.placed.processes),
            "YARNAM_GROUP_RANK": str(number),
            "YARNAM_GROUP_WORLD_SIZE": str(len(self.members)),
            "YARNAM_NODE_RANK": str(self._node_ranks[member.placed.node]),
            "YARNAM_NUM_NODES": str(len(self._node_ranks)),
            "YARNAM_ROLE": member.task.role,
            "YARNAM_TASK_INDEX": str(member.task.index),
            "YARNAM_ROLE_RANK": str(self._role_rank(number, local)),
            "YARNAM_ROLE_WORLD_SIZE": str(self._role_world_size(number)),
            "YARNAM_COORDINATOR_ADDRESS": _join(host, port),
            "YARNAM_COORDINATOR_HOST": host,
            "YARNAM_COORDINATOR_PORT": str(port),
            "YARNAM_HOSTS": self._hosts,
            "YARNAM_ADDRESS": member.placed.address,
        }
        env |= self._places()
        env |= self._output(str(member.task))
        env[ENV_SDK] = json.dumps(self._sdk(number, local), separators=(",", ":"))
        for name in self._role(number).ports:
            env[variable_name("YARNAM_PORT_", name)] = str(_port(member, port_key(name, local)))
            env[variable_name("YARNAM_ADDRESSES_", name)] = self._role_addresses[
                member.task.role, name
            ]
        return env

    @cached_property
    def _role_addresses(self) -> dict[tuple[str, str], str]:
        """Of each role's named ports."""
        return {
            (role, name): ",".join(self._addresses(name, members))
            for role, members in self._by_role.items()
            for name in self._role_of(role).ports
        }

    def _sdk(self, number: int, local: int) -> dict[str, object]:
        """What only ``yarnam.train`` reads: complete, so that it needs no defaults of its own."""
        sdk: dict[str, object] = {
            "input_share": self._share(number, local),
            "checkpoint": self._checkpoint_options(),
        }
        if self.is_pre_run:
            sdk["pre_run_steps"] = self.job.pre_run.steps
        return sdk

    def _share(self, number: int, local: int) -> tuple[int, int] | None:
        """Which share of the inputs is this process's, of how many; None: it has none."""
        first = self._first_shares[number] if self.job.inputs else None
        return None if first is None else (first + local, self._all_shares)

    def _checkpoint_options(self) -> dict[str, object] | None:
        spec = self.job.checkpoint
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
        }

    def _places(self) -> dict[str, str]:
        env = {variable_name("YARNAM_INPUT_", given.name): given.uri for given in self.job.inputs}
        env |= {
            variable_name("YARNAM_SKIPPED_", given.name): "\n".join(given.skipped)
            for given in self.job.inputs
            if given.skipped
        }
        return env | self._checkpoints()

    def _output(self, task: str) -> dict[str, str]:
        """A place of the task's own: the AM makes the job's output of them when all have
        succeeded."""
        target = self.job.output
        if not target:
            return {}
        place = task_output_path(target, self.application, self.attempt, task)
        return {"YARNAM_OUTPUT": place, "YARNAM_OUTPUT_TARGET": target}

    def _checkpoints(self) -> dict[str, str]:
        spec = self.job.checkpoint
        if not spec.directory:
            return {}
        env = {"YARNAM_CHECKPOINT_DIR": spec.directory, "YARNAM_CHECKPOINT_KEEP": str(spec.keep)}
        if self.application:
            # The attempt grows with every launch of the gang, over all lives of the AM.
            env["YARNAM_CHECKPOINT_TOKEN"] = f"{self.application}:{self.attempt}"
        return env

    def _addresses(self, name: str, members: Sequence[GangMember]) -> list[str]:
        return [
            _join(member.placed.address, _port(member, port_key(name, local)))
            for member in members
            for local in range(member.placed.processes)
        ]

    def _jax(self, number: int, local: int) -> dict[str, str]:
        host, port = self.coordinator
        rank = self.rank(number, local)
        env = {
            # The only one of these that jax.distributed.initialize() reads by itself.
            "JAX_COORDINATOR_ADDRESS": _join(host, port),
            "JAX_NUM_PROCESSES": str(self.world_size),
            "JAX_PROCESS_ID": str(rank),
            # Kubeflow's JAXJob contract.
            "COORDINATOR_ADDRESS": host,
            "COORDINATOR_PORT": str(port),
            "NUM_PROCESSES": str(self.world_size),
            "PROCESS_ID": str(rank),
        }
        if rank == 0:
            # Its default is all interfaces, where nodes that share a machine would meet.
            env["JAX_COORDINATOR_BIND_ADDRESS"] = _join(host, port)
        return env

    def _torch(self, number: int, local: int) -> dict[str, str]:
        host, port = self.coordinator
        member = self.members[number]
        role = self._role(number)
        env = {
            "MASTER_ADDR": host,
            "MASTER_PORT": str(port),
            "RANK": str(self.rank(number, local)),
            "WORLD_SIZE": str(self.world_size),
            "LOCAL_RANK": str(local),
            "LOCAL_WORLD_SIZE": str(member.placed.processes),
            "GROUP_RANK": str(number),
            "GROUP_WORLD_SIZE": str(len(self.members)),
            "ROLE_NAME": member.task.role,
            "ROLE_RANK": str(self._role_rank(number, local)),
            "ROLE_WORLD_SIZE": str(self._role_world_size(number)),
            "TORCHELASTIC_RESTART_COUNT": str(max(0, self.attempt - 1)),
            "TORCHELASTIC_MAX_RESTARTS": str(self.job.retry.max_restarts),
            "TORCHELASTIC_RUN_ID": self.application or self.job.name,
            # Rank 0 itself serves the store at MASTER_PORT.
            "TORCHELASTIC_USE_AGENT_STORE": "False",
        }
        # torchrun gives each of several processes one thread; a share of the vcores is kinder.
        threads = max(1, role.resources.vcores // max(1, role.processes_per_task))
        defaults = {"OMP_NUM_THREADS": str(threads), "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}
        given = {name for name, _ in (*self.job.env, *role.env)}
        return env | {name: value for name, value in defaults.items() if name not in given}

    def _tf_config(self, number: int, local: int) -> str:
        task = {"type": self.members[number].task.role, "index": self._role_rank(number, local)}
        return json.dumps({"cluster": self._tf_cluster, "task": task}, separators=(",", ":"))

    @cached_property
    def _tf_cluster(self) -> dict[str, list[str]]:
        roles = [role.name for role in self.job.roles if role.name not in _NOT_IN_TF_CLUSTER]
        cluster = {name: self._addresses(TASK_PORT, self._of_role(name)) for name in roles}
        return {name: addresses for name, addresses in cluster.items() if addresses}


def _port(member: GangMember, name: str) -> int:
    for known, port in member.placed.ports:
        if known == name:
            return port
    raise InternalError(
        f"task {member.task.role}-{member.task.index} holds no port {name!r}",
        hint="Its agent did not report it: agent and AM are probably of two versions.",
    )


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
