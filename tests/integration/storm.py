"""The storm: some jobs that always live, and one fault after another."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdfs_utils import TimeLimits, connect
from hdfs_utils import uri as uris
from hdfs_utils.errors import HdfsError
from tests.integration.fault_world import LIMIT_S
from tests.integration.storm_ends import output_trouble
from tests.integration.storm_faults import KINDS, Fault
from tests.integration.storm_world import Gang, Run, phase_of, submit
from yarnam.errors import Unavailable

if TYPE_CHECKING:
    from hdfs_utils import FileSystem
    from tests.integration.fault_world import FaultWorld
    from tests.integration.ha_hdfs import HaHdfs
    from tests.integration.storm_net import StormNet
    from yarnam.cluster import EmbeddedCluster

AT_ONCE = 2
"""Jobs alive while faults come."""

STEP_S = 0.5
HOME = "/storm"
"""On HDFS: of the jobs' checkpoints and outputs."""

TRAINING = Path(__file__).with_name("storm_training.py")

LASTING: dict[str, Any] = {
    "retry": {"on_user_failure": 99},  # HDFS may be away for longer than a save waits
    "am": {"attempts": 40, "attempts_interval": "60s", "agent_silence": "8s"},
}
"""What a storm's job needs beyond ``PATIENT``. The deaths of its AMs count for a minute; where the
Python alone dies, Skein's AM counts them by number (docs/explanation/lost-tasks.md)."""


@dataclass
class Storm:
    """Keeps some jobs alive and hits them, one fault after another."""

    world: FaultWorld
    net: StormNet
    pair: HaHdfs | None
    folder: Path
    seed: int
    small_disk: str = ""
    """The node with a disk that can be filled; empty: none."""
    active: str = "nn1"
    """Of the pair."""
    submit_s: float = 2.0
    """What the command has taken."""
    runs: list[Run] = field(default_factory=list)
    left_alone: list[str] = field(default_factory=list)
    """Jobs of clients that were killed: by their names."""
    phases: Counter[tuple[str, str]] = field(default_factory=Counter)
    torn: list[str] = field(default_factory=list)
    began_s: float = field(default_factory=time.monotonic)
    logs: list[Path] = field(default_factory=list)
    """Of the RM's earlier lives."""

    def __post_init__(self) -> None:
        # Not through the relays: what is true is looked at from outside.
        limits = TimeLimits.all(10.0)
        self.files: FileSystem = connect(conf_dir=str(self.cluster.conf_dir), limits=limits)

    @property
    def cluster(self) -> EmbeddedCluster:
        return self.world.cluster

    def say(self, text: str) -> None:
        print(f"  {time.monotonic() - self.began_s:6.1f} s  {text}", flush=True)

    def tell(self, fault: Fault, run: Run | None, text: str) -> None:
        """Before it is done. ``run``: the job that it is done to; None: to all."""
        if run is None:
            run = fault.dice().choice([run for run in self.runs if not run.is_over] or self.runs)
        else:
            run.hits.append(f"{fault.kind}: {text}")
        phase = phase_of(run)
        self.phases[fault.kind, phase] += 1
        self.say(f"fault {fault.number}: {fault.kind} at {phase}: {text}")

    def strike(self, fault: Fault) -> None:
        """At a random moment of whatever the jobs do."""
        self.fill()
        time.sleep(fault.wait_s)
        KINDS[fault.kind](self, fault)
        self.revive()
        self.look_at_outputs()

    # ---- jobs ----------------------------------------------------------------------------

    def home(self, run: Run) -> str:
        return f"{HOME}/{run.gang.name}"

    def job_dir(self, run: Run) -> str:
        return uris.parse(run.job.directory).path

    def one_with(self, accept: Callable[[Run], bool], dice: random.Random) -> Run:
        """One of the living jobs, as soon as there is such a one."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            if found := [run for run in self.fill() if accept(run)]:
                return dice.choice(found)
            time.sleep(0.3)
        raise AssertionError(f"no job to hit in {LIMIT_S:.0f} s")

    def fill(self) -> list[Run]:
        """Enough jobs; those that live."""
        living = [run for run in self.runs if not run.is_over]
        while len(living) < AT_ONCE:
            run = self.begin(len(self.runs) + 1)
            self.runs.append(run)
            living.append(run)
        return living

    def begin(self, number: int) -> Run:
        dice = random.Random(f"{self.seed}-gang-{number}")
        gang = Gang(
            f"storm-{number}", dice.choice((2, 3, 4)), dice.choice((1, 2, 4)),
            round(dice.uniform(2.0, 10.0), 1), dice.choice(("root.dl", "root.research")),
        )  # fmt: skip
        folder, home = self.folder / gang.name, f"{HOME}/{gang.name}"
        saves = f"hdfs://pair{home}" if self.pair and number % 2 else f"{home}/checkpoints"
        self.files.mkdirs(home)
        steps = max(1, round(gang.work_s / STEP_S))
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                run = submit(
                    self.world, gang, folder, **LASTING,
                    command=["python3", str(TRAINING), str(folder), str(steps), str(STEP_S)],
                    checkpoint={"directory": saves, "keep": 2},
                    data={"outputs": {"path": f"{home}/result"}},
                )  # fmt: skip
            except Unavailable as error:
                self.say(f"{gang.name} is submitted again: {error}")
                if time.monotonic() > deadline:
                    raise
                shutil.rmtree(folder)
            else:
                self.say(f"{run.job.id} is {gang}")
                return run

    def look_at_outputs(self) -> None:
        """Whoever reads one now finds all of it, or nothing."""
        for run in self.runs[-AT_ONCE - 2 :]:
            with suppress(HdfsError):
                if text := output_trouble(self.files, f"{self.home(run)}/result"):
                    self.torn.append(f"{run.job.id}: {text}")

    # ---- daemons -------------------------------------------------------------------------

    def start_daemon(self, name: str) -> None:
        daemon = self.cluster.daemon(name)
        if name == "rm":  # A daemon begins its log anew.
            self.logs.append(self.folder / f"rm-{len(self.logs)}.log")
            shutil.copy(daemon.log, self.logs[-1])
        try:
            daemon.start()
        except Unavailable:
            daemon.start()  # busy cores: its limit was over a moment too early

    def revive(self) -> None:
        """What has ended by itself: at a real site something starts it again."""
        for name in self.cluster.plan.daemons:
            if self.cluster.daemon(name).identity is None:
                self.say(f"{name} has ended by itself")
                self.start_daemon(name)

    def measure_submit(self) -> None:
        """Which the moments follow at which clients are killed."""
        document = self.world.document("left-0", "true")
        done = self.world.yarnam("submit", str(self.world.write(document)), "--detach").wait()
        assert done.code == 0, done
        self.submit_s = done.took_s
        self.left_alone.append("left-0")
