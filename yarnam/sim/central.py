"""The yardstick: an all-seeing central gang scheduler on the same cluster and workload.

At every arrival and every end it looks at all waiting jobs, queues below their share first, then by
arrival. A gang that fits starts at that instant, best fit, without any delay. The first that
does not fit gets a reservation: the nodes that are free for it soonest, by the *true* run times.
Others may start beside it if they leave those nodes alone or end before (EASY backfill). It
preempts nobody. It shares no line with ``yarnam.core.admission`` or ``yarnam.core.placement``,
which it is there to judge.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from yarnam.core.model.resources import Resources
from yarnam.core.queues.fair_share import instantaneous_shares
from yarnam.sim.sim_settings import InitialGang, RmSettings, SimJob
from yarnam.sim.world import JobRecord
from yarnam.sim.yarn_model.sim_queues import queue_tree

LEAST_LEFT_S = 900.0
"""A gang without a declared run time is expected to run at least this much longer."""

Piece = tuple[int, int]
"""A node and the containers of the job that go there."""


class CentralScheduler:
    """Runs one workload from start to end; fills in the records."""

    def __init__(
        self,
        settings: RmSettings,
        records: list[JobRecord],
        initial_gangs: Sequence[InitialGang] = (),
        *,
        knows_all: bool = True,
    ) -> None:
        """``knows_all`` False: of run times only what was declared is known. A gang that declared
        nothing is expected to run as long again as it has run, and never ends in time for a
        backfill."""
        self._knows_all = knows_all
        self._declared: dict[int, tuple[float, float | None]] = {}
        # When each running gang began, and its declared end.
        self._settings = settings
        self._records = records
        self._free = [settings.gpus_per_node] * settings.nodes
        self._ends: list[tuple[float, int]] = []
        self._placed: dict[int, tuple[str, int, Sequence[Piece]]] = {}
        self._waiting: list[JobRecord] = []
        self._used = {queue.name: 0 for queue in settings.queues}
        self._limits = {queue.name: queue.max_gpus for queue in settings.queues}
        self._tree = queue_tree(settings.queues)
        self._size = Resources(0, 0, settings.gpus)
        self._now_s = 0.0
        for number, gang in enumerate(initial_gangs, 1):
            self._occupy(-number, gang.queue, gang.size, gang.pieces, gang.ends_s)
            self._declared[-number] = (gang.began_s, gang.declared_ends_s)

    def run(self) -> None:
        arrivals = sorted(self._records, key=lambda r: (r.job.submit_s, r.job.number))
        place = 0
        while place < len(arrivals) or self._ends:
            next_arrival = arrivals[place].job.submit_s if place < len(arrivals) else float("inf")
            if self._ends and self._ends[0][0] <= next_arrival:
                self._now_s, number = heapq.heappop(self._ends)
                self._end(number)
            else:
                self._now_s = next_arrival
                self._waiting.append(arrivals[place])
                place += 1
            self._schedule()

    def _occupy(
        self, number: int, queue: str, gpus: int, pieces: Sequence[Piece], ends_s: float
    ) -> None:
        for node, count in pieces:
            self._free[node] -= gpus * count
            self._used[queue] += gpus * count
        self._placed[number] = (queue, gpus, pieces)
        heapq.heappush(self._ends, (ends_s, number))

    def _end(self, number: int) -> None:
        queue, gpus, pieces = self._placed.pop(number)
        for node, count in pieces:
            self._free[node] += gpus * count
            self._used[queue] -= gpus * count
        if number >= 0:
            self._records[number].ended_s = self._now_s

    def _schedule(self) -> None:
        head: JobRecord | None = None
        kept: set[int] = set()
        ready_s = 0.0
        for record in self._in_order():
            job = record.job
            limit = self._limits[job.queue]
            if limit is not None and self._used[job.queue] + job.gpus > limit:
                continue
            fit = self._fit(job, frozenset())
            if head is None:
                if fit is not None:
                    self._start(record, *fit)
                else:
                    head = record
                    kept, ready_s = self._reserve(job)
                continue
            if fit is None:
                continue
            if self._now_s + self._runs_s(job) > ready_s:
                fit = self._fit(job, kept)
            if fit is not None:
                self._start(record, *fit)

    def _in_order(self) -> list[JobRecord]:
        active = {record.job.queue for record in self._waiting}
        active |= {name for name, used in self._used.items() if used}
        shares = instantaneous_shares(self._tree, self._size, active)
        return sorted(
            self._waiting,
            key=lambda r: (
                self._used[r.job.queue] >= shares[r.job.queue].gpus,
                r.job.submit_s,
                r.job.number,
            ),
        )

    def _start(self, record: JobRecord, gpus: int, pieces: list[Piece]) -> None:
        job = record.job
        self._occupy(job.number, job.queue, gpus, pieces, self._now_s + job.duration_s)
        declared_s = None if job.declared_s is None else self._now_s + job.declared_s
        self._declared[job.number] = (self._now_s, declared_s)
        self._waiting.remove(record)
        record.stood_s = self._now_s
        record.attempts = 1
        record.nodes = len(pieces)
        record.racks = len({node // self._settings.nodes_per_rack for node, _ in pieces})

    def _fit(
        self, job: SimJob, barred: set[int] | frozenset[int]
    ) -> tuple[int, list[Piece]] | None:
        """In the largest containers that fit now, down to half. yarnam's jobs may be cut smaller; a
        central scheduler that does so starts large gangs sooner and has the others wait longer
        (596 s in place of 236 s on average, seed 7), so this is the harder yardstick."""
        largest = job.spec.roles[0].resources.gpus
        for gpus in dict.fromkeys((largest, max(1, largest // 2))):
            pieces = self._best_fit(job.gpus // gpus, gpus, barred)
            if pieces is not None:
                return gpus, pieces
        return None

    def _best_fit(
        self, count: int, gpus: int, barred: set[int] | frozenset[int]
    ) -> list[Piece] | None:
        hosts = sorted(
            (-(min(free // gpus, count)), free, node)
            for node, free in enumerate(self._free)
            if free >= gpus and node not in barred
        )
        pieces: list[Piece] = []
        for fitting, _, node in hosts:
            take = min(-fitting, count)
            pieces.append((node, take))
            count -= take
            if not count:
                return pieces
        return None

    def _reserve(self, job: SimJob) -> tuple[set[int], float]:
        """The nodes that are free for the whole gang soonest, and when."""
        gpus = job.spec.roles[0].resources.gpus
        releases: dict[int, list[tuple[float, int]]] = {}
        for end_s, number in self._ends:
            _, each, pieces = self._placed[number]
            expected_s = self._expected_s(number, end_s)
            for node, count in pieces:
                releases.setdefault(node, []).append((expected_s, each * count))
        slots: list[tuple[float, int, int]] = []
        for node, free in enumerate(self._free):
            ends = sorted(releases.get(node, ()))
            for number in range(1, self._settings.gpus_per_node // gpus + 1):
                room, at_s = free, self._now_s
                for end_s, freed in ends:
                    if room >= number * gpus:
                        break
                    room, at_s = room + freed, end_s
                if room >= number * gpus:
                    slots.append((at_s, free, node))
        slots.sort()
        needed = slots[: job.gpus // gpus]
        return {node for _, _, node in needed}, needed[-1][0]

    def _runs_s(self, job: SimJob) -> float:
        if self._knows_all:
            return job.duration_s
        return float("inf") if job.declared_s is None else job.declared_s

    def _expected_s(self, number: int, end_s: float) -> float:
        if self._knows_all:
            return end_s
        began_s, declared_s = self._declared[number]
        if declared_s is not None and declared_s > self._now_s:
            return declared_s
        return self._now_s + max(LEAST_LEFT_S, self._now_s - began_s)
