"""The second tier's storm: kills and freezes at random moments, on a cluster of its own."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import wait_until_idle
from tests.integration.fault_world import LIMIT_S, MARKS, FaultWorld
from tests.integration.rm_books import read_books, shares
from tests.integration.storm_world import (
    Gang,
    Run,
    await_ends,
    hit_process,
    own_cluster,
    partial_starts,
    phase_of,
    submit,
)
from yarnam.cluster import EmbeddedCluster
from yarnam.errors import Unavailable

pytestmark = [*MARKS, pytest.mark.zookeeper, pytest.mark.chaos, pytest.mark.timeout(3600)]

ROUNDS = int(os.environ.get("YARNAM_CHAOS_ROUNDS", "50"))
PROCESSES = ("am", "java-am", "agent")
KINDS = (*PROCESSES, "nodemanager", "resourcemanager", "freeze")
AT_ONCE = 2
"""Jobs alive while faults come."""

ENDS_S = 300.0
"""From the last fault until all jobs have ended: each needs some seconds, an AM that has lost its
node half a minute until YARN starts the next."""


@pytest.fixture(scope="module")
def storm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultWorld]:
    folder = tmp_path_factory.mktemp("storm")
    with own_cluster(f"storm-{os.getpid()}", folder) as cluster:
        world = FaultWorld(cluster, folder)
        try:
            yield world
        finally:
            world.end_all()
            world.close()


@dataclass
class Storm:
    """Keeps some jobs alive and hits them, one fault after another."""

    world: FaultWorld
    folder: Path
    dice: random.Random
    runs: list[Run] = field(default_factory=list)
    began_s: float = field(default_factory=time.monotonic)
    phases: Counter[tuple[str, str]] = field(default_factory=Counter)
    logs: list[Path] = field(default_factory=list)
    """Of the RM's earlier lives."""

    @property
    def cluster(self) -> EmbeddedCluster:
        return self.world.cluster

    def say(self, text: str) -> None:
        print(f"  {time.monotonic() - self.began_s:6.1f} s  {text}", flush=True)

    def fill(self) -> list[Run]:
        """Enough jobs; those that live."""
        living = [run for run in self.runs if not run.is_over]
        while len(living) < AT_ONCE:
            number = len(self.runs) + 1
            dice = self.dice
            gang = Gang(
                f"storm-{number}", dice.choice((2, 3, 4)), dice.choice((1, 2, 4)),
                round(dice.uniform(2.0, 10.0), 1), dice.choice(("root.dl", "root.research")),
            )  # fmt: skip
            run = submit(self.world, gang, self.folder / gang.name)
            self.say(f"{run.job.id} is {gang}")
            self.runs.append(run)
            living.append(run)
        return living

    def strike(self, number: int, kind: str) -> None:
        """One fault, at a random moment of whatever the jobs do."""
        living = self.fill()
        time.sleep(self.dice.uniform(0.0, 6.0))
        if kind in PROCESSES:
            self.kill_process(number, kind)
        elif kind == "resourcemanager":
            self.count(number, kind, phase_of(self.dice.choice(living)), "killed")
            self.restart_rm()
        else:
            self.harm_node(number, kind, phase_of(self.dice.choice(living)))

    def kill_process(self, number: int, kind: str) -> None:
        """Of one of the jobs that have such a process; there will be one."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            living = self.fill()
            self.dice.shuffle(living)
            for run in living:
                phase = phase_of(run)
                if what := hit_process(self.world, run, kind, self.dice):
                    run.hits.append(f"{kind}: {what}")
                    self.count(number, kind, phase, f"{what} of {run.job.id}")
                    return
            time.sleep(0.3)
        raise AssertionError(f"no {kind} to kill in {LIMIT_S:.0f} s")

    def restart_rm(self) -> None:
        daemon = self.cluster.daemon("rm")
        daemon.kill()
        time.sleep(self.dice.uniform(0.0, 3.0))
        # A daemon begins its log anew.
        self.logs.append(self.folder / f"rm-{len(self.logs)}.log")
        shutil.copy(daemon.log, self.logs[-1])
        daemon.start()
        self.say("the ResourceManager is back")

    def harm_node(self, number: int, kind: str, phase: str) -> None:
        """For less or for more than YARN's own expiry (10 s)."""
        node = self.dice.choice(self.cluster.nodes)
        away_s = self.dice.uniform(1.0, 16.0)
        daemon = self.cluster.daemon(node.name)
        self.count(number, kind, phase, f"{node.name}, for {away_s:.1f} s")
        if kind == "freeze":
            daemon.kill(signal.SIGSTOP)
            try:
                time.sleep(away_s)
            finally:
                daemon.kill(signal.SIGCONT)
        else:
            daemon.kill()
            time.sleep(away_s)
            self.start_node(node.name)

    def start_node(self, name: str) -> None:
        daemon = self.cluster.daemon(name)
        try:
            daemon.start()
        except Unavailable:
            daemon.start()  # busy cores: its limit was over a moment too early

    def count(self, number: int, kind: str, phase: str, text: str) -> None:
        self.phases[kind, phase] += 1
        self.say(f"fault {number}: {kind} at {phase}: {text}")


def test_whatever_dies_or_hangs_every_job_ends_well_and_nothing_stays_held(
    storm: FaultWorld, tmp_path: Path
) -> None:
    seed = int(os.environ.get("YARNAM_CHAOS_SEED", time.time_ns() % 1_000_000))
    print(f"\nstorm: seed {seed}, {ROUNDS} faults")
    dice = random.Random(seed)
    kinds = [KINDS[number % len(KINDS)] for number in range(ROUNDS)]
    dice.shuffle(kinds)
    raging = Storm(storm, tmp_path, dice)
    for number, kind in enumerate(kinds, 1):
        raging.strike(number, kind)
    wrong = await_ends(raging.runs, ENDS_S)
    ended_s = time.time()
    for (kind, phase), count in sorted(raging.phases.items()):
        print(f"  {count:3d} x {kind} at {phase}")
    assert not wrong, "\n".join(wrong)
    storm.until_nodes_are_back()
    left = wait_until_idle(storm.cluster, 60.0)
    assert not left, left
    for run in raging.runs:
        storm.assert_cleared(run.job)
    books = read_books(*raging.logs, storm.cluster.daemon("rm").log)
    assert not (partial := partial_starts(raging.runs, books)), partial
    wanted = {run.job.id: run.gang.all_gpus for run in raging.runs}
    launches = sum(len(run.launches()) for run in raging.runs)
    print(f"  {len(raging.runs)} jobs, {launches} launches; {shares(books, wanted, ended_s)}")
