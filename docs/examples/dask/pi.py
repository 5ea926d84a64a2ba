"""Pi as the share of darts that hit a circle, thrown by all workers of the cluster."""

from __future__ import annotations

import math
import os

import numpy as np
from distributed import Client, get_worker

THROWS, DARTS = 16, 200_000


def throw(seed: int) -> tuple[str, float]:
    """Which worker has thrown, and the share of its darts that hit."""
    x, y = np.random.default_rng(seed).random((2, DARTS))
    return get_worker().name, float((x * x + y * y < 1).mean())


if __name__ == "__main__":
    workers = int(os.environ["YARNAM_GROUP_WORLD_SIZE"])
    with Client() as client:  # finds the scheduler by DASK_SCHEDULER_ADDRESS
        client.wait_for_workers(workers)
        thrown = client.gather(client.map(throw, range(THROWS), pure=False))
    names = sorted({name for name, _ in thrown})
    print(f"{THROWS * DARTS} darts of {', '.join(names)}", flush=True)
    pi = 4 * sum(share for _, share in thrown) / THROWS
    print(f"pi is {pi:.4f}, off by {abs(pi - math.pi):.1e}", flush=True)
