"""The second tier's soak: many short jobs through one cluster, and nothing grows with their number.

``YARNAM_SOAK_JOBS`` says how many jobs, ``YARNAM_SOAK_AT_ONCE`` how many of them at a time. They
come in waves. After each some jobs come one by one, which shows what a submit takes on an idle
cluster. Then, when no job lives, everything is counted; times are printed, and judged by the
reader: what else the machine does is in them, so each has one beside it that no job changes.
"""

from __future__ import annotations

import os
import re
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.conftest import wait_until_idle
from tests.integration.fault_world import AM, LIMIT_S, MARKS, FaultWorld
from tests.integration.storm_ends import left_in_zookeeper, left_on_nodes, until_nothing, znodes
from tests.integration.storm_world import own_cluster
from yarnam.client.submit.leftovers import job_removal
from yarnam.core.model.outcomes import VerdictKind

JOBS = int(os.environ.get("YARNAM_SOAK_JOBS", "60"))
AT_ONCE = int(os.environ.get("YARNAM_SOAK_AT_ONCE", "4"))
WAVES = 5
ALONE = 3
"""Jobs after each wave that are submitted while no other lives."""

pytestmark = [
    *MARKS, pytest.mark.zookeeper, pytest.mark.chaos, pytest.mark.timeout(1800 + 60 * JOBS),
]  # fmt: skip

FILES_PER_JOB = 14
"""The job's record: what ``ps --all``, ``events``, ``logs`` and ``history`` show of a job that is
over."""

KEPT_CONNECTIONS = 8
"""To the NameNode's HTTP server: one for each thread that has asked at the same time."""

RECORDS = ("/jobs/", "/applications/")
HISTORY = "/history/"


@dataclass(frozen=True)
class Counts:
    """Of this process, which is the client of all jobs, and of what the jobs have left."""

    ended: int
    threads: int
    files: int
    """Descriptors."""
    resident_mb: float
    am_peak_mb: float
    """Of the largest AM (Python) of this wave."""
    znodes: int
    records: int
    """Files and directories on HDFS of this wave's jobs, before they are removed."""
    kept: int
    """The same of all jobs, once those have been removed that have ended."""
    history: int
    other_hdfs: int
    """Below the user's home, but for those."""
    submit_s: float
    """Median of the wave."""
    alone_submit_s: float
    """Best of those that came one by one."""
    ps_s: float
    """By the command, from its start to its end."""
    idle_ps_s: float
    """The same for ``yarnam --help``: what a start of Python takes now."""

    def __str__(self) -> str:
        return (
            f"  after {self.ended:4d} jobs: client {self.threads} threads, {self.files} files, "
            f"{self.resident_mb:.0f} MB; AM at most {self.am_peak_mb:.0f} MB; "
            f"{self.znodes} znodes; "
            f"HDFS {self.records} of the wave's jobs, {self.kept} once those were removed, "
            f"{self.history} in the history, {self.other_hdfs} else; "
            f"submit {self.submit_s:.2f} s, alone {self.alone_submit_s:.2f} s; "
            f"ps {self.ps_s:.2f} s (--help {self.idle_ps_s:.2f} s)"
        )


@dataclass
class Soak:
    world: FaultWorld
    ended: int = 0
    wrong: list[str] = field(default_factory=list)
    submits_s: list[float] = field(default_factory=list)
    counts: list[Counts] = field(default_factory=list)

    def run_job(self, number: int) -> None:
        began_s = time.monotonic()
        job = self.world.client.submit(
            self.world.write(self.world.document(f"soak-{number}", "true", worker={"tasks": 1}))
        )
        self.submits_s.append(time.monotonic() - began_s)
        verdict = job.wait(LIMIT_S)
        if verdict.kind is not VerdictKind.SUCCEEDED:
            self.wrong.append(f"{job.id}: {verdict}")

    def wave(self, jobs: int) -> None:
        first, submitted = self.ended, len(self.submits_s)
        with watched_peaks(self.world) as peaks, ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self.run_job, range(first, first + jobs)))
        in_wave_s = statistics.median(self.submits_s[submitted:])
        left = wait_until_idle(self.world.cluster, LIMIT_S)
        assert not left, left
        for number in range(first + jobs, first + jobs + ALONE):
            self.run_job(number)
        self.ended += jobs + ALONE
        left = wait_until_idle(self.world.cluster, LIMIT_S)
        left += until_nothing(lambda: left_in_zookeeper(self.world.cluster))
        left += until_nothing(lambda: left_on_nodes(self.world.cluster))
        assert not left, left
        me = psutil.Process()
        records, _, _ = self.on_hdfs()
        removed = job_removal.remove_old(self.world.site, 0.0)
        self.wrong += [f"{each.key} stays: {each.why_kept}" for each in removed if each.why_kept]
        kept, history, other = self.on_hdfs()
        self.counts.append(
            Counts(
                self.ended, me.num_threads(), me.num_fds(), me.memory_info().rss / 2**20,
                max(peaks.values(), default=0.0), len(znodes(self.world.cluster)), records, kept,
                history, other,
                in_wave_s, min(self.submits_s[-ALONE:]), self.took_s("ps"), self.took_s("--help"),
            )
        )  # fmt: skip
        print(self.counts[-1], flush=True)

    def took_s(self, *arguments: str) -> float:
        """The best of three: what the machine does beside it only adds."""
        took = []
        for _ in range(3):
            done = self.world.yarnam(*arguments).wait()
            assert done.code == 0, done
            took.append(done.took_s)
        return min(took)

    def on_hdfs(self) -> tuple[int, int, int]:
        """In directories of jobs, in their history, and all else that the user has there."""
        home = f"/user/{self.world.cluster.plan.user}"
        paths = [f"{status.path}/" for status in self.world.site.files.walk(home)]
        records = sum(any(place in path for place in RECORDS) for path in paths)
        history = sum(HISTORY in path for path in paths)
        return records, history, len(paths) - records - history


@contextmanager
def watched_peaks(world: FaultWorld) -> Iterator[dict[int, float]]:
    """Process id to the peak of its resident memory in MB, of all AMs meanwhile."""
    peaks: dict[int, float] = {}
    over = threading.Event()
    owner = f"YARNAM_CLUSTER_ID={world.cluster.plan.cluster_id}".encode()

    def watch() -> None:
        while not over.wait(0.5):
            for entry in Path("/proc").iterdir():
                with suppress(OSError):
                    if entry.name.isdigit() and AM.encode() in (entry / "cmdline").read_bytes():
                        text = (entry / "status").read_text()
                        found = re.search(r"VmHWM:\s+(\d+) kB", text)
                        if found and owner in (entry / "environ").read_bytes():
                            peaks[int(entry.name)] = int(found[1]) / 1024

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        over.set()
        thread.join()


@pytest.fixture
def soak(tmp_path: Path) -> Iterator[Soak]:
    with own_cluster(f"soak-{os.getpid()}", tmp_path / "cluster") as cluster:
        world = FaultWorld(cluster, tmp_path)
        try:
            yield Soak(world)
        finally:
            world.close()


def test_nothing_grows_with_the_number_of_jobs_ended(soak: Soak) -> None:
    size = max(AT_ONCE, JOBS // WAVES - ALONE)
    print(f"\nsoak: {(size + ALONE) * WAVES} jobs, {AT_ONCE} at a time")
    for _ in range(WAVES):
        soak.wave(size)
    assert not soak.wrong, "\n".join(soak.wrong)
    # What is loaded or opened once is there after the second wave: libraries, arenas of the
    # allocator for as many threads, connections that are kept.
    first, last = soak.counts[1], soak.counts[-1]
    jobs = last.ended - first.ended
    slope = jobs / 4  # one thing that each job leaves is four times as much
    assert last.threads <= first.threads + slope, (first, last)
    assert last.files <= first.files + KEPT_CONNECTIONS + slope, (first, last)
    assert last.znodes <= first.znodes + slope, (first, last)
    assert last.other_hdfs <= first.other_hdfs + slope, (first, last)
    assert last.resident_mb <= first.resident_mb + 40.0 + 0.1 * jobs, (first, last)
    assert last.am_peak_mb <= first.am_peak_mb * 1.3 + 10.0, (first, last)
    assert last.records <= FILES_PER_JOB * (size + ALONE) + slope, (first, last)
    assert last.kept == first.kept, (first, last)
    assert last.history <= first.history + jobs, (first, last)
