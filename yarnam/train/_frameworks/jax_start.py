"""JAX's rendezvous from the job's environment."""

from __future__ import annotations

import os
from typing import Any

from yarnam.train._job.job_context import rank, world_size


def initialize_jax(**options: Any) -> bool:
    """Call ``jax.distributed.initialize`` with the job's coordinator, size and rank.

    Does nothing, and does not import JAX, when the world has one process. Returns whether it was
    called. ``options`` are passed on; what JAX raises comes through: a gang that cannot meet must
    not train. Call it before anything else of JAX.
    """
    if world_size() <= 1:
        return False
    import jax

    arguments: dict[str, Any] = {
        "coordinator_address": os.environ["YARNAM_COORDINATOR_ADDRESS"],
        "num_processes": world_size(),
        "process_id": rank(),
    }
    if rank() == 0:
        # JAX's own default is all interfaces; the gang connects to this address.
        os.environ.setdefault(
            "JAX_COORDINATOR_BIND_ADDRESS", os.environ["YARNAM_COORDINATOR_ADDRESS"]
        )
    arguments.update(options)
    jax.distributed.initialize(**arguments)
    return True
