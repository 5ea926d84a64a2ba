"""Amounts of what a node has and a task wants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NO_LIMIT = 2**31 - 1
"""YARN's report of an amount without a limit."""


@dataclass(frozen=True, slots=True)
class Resources:
    """An amount of memory (MiB), virtual cores and GPUs. Never negative after ``minus``."""

    memory_mib: int = 0
    vcores: int = 0
    gpus: int = 0

    def plus(self, other: Resources) -> Resources:
        return Resources(
            self.memory_mib + other.memory_mib,
            self.vcores + other.vcores,
            self.gpus + other.gpus,
        )

    def minus(self, other: Resources) -> Resources:
        """Subtract, floored at zero: a snapshot may show a node overcommitted for a moment."""
        return Resources(
            max(0, self.memory_mib - other.memory_mib),
            max(0, self.vcores - other.vcores),
            max(0, self.gpus - other.gpus),
        )

    def times(self, count: int) -> Resources:
        return Resources(self.memory_mib * count, self.vcores * count, self.gpus * count)

    def fits_in(self, free: Resources) -> bool:
        return (
            self.memory_mib <= free.memory_mib
            and self.vcores <= free.vcores
            and self.gpus <= free.gpus
        )

    def count_in(self, free: Resources) -> int:
        """How many of these fit into ``free``. An amount of nothing fits without limit: 2**31."""
        count = 2**31
        if self.gpus > 0:
            count = free.gpus // self.gpus
        if self.memory_mib > 0:
            count = min(count, free.memory_mib // self.memory_mib)
        if self.vcores > 0:
            count = min(count, free.vcores // self.vcores)
        return count

    def __str__(self) -> str:
        """Show the limited resources."""
        amounts = ((self.memory_mib, "MiB"), (self.vcores, "vcores"), (self.gpus, "GPUs"))
        limited = [f"{amount} {unit}" for amount, unit in amounts if amount < NO_LIMIT]
        return ", ".join(limited) or "no limit"


def split_gpus(ids: Sequence[str], processes: int) -> tuple[tuple[str, ...], ...]:
    """Contiguous shares of a task's GPUs, one per process, the first ones larger by one."""
    each, extra = divmod(len(ids), max(1, processes))
    shares: list[tuple[str, ...]] = []
    start = 0
    for number in range(processes):
        end = start + each + (1 if number < extra else 0)
        shares.append(tuple(ids[start:end]))
        start = end
    return tuple(shares)


# ---- the ApplicationMaster's container -----------------------------------------------------------

JVM_MIB = 256
"""Skein's Java AM: 128 MiB of heap (``-Xmx128M``) and what a JVM has beside it. 152 MiB resident
with a few containers; 229 to 245 with 100 and with 500 services, and without our JVM options, which
Java 8 does not read."""

PYTHON_MIB = 100
"""Our AM without tasks: 49 MiB in tests/benchmarks/test_am_memory.py, and less than 100 with the
clients of HDFS and ZooKeeper (tests/benchmarks/test_footprint.py)."""
PYTHON_TASKS_PER_MIB = 6
"""49 MiB with 1 task, 62 with 100, 199 with 1,000 (tests/benchmarks/test_am_memory.py): an agent's
TLS connection is most of it."""

CHECK_MIB = 384
"""A check of a suspected input, in a process of its own on the ApplicationMaster's node."""

AM_MARGIN = 1.25
"""YARN kills a container that has a page more than it asked for."""

AM_STEP_MIB = 128
"""Sizes are rounded up to this; YARN's own steps are coarser mostly."""


def am_memory_mib(tasks: int, *, has_inputs: bool) -> int:
    """The memory of the ApplicationMaster's container, for a gang of at most ``tasks`` tasks.

    With ``has_inputs`` it has room for the check of suspected inputs.
    """
    needed = JVM_MIB + PYTHON_MIB + tasks / PYTHON_TASKS_PER_MIB + has_inputs * CHECK_MIB
    return -(-round(needed * AM_MARGIN) // AM_STEP_MIB) * AM_STEP_MIB
