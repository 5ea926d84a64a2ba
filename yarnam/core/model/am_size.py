"""How much memory the ApplicationMaster's container asks for."""

from __future__ import annotations

JVM_MIB = 256
"""Skein's Java AM: 128 MiB of heap (``-Xmx128M``) and what a JVM has beside it. 152 MiB resident
with a few containers; 229 to 245 with 100 and with 500 services, and without our JVM options, which
Java 8 does not read (skein-on-yarn.md, 10)."""

PYTHON_MIB = 100
"""Our AM without tasks: 49 MiB in tests/benchmarks/test_am_memory.py, and less than 100 with the
clients of HDFS and ZooKeeper (tests/benchmarks/test_footprint.py)."""
PYTHON_TASKS_PER_MIB = 6
"""49 MiB with 1 task, 62 with 100, 199 with 1,000 (tests/benchmarks/test_am_memory.py): an agent's
TLS connection is most of it."""

CHECK_MIB = 384
"""A check of a suspected input, in a process of its own on the ApplicationMaster's node."""

MARGIN = 1.25
"""YARN kills a container that has a page more than it asked for."""

STEP_MIB = 128
"""What sizes are rounded up to; YARN's own steps are coarser mostly."""


def am_memory_mib(tasks: int, *, has_inputs: bool) -> int:
    """For a gang of at most ``tasks`` tasks; ``has_inputs``: suspected ones are checked."""
    needed = JVM_MIB + PYTHON_MIB + tasks / PYTHON_TASKS_PER_MIB + has_inputs * CHECK_MIB
    return -(-round(needed * MARGIN) // STEP_MIB) * STEP_MIB
