"""The description that each module of ``supported`` gives of its framework. The agent loads it, so
its imports are light."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from yarnam.core.frameworks.task_ports import COORDINATOR_PORT, port_key

if TYPE_CHECKING:
    from yarnam.core.frameworks.gang_table import GangTable

Environment = Callable[["GangTable", int, int], dict[str, str]]
"""The variables of one process: the gang, the number of its member, its local rank in it."""


def no_variables(_table: GangTable, _number: int, _local: int) -> dict[str, str]:
    """The environment of a framework that reads only the generic variables."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRules:
    """Which roles a job of the framework may have."""

    only: tuple[str, ...] = ()
    """The names of the roles; empty for any."""
    needs: tuple[str, ...] = ()
    """Each as in ``worker``, or ``chief or worker``: one of them."""
    single: tuple[str, ...] = ()
    """These have one task."""
    one: bool = False
    """One role, with any name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """The example that ``yarnam spec init`` writes: YAML, complete lines."""

    comment: str
    command: str = "[python3, code/train.py, --epochs, 10]"
    roles: str = ""
    """The section ``roles``, indented by two; if empty, ``gpus`` is written instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """One framework. The name of its module is its name."""

    title: str
    environment: Environment = no_variables
    variables: tuple[str, ...] = ()
    """Variables that ``environment`` always sets, so that a job may not. Its other variables are
    defaults, which give way to the job's own (``GangTable.defaults``)."""
    in_place_variables: tuple[str, ...] = ()
    """The same in a gang that changes its size while its processes continue."""
    ports: tuple[str, ...] = ()
    """Names of the ports that each process gets besides those of the spec."""
    grpc_ports: tuple[str, ...] = ()
    """Those whose server is always gRPC with SO_REUSEPORT."""
    bare_ports: tuple[str, ...] = ()
    """Those whose server sets neither SO_REUSEADDR nor SO_REUSEPORT. Each attempt uses one of them
    (``task_ports.in_turn``): the agent lets go of it just before the processes start."""
    interface_variables: tuple[str, ...] = ()
    """The variables that name the network interface of the node's address, besides those of NCCL,
    gloo and torch's RPC: defaults, which the agent sets."""
    one_process: bool = False
    """A task has one process, unless the spec sets another number: it drives all GPUs of the
    task."""
    device_by_local_rank: bool = False
    """Its programs take the device that their local rank names (``cuda:LOCAL_RANK``): of a task
    with a process for each GPU, every process sees all of them, in that order. Those of other
    frameworks see their own alone."""
    forms_anew: bool = False
    """Its processes re-form their group on their own when others leave or join: a gang may change
    its size without a restart."""
    leaves_on_notice: bool = False
    """With ``forms_anew``: its processes learn from the first task who belongs to the gang, and
    those that do not any longer leave on their own. A signal would end them in the middle of a
    collective operation, from which the others may not recover."""
    is_launcher: bool = False
    """That process starts the training processes of the task itself, so a task never has
    another."""
    program: str = ""
    """The program that runs the command of each process: a module of ``yarnam.agent.programs``."""
    roles: RoleRules = RoleRules()
    starter: Starter

    def knows(self, role: str, *, is_auxiliary: bool) -> bool:
        """Whether processes of this role belong to the framework. ``is_auxiliary``: a service or an
        optional role, which runs as a plain command unless it is one of the framework's own."""
        return not is_auxiliary or role in self.roles.only

    def port_names(self, role_ports: Sequence[str], processes: int) -> tuple[str, ...]:
        """Names of all ports that a task holds; ``role_ports`` are the spec's."""
        wanted = [*self.ports, *(name for name in role_ports if name not in self.ports)]
        ranks = range(processes)
        return (COORDINATOR_PORT, *(port_key(name, rank) for rank in ranks for name in wanted))
