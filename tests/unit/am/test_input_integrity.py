"""The care of a running job's inputs, on an HDFS in memory and the real blacklist."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from hdfs_utils.blacklist import Entry, FileBlacklist, FileVersion, Key, State, state_of
from hdfs_utils.blacklist.entries import new_claim
from hdfs_utils.errors import Unavailable as HdfsUnavailable
from hdfs_utils.validation.check_in_subprocess import CheckOutcome
from tests.fakes.blacklist_notifier import FakeBlacklistNotifier, FakeChannel
from tests.fakes.files import MemoryFiles
from tests.fakes.input_endpoint import FakeInputEndpoint
from tests.fakes.state_store import FakeStore, StoreDisk
from tests.unit.am.am_world import job
from yarnam.adapters.hdfs.shared_blacklist import SharedBlacklist
from yarnam.am.inputs.input_integrity import DataAccess, InputIntegrity
from yarnam.am.inputs.input_rechecks import Rechecks
from yarnam.core.model.events import AgentRegistered, Event, InputsRefused, TaskExited
from yarnam.core.model.ids import AskId, ContainerId, NodeId
from yarnam.core.model.job_spec import DataInput, OnCorrupt
from yarnam.core.model.outcomes import ExitKind, ProcessExit
from yarnam.errors import BadSpec, Unavailable, UsageError
from yarnam.ports.job_inputs import SuspectReport

SKIP = DataInput("set", "hdfs://memory/data/set", OnCorrupt.SKIP, 0.5, files=10, length=100)
SOON_S = 10.0


def until(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + SOON_S
    while not what():
        assert time.monotonic() < deadline, "not within 10 s"
        time.sleep(0.005)


@dataclass
class World:
    given: DataInput = SKIP
    files: MemoryFiles = field(default_factory=MemoryFiles)
    disk: StoreDisk = field(default_factory=StoreDisk)
    tower: FakeChannel = field(default_factory=FakeChannel)
    endpoint: FakeInputEndpoint = field(default_factory=FakeInputEndpoint)
    events: list[Event] = field(default_factory=list)
    outcome: CheckOutcome = field(default_factory=lambda: CheckOutcome("clean", format="tfrecord"))
    looks: list[str] = field(default_factory=list)
    made: list[InputIntegrity] = field(default_factory=list)

    def __post_init__(self) -> None:
        for number in range(10):
            self.files.write_bytes(f"/data/set/{number}.tfrecord", b"0123456789")

    def life(self, am_attempt: int = 1, **limits: float) -> InputIntegrity:
        """An AM attempt with its care of inputs."""
        access = DataAccess(self._open, self.endpoint, self._check, "am")
        inputs = InputIntegrity(
            job(inputs=(self.given,)), "application_1_0001", access,
            FakeStore(self.disk, am_attempt), self.events.append, time.time, start_delay_s=0.0,
            **limits,
        )  # fmt: skip
        inputs.open(is_first_life=am_attempt == 1)
        self.made.append(inputs)
        return inputs

    def _open(self, uri: str) -> tuple[MemoryFiles, SharedBlacklist]:
        return self.files, self.blacklist()

    def _check(self, uri: str, limit_s: float) -> CheckOutcome:
        self.looks.append(uri)
        status = self.files.stat(uri.removeprefix(self.files.uri))
        return replace(self.outcome, length=status.length, mtime_ms=status.mtime_ms)

    def blacklist(self) -> SharedBlacklist:
        return SharedBlacklist(FileBlacklist(self.files), FakeBlacklistNotifier(self.tower))

    def say(self, name: str, state: State = State.PROVED) -> None:
        """Another job's word, and the notifier."""
        status = self.files.stat(f"/data/set/{name}")
        key = Key(status.path, FileVersion(status.length, status.mtime_ms))
        blacklist = self.blacklist()
        blacklist.add([Entry(key, frozenset([new_claim(state, "ann", "bad-crc", "seen")]))])
        blacklist.close()

    def states(self) -> dict[str, State]:
        known = FileBlacklist(self.files).read(["/data/set"]).known.trusted
        return {
            e.path.rpartition("/")[2]: state_of(e.claims, time.time())
            for e in known.entries.values()
        }

    def excluded_files(self, inputs: InputIntegrity) -> tuple[int, int]:
        """Now, and from the next epoch on."""
        told = inputs.status().excluded_files
        return (told[0].files, told[0].later) if told else (0, 0)


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    for inputs in world.made:
        inputs.close()
    names = {thread.name for thread in threading.enumerate()}
    assert not names & {"inputs", "input-checks"}


def test_what_others_prove_is_left_out_from_the_next_epoch_on(world: World) -> None:
    inputs = world.life()
    assert inputs.settle("set", 0) == ()
    world.say("3.tfrecord")
    until(lambda: world.excluded_files(inputs) == (0, 1))
    assert inputs.settle("set", 0) == ()  # this epoch goes on as it began
    assert inputs.settle("set", 1) == ("3.tfrecord",)
    assert world.excluded_files(inputs) == (1, 0)


def test_a_later_am_attempt_says_the_same(world: World) -> None:
    first = world.life()
    world.say("3.tfrecord")
    until(lambda: world.excluded_files(first) == (0, 1))
    assert first.settle("set", 0) == ("3.tfrecord",)
    first.close()
    world.files.write_bytes("/data/set/3.tfrecord", b"mended....", overwrite=True)
    world.endpoint.is_served.clear()
    second = world.life(am_attempt=2)
    world.endpoint.is_served.wait(SOON_S)
    assert second.settle("set", 0) == ("3.tfrecord",)
    assert second.settle("set", 1) == ()  # the file that was written again is taken back


def test_all_who_ask_at_once_get_the_same(world: World) -> None:
    inputs = world.life()
    world.say("3.tfrecord")
    answers: list[tuple[str, ...]] = []
    threads = [
        threading.Thread(target=lambda: answers.append(inputs.settle("set", 0))) for _ in range(8)
    ]
    for number, thread in enumerate(threads):
        thread.start()
        if number == 3:
            world.say("4.tfrecord")
    for thread in threads:
        thread.join(SOON_S)
    assert len(answers) == 8
    assert len(set(answers)) == 1


def test_a_list_is_written_again_after_an_outage(world: World) -> None:
    inputs = world.life()
    world.disk.outages = 1
    assert inputs.settle("set", 0) == ()  # after one more try


def test_the_list_is_written_down_before_it_is_told(world: World) -> None:
    inputs = world.life(store_limit_s=0.0)
    world.disk.outages = 100
    with pytest.raises(Unavailable):
        inputs.settle("set", 1)
    world.disk.outages = 0
    world.say("3.tfrecord")
    until(lambda: world.excluded_files(inputs)[1] == 1)
    assert inputs.settle("set", 1) == ("3.tfrecord",)  # nobody had been told another one


def test_no_such_input(world: World) -> None:
    with pytest.raises(UsageError, match="no data input 'sett'"):
        world.life().settle("sett", 0)


def test_a_blacklist_that_cannot_be_read_leaves_what_was_known_at_submit(world: World) -> None:
    world.given = replace(SKIP, skipped=("1.tfrecord",), skipped_share=0.1)

    def fail(operation: str, path: str) -> None:
        raise HdfsUnavailable("no NameNode", path=path, operation=operation)

    world.files.fail = fail
    assert world.life(first_answer_limit_s=0.2).settle("set", 0) == ("1.tfrecord",)


@pytest.mark.parametrize("policy", [OnCorrupt.FAIL, OnCorrupt.SKIP])
def test_what_the_policy_does_not_allow_ends_the_job(world: World, policy: OnCorrupt) -> None:
    world.given = replace(SKIP, on_corrupt=policy, max_skipped=0.05)
    inputs = world.life()
    world.say("3.tfrecord", State.SUSPECTED)
    world.say("4.tfrecord")
    until(lambda: world.events)
    (event,) = world.events
    assert isinstance(event, InputsRefused)
    assert "/data/set/4.tfrecord (bad-crc: seen)" in event.message
    assert "3.tfrecord" not in event.message
    with pytest.raises(BadSpec, match="input 'set'"):
        inputs.settle("set", 0)


@pytest.mark.parametrize(
    ("outcome", "state", "left"),
    [
        (CheckOutcome("corrupt", "bad-crc", "record 1"), State.PROVED, 1),
        (CheckOutcome("clean", format="tfrecord", is_covered=True), State.CLEARED, 0),
        (CheckOutcome("clean", format="jsonl"), State.SUSPECTED, 1),
        (CheckOutcome("storage", "block-corrupt", "no good replica"), State.CLEARED, 0),
        (CheckOutcome("not checked", "needs-library", "needs x"), State.SUSPECTED, 1),
    ],
    ids=lambda value: value.verdict if isinstance(value, CheckOutcome) else "",
)
def test_a_complaint_is_looked_into(
    world: World, outcome: CheckOutcome, state: State, left: int
) -> None:
    world.outcome = outcome
    inputs = world.life()
    inputs.complain("n1", [SuspectReport("hdfs://memory/data/set/7.tfrecord", "ValueError: bad")])
    until(lambda: inputs.status().suspects and inputs.status().suspects[0].state != "waiting")
    assert inputs.finish(SOON_S) == ()
    (suspect,) = inputs.status().suspects
    assert suspect.path == "/data/set/7.tfrecord"
    until(lambda: world.states() == {"7.tfrecord": state})
    assert len(inputs.settle("set", 0)) == left
    assert world.looks == ["hdfs://memory/data/set/7.tfrecord"]


def test_the_node_that_complained_is_heard_too(world: World) -> None:
    world.outcome = CheckOutcome("clean", format="tfrecord", is_covered=True)
    inputs = world.life()
    assert inputs.next_check("n1") is None
    inputs.complain("n1", [SuspectReport("/data/set/7.tfrecord", "bad")])
    until(lambda: world.looks)
    got: list[int] = []

    def ask_for_work() -> bool:
        check = inputs.next_check("n1")
        if check is not None:
            got.append(check.number)
        return check is not None

    until(ask_for_work)
    status = world.files.stat("/data/set/7.tfrecord")
    inputs.checked(
        got[0], CheckOutcome("corrupt", "bad-crc", "here", "tfrecord", True, 10, status.mtime_ms)
    )
    until(lambda: inputs.status().suspects[0].state == "suspected")
    assert "damaged as n1 reads it" in inputs.status().suspects[0].why


def test_at_the_end_nobody_waits_for_agents_that_are_gone(world: World) -> None:
    world.outcome = CheckOutcome("corrupt", "truncated", "cut")
    inputs = world.life()
    assert inputs.next_check("n1") is None
    inputs.complain("n1", [SuspectReport("/data/set/7.tfrecord", "bad")])
    began = time.monotonic()
    inputs.finish(SOON_S)
    assert time.monotonic() - began < SOON_S / 2
    (suspect,) = inputs.status().suspects
    assert (suspect.state, suspect.why) == ("proved", "cut; seen on am")


def test_at_the_end_a_check_is_taken_back_from_an_agent_of_this_node(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent beside the ApplicationMaster has taken the file, and leaves."""
    world.outcome = CheckOutcome("corrupt", "truncated", "cut")
    begin = Rechecks.start
    monkeypatch.setattr(Rechecks, "start", lambda self: None)
    inputs = world.life()
    inputs.complain("am", [SuspectReport("/data/set/7.tfrecord", "bad")])
    until(lambda: inputs.next_check("am") is not None)
    began = time.monotonic()
    begin(inputs._rechecks)
    inputs.finish(SOON_S)
    assert time.monotonic() - began < SOON_S / 2
    assert inputs.next_check("am") is None, "it gets no other one"
    (suspect,) = inputs.status().suspects
    assert (suspect.state, suspect.why) == ("proved", "cut; seen on am")


def test_last_words_of_a_failed_process_are_read(world: World) -> None:
    world.outcome = CheckOutcome("corrupt", "truncated", "cut")
    inputs = world.life()
    ask = AskId(1, "worker", 0)
    lines = ("Traceback", "OSError: cannot parse hdfs://memory/data/set/2.tfrecord")
    failed = ProcessExit(0, ExitKind.NON_ZERO, code=1, last_lines=lines)
    stopped = ProcessExit(1, ExitKind.STOPPED, last_lines=("reading /data/set/5.tfrecord",))
    inputs.see(
        [
            AgentRegistered(0.0, ask, ContainerId("c"), NodeId("n1"), "n1", (), ()),
            TaskExited(0.0, ask, 1, (failed, stopped)),
        ]
    )
    assert inputs.open_checks, "a gang that starts anew waits for it from now on"
    inputs.finish(SOON_S)
    (suspect,) = inputs.status().suspects
    assert (suspect.path, suspect.state) == ("/data/set/2.tfrecord", "proved")
    until(lambda: not inputs.open_checks)
    assert inputs.excluded_now() == {"set": ("2.tfrecord",)}


def test_files_outside_of_the_inputs_are_nobodys_business(world: World) -> None:
    inputs = world.life()
    world.files.write_bytes("/other/a", b"x")
    told = [SuspectReport(path, "bad") for path in ("/other/a", "/data/set", "/data/set/none")]
    inputs.complain("n1", told)
    inputs.finish(1.0)
    assert inputs.status().suspects == ()
    assert world.looks == []


def test_quarantine_comes_with_the_end(world: World) -> None:
    world.given = replace(SKIP, on_corrupt=OnCorrupt.QUARANTINE)
    inputs = world.life()
    world.say("3.tfrecord")
    world.say("4.tfrecord", State.SUSPECTED)
    until(lambda: world.excluded_files(inputs)[1] == 2)
    assert world.files.exists("/data/set/3.tfrecord")
    (told,) = inputs.finish(1.0)
    assert "/data/set/3.tfrecord moved to /data/set/.yarnam-quarantine/3.tfrecord" in told
    assert not world.files.exists("/data/set/3.tfrecord")
    assert world.files.exists("/data/set/4.tfrecord")


def test_what_cannot_be_told_to_others_still_counts_for_this_job(world: World) -> None:
    world.outcome = CheckOutcome("corrupt", "bad-crc", "record 1")
    inputs = world.life()
    assert inputs.settle("set", 0) == ()

    def fail(operation: str, path: str) -> None:
        if "blacklist" in path and operation not in {"stat", "list", "exists"}:
            raise HdfsUnavailable("no room", path=path, operation=operation)

    world.files.fail = fail
    inputs.complain("n1", [SuspectReport("/data/set/7.tfrecord", "bad")])
    until(lambda: [s.state for s in inputs.status().suspects] == ["proved"])
    until(lambda: world.excluded_files(inputs)[1] == 1)
    assert inputs.settle("set", 1) == ("7.tfrecord",)


def test_a_job_without_inputs_starts_nothing() -> None:
    endpoint = FakeInputEndpoint()
    access = DataAccess(
        lambda uri: pytest.fail("opened"), endpoint, lambda uri, s: CheckOutcome("clean"), "am"
    )
    inputs = InputIntegrity(job(), "", access, FakeStore(StoreDisk(), 1), print, time.time)
    inputs.open(is_first_life=True)
    inputs.see([])
    assert inputs.finish(1.0) == ()
    assert inputs.status().excluded_files == ()
    inputs.close()
    assert endpoint.service is None
