"""The storm: some jobs that always live, and faults, some at the same time."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdfs_utils import TimeLimits, connect
from hdfs_utils import uri as uris
from hdfs_utils.errors import HdfsError
from hdfs_utils.errors import Unavailable as HdfsUnavailable
from tests.integration.storm_ends import output_trouble
from tests.integration.storm_faults import KINDS, VICTIM_S, Fault, place_of_daemon, places_of
from tests.integration.storm_world import Gang, Run, submit
from yarnam.errors import NeverFits, Unavailable

if TYPE_CHECKING:
    from hdfs_utils import FileSystem
    from tests.integration.fault_world import FaultWorld
    from tests.integration.ha_hdfs import HaHdfs
    from tests.integration.storm_net import StormNet
    from yarnam.cluster import EmbeddedCluster

AT_ONCE = 3
"""Jobs alive while faults come."""

FILL_PERIOD_S = 0.5
AGAIN_S = 900.0
"""For so long a job that was refused is submitted again: YARN and HDFS may be away by turns."""

STEP_S = 0.5
HOME = "/storm"
"""On HDFS: of the jobs' checkpoints and outputs."""

TRAINING = Path(__file__).with_name("storm_training.py")

LASTING: dict[str, Any] = {
    "retry": {"on_user_failure": 99},  # HDFS may be away for longer than a save waits
    # While connections to the NameNode are cut, NodeManagers fetch nothing, and an AM attempt fails
    # each second: as many as the ResourceManager allows.
    "am": {"attempts": 40, "attempts_interval": "60s", "agent_silence": "8s"},
}
"""What a storm's job needs beyond ``PATIENT``."""


@dataclass
class Storm:
    """Keeps some jobs alive and hits them. Several threads do, each with a fault of its own."""

    world: FaultWorld
    net: StormNet
    pair: HaHdfs
    folder: Path
    seed: int
    receiver: str = ""
    """The URL of who is told how each job ends, and never answers to the end."""
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
    _todo: list[Fault] = field(default_factory=list)
    _busy: set[str] = field(default_factory=set)
    """Places at which a fault is."""
    _turn: threading.Condition = field(default_factory=threading.Condition)
    _starting: threading.Lock = field(default_factory=threading.Lock)
    """A cluster starts one daemon at a time."""
    _looking: threading.Lock = field(default_factory=threading.Lock)

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
            run = fault.dice().choice(self.living() or self.runs)
        else:
            run.hits.append(f"{fault.kind}: {text}")
        with self._turn:
            self.phases[fault.kind, run.phase] += 1
        self.say(f"fault {fault.number}: {fault.kind} at {run.phase}: {text}")

    def rage(self, faults: Iterable[Fault], begin_by_s: float, at_once: int) -> None:
        """All of them, but none that would begin after so many seconds. ``at_once`` at most, each
        at a place of its own: two of the same would mend each other."""
        self._todo = list(faults)
        self.fill()
        until = time.monotonic() + begin_by_s
        with ThreadPoolExecutor(at_once + 1) as pool:
            lanes = [pool.submit(self._rage_on, until) for _ in range(at_once)]
            filler = pool.submit(self._fill_until, lanes)
        for each in (*lanes, filler):
            each.result()
        self.revive({place_of_daemon(name) for name in self.cluster.plan.daemons})

    def _rage_on(self, until: float) -> None:
        try:
            while time.monotonic() < until and (fault := self._next()) is not None:
                try:
                    self.strike(fault)
                finally:
                    self._leave(places_of(fault.kind))
        except BaseException:
            with self._turn:
                self._todo.clear()  # the others end too
            raise

    def _next(self) -> Fault | None:
        """The first fault whose places are free; None: there are no more."""
        with self._turn:
            while self._todo:
                for fault in self._todo:
                    if self._busy.isdisjoint(places := places_of(fault.kind)):
                        self._todo.remove(fault)
                        self._busy |= places
                        return fault
                self._turn.wait()
        return None

    def _leave(self, places: set[str]) -> None:
        with self._turn:
            self._busy -= places
            self._turn.notify_all()

    def strike(self, fault: Fault) -> None:
        """At a random moment of whatever the jobs do."""
        places = places_of(fault.kind)
        time.sleep(fault.wait_s)
        self.revive(places)
        KINDS[fault.kind](self, fault)
        self.revive(places)
        self.look_at_outputs()

    # ---- jobs ----------------------------------------------------------------------------

    def home(self, run: Run) -> str:
        return f"{HOME}/{run.gang.name}"

    def job_dir(self, run: Run) -> str:
        return uris.parse(run.job.directory).path

    def one_with(self, accept: Callable[[Run], bool], dice: random.Random) -> Run:
        """One of the living jobs, as soon as there is such a one."""
        deadline = time.monotonic() + VICTIM_S
        while time.monotonic() < deadline:
            if found := [run for run in self.living() if accept(run)]:
                return dice.choice(found)
            time.sleep(0.3)
        raise AssertionError(f"no job to hit in {VICTIM_S:.0f} s")

    def living(self) -> list[Run]:
        """As last seen."""
        return [run for run in self.runs if not run.is_over]

    def fill(self) -> None:
        """Enough jobs."""
        while len([run for run in self.living() if not run.look()]) < AT_ONCE:
            self.runs.append(self.begin(len(self.runs) + 1))

    def _fill_until(self, lanes: list[Future[None]]) -> None:
        """The one thread that asks jobs how they are: that takes long where something is away."""
        while not all(lane.done() for lane in lanes):
            try:
                self.fill()
            except BaseException:
                with self._turn:
                    self._todo.clear()
                raise
            time.sleep(FILL_PERIOD_S)

    def begin(self, number: int) -> Run:
        dice = random.Random(f"{self.seed}-gang-{number}")
        gang = Gang(
            f"storm-{number}", dice.choice((2, 3, 4)), dice.choice((1, 2, 4)),
            round(dice.uniform(2.0, 10.0), 1), dice.choice(("root.dl", "root.research")),
        )  # fmt: skip
        folder, home = self.folder / gang.name, f"{HOME}/{gang.name}"
        saves = f"hdfs://pair{home}" if number % 2 else f"{home}/checkpoints"
        steps, said = max(1, round(gang.work_s / STEP_S)), ""
        deadline = time.monotonic() + AGAIN_S
        while True:
            try:
                self.files.mkdirs(home)
                run = submit(
                    self.world, gang, folder, **LASTING,
                    command=["python3", str(TRAINING), str(folder), str(steps), str(STEP_S)],
                    checkpoint={"directory": saves, "keep": 2},
                    data={"outputs": {"path": f"{home}/result"}},
                    notify=[{"kind": "webhook", "url": self.receiver}],
                )  # fmt: skip
            except (HdfsUnavailable, Unavailable, NeverFits) as error:  # NeverFits: nodes away
                if said != (said := str(error).partition("\n")[0]):
                    self.say(f"{gang.name} is submitted again: {said}")
                if time.monotonic() > deadline:
                    raise
                shutil.rmtree(folder, ignore_errors=True)
                time.sleep(FILL_PERIOD_S)
            else:
                self.say(f"{run.job.id} is {gang}")
                return run

    def look_at_outputs(self) -> None:
        """Whoever reads one now finds all of it, or nothing. Where HDFS does not answer, or another
        thread looks, nobody waits for that."""
        if not self._looking.acquire(blocking=False):
            return
        try:
            for run in self.runs[-AT_ONCE - 2 :]:
                if text := output_trouble(self.files, f"{self.home(run)}/result"):
                    self.torn.append(f"{run.job.id}: {text}")
        except HdfsError:
            pass
        finally:
            self._looking.release()

    # ---- daemons -------------------------------------------------------------------------

    def start_daemon(self, name: str) -> None:
        daemon = self.cluster.daemon(name)
        if name == "rm":  # A daemon begins its log anew.
            self.logs.append(self.folder / f"rm-{len(self.logs)}.log")
            shutil.copy(daemon.log, self.logs[-1])
        with self._starting:
            try:
                daemon.start()
            except Unavailable:
                daemon.start()  # busy cores: its limit was over a moment too early

    def revive(self, places: set[str]) -> None:
        """What has ended by itself there: at a real site something starts it again."""
        for name in self.cluster.plan.daemons:
            if name == "rm" and self.cluster.daemon("zk").identity is None:
                continue  # it would wait for the other, which is started after it
            if place_of_daemon(name) in places and self.cluster.daemon(name).identity is None:
                self.say(f"{name} has ended by itself")
                self.start_daemon(name)

    def measure_submit(self) -> None:
        """Which the moments follow at which clients are killed."""
        document = self.world.document("left-0", "true", am=LASTING["am"])
        done = self.world.yarnam("submit", str(self.world.write(document)), "--detach").wait()
        assert done.code == 0, done
        self.submit_s = done.took_s
        self.left_alone.append("left-0")
