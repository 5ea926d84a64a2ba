"""PyTorch, one process for each rank: the ``env://`` contract and torchrun's variables, which
Lightning, accelerate, the HF Trainer and DeepSpeed read too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarnam.core.frameworks.framework import Framework, Starter

if TYPE_CHECKING:
    from yarnam.core.frameworks.gang_table import GangTable


def _environment(table: GangTable, number: int, local: int) -> dict[str, str]:
    host, port = table.coordinator
    member = table.members[number]
    env = {
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
        "RANK": str(table.rank(number, local)),
        "WORLD_SIZE": str(table.world_size),
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(member.placed.processes),
        "GROUP_RANK": str(number),
        "GROUP_WORLD_SIZE": str(len(table.members)),
        "ROLE_NAME": member.task.role,
        "ROLE_RANK": str(table.role_rank(number, local)),
        "ROLE_WORLD_SIZE": str(table.role_world_size(number)),
        "TORCHELASTIC_RESTART_COUNT": str(max(0, table.attempt - 1)),
        "TORCHELASTIC_MAX_RESTARTS": str(table.job.retry.max_restarts),
        "TORCHELASTIC_RUN_ID": table.application or table.job.name,
        # Rank 0 itself serves the store at MASTER_PORT.
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }
    defaults = {
        # torchrun gives each of several processes one thread; a share of the vcores is kinder.
        "OMP_NUM_THREADS": str(table.threads(number)),
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        # The size of the flight recorder, which is read when the gang hangs.
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "512",
    }
    return env | table.defaults(number, defaults)


FRAMEWORK = Framework(
    title="PyTorch",
    environment=_environment,
    device_by_local_rank=True,
    variables=(
        *("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
        *("GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME"),
        *("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID"),
        "TORCHELASTIC_USE_AGENT_STORE",
    ),
    starter=Starter(
        comment="""\
# One process per GPU; init_process_group() reads MASTER_ADDR, RANK, WORLD_SIZE and LOCAL_RANK.
"""
    ),
)
