"""Pi as the share of darts that hit a circle, thrown by all nodes of Ray's."""

from __future__ import annotations

import math
import os
import random
import time

import ray

THROWS, DARTS = 6, 4_000_000
JOIN_S = 240


@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
def throw(seed: int) -> tuple[str, float]:
    """On which node, and the share of its darts that hit."""
    draw = random.Random(seed)
    hits = sum(draw.random() ** 2 + draw.random() ** 2 < 1 for _ in range(DARTS))
    return ray.get_runtime_context().get_node_id(), hits / DARTS


def await_nodes(count: int) -> None:
    """They join one after another."""
    end = time.monotonic() + JOIN_S
    while len([node for node in ray.nodes() if node["Alive"]]) < count:
        if time.monotonic() > end:
            raise TimeoutError(f"{ray.nodes()} after {JOIN_S} s")
        time.sleep(0.5)


if __name__ == "__main__":
    ray.init()  # finds the head by RAY_ADDRESS
    await_nodes(int(os.environ["YARNAM_GROUP_WORLD_SIZE"]))
    thrown = ray.get([throw.remote(seed) for seed in range(THROWS)])
    print(f"{THROWS * DARTS} darts of {len({node for node, _ in thrown})} nodes", flush=True)
    pi = 4 * sum(share for _, share in thrown) / THROWS
    print(f"pi is {pi:.4f}, off by {abs(pi - math.pi):.1e}", flush=True)
