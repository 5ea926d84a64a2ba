"""Pi as the area under 4 / (1 + x²) between 0 and 1: each rank adds up its strips."""

from __future__ import annotations

import math

from mpi4py import MPI

STRIPS = 4_000_000

world = MPI.COMM_WORLD
mine = range(world.rank, STRIPS, world.size)
area = sum(4 / (1 + ((strip + 0.5) / STRIPS) ** 2) for strip in mine) / STRIPS
pi = world.allreduce(area)
print(f"rank {world.rank} of {world.size} has added {area:.6f}", flush=True)
if world.rank == 0:
    print(f"pi is {pi:.10f}, off by {abs(pi - math.pi):.1e}", flush=True)
