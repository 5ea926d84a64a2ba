"""Amounts of what a node has and a task wants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
        """What is left, floored at zero: a snapshot may show a node overcommitted for a moment."""
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
        return f"{self.memory_mib} MiB, {self.vcores} vcores, {self.gpus} GPUs"


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
