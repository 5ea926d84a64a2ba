"""The table of transitions tells the truth about ``step``, and the page about the table."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import pytest

from tests.property.elastic_world import ElasticWorld, elastic_job, elastic_walk
from tests.property.gang_world import World, random_walk, small_job, stored_run, troubled_run
from tests.property.in_place_world import InPlaceWorld, in_place_job
from tests.unit.gang.elastic_play import Elastic, InPlace
from tests.unit.gang.elastic_play import elastic_job as elastic_workers
from tests.unit.gang.elastic_play import in_place_job as in_place_workers
from tests.unit.gang.play import T0, Play, failing, job, role, roles_job, stopped
from yarnam.core.failures.process_failure import UNKNOWN
from yarnam.core.gang import Member, MemberState, step
from yarnam.core.gang.context import AllEnded, StepContext
from yarnam.core.gang.state import Exclusion
from yarnam.core.gang.transitions import HANDLERS, ROWS, Key, Row
from yarnam.core.model.events import (
    AwaitedJobsSeen,
    BrokerFailed,
    CheckpointMirrored,
    ConditionChanged,
    ContainerEnded,
    ContainersMarked,
    CordonedNode,
    Event,
    GangHung,
    IdleGpusFound,
    InputsRefused,
    LossFlat,
    NodeChecked,
    NodeLeaving,
    NodesCordoned,
    NodesSuspected,
    NotebookIdle,
    ResumeRequested,
    SessionBegun,
    SessionClosed,
    StragglersFound,
    SuspendRequested,
    TaskFailing,
    TaskReady,
    TimerFired,
    TimerKind,
    TrainingReported,
)
from yarnam.core.model.ids import AskId, NodeId
from yarnam.core.model.job_spec import (
    After,
    DataInput,
    Dependency,
    EarlyExit,
    GangSpec,
    InputMode,
    MoreMemorySpec,
    NodeCheck,
    RetrySpec,
    StartCondition,
    StragglerSpec,
)
from yarnam.core.model.job_status import FINAL_PHASES, JobState, Phase
from yarnam.core.model.outcomes import (
    ContainerEnd,
    ExitKind,
    NodeMeasures,
    RetryAction,
    Straggler,
)
from yarnam.core.model.plans import LocalityLevel
from yarnam.errors import ExitCode, InternalError

HERE = Path(__file__).resolve().parents[3]

Edge = tuple[Phase, str, Phase]


def edges_of(phase: Phase, row: Row) -> set[Edge]:
    return {(phase, _name(event), to) for event in row.events for to in row.to or (phase,)}


def _name(event: Key) -> str:
    return event.__name__ if isinstance(event, type) else "TimerFired"


def _row_name(phase: Phase, row: Row) -> str:
    """As in ``STOPPING: TaskExited: note_exit when is_news``."""
    events = ", ".join(key.__name__ if isinstance(key, type) else key.name for key in row.events)
    guard = f" when {row.when.__name__}" if row.when is not None else ""
    return f"{phase.value}: {events}: {row.do.__name__}{guard}"


def in_table() -> set[Edge]:
    """Every edge of the table; what ``AllEnded`` adds within a step is put behind what stops."""
    edges = {edge for phase, rows in ROWS.items() for row in rows for edge in edges_of(phase, row)}
    ends = {to for phase, event, to in edges if event == AllEnded.__name__}
    return edges | {
        (phase, event, end) for phase, event, to in edges if to is Phase.STOPPING for end in ends
    }


def fair_until(world: World, phase: Phase) -> World:
    for _ in range(300):
        if world.gang.phase is phase:
            return world
        world._fair_move()
    raise AssertionError(f"never came to {phase}")


def all_messages(world: World) -> None:
    while world.inflight:
        world.message_comes(0)


def refused_for_ever() -> World:
    world = World(small_job())
    world.planner_answers("never")
    all_messages(world)
    return world


def planned_short() -> World:
    world = World(small_job())
    world.rungs = World(replace(small_job(), roles=small_job(with_ps=True).roles[1:])).rungs
    world.planner_answers("ready")
    all_messages(world)
    return world


def replaced_too_often() -> World:
    world = fair_until(World(small_job(attempts=2)), Phase.ACQUIRING)
    for _ in range(400):
        if world.gang.phase is not Phase.ACQUIRING:
            world._fair_move()
        else:
            world.yarn_grants(0, 0)
            world.container_ends(0, ContainerEnd.FAILED)
            all_messages(world)
    return world


def blamed_twice_by_agents() -> World:
    world = fair_until(World(small_job()), Phase.ACQUIRING)
    for _ in range(2):
        world._fair_yarn()
        world._fair_yarn()
        all_messages(world)
        world.agent_reports(-1, "user")
        all_messages(world)
    return world


def over_before_it_began() -> World:
    """Processes so short that their end is all that is heard of them."""
    world = fair_until(World(small_job(output="/results/job")), Phase.LAUNCHING)
    for member in world.gang.members:
        world._task_ends(member.ask, ExitKind.OK)
    all_messages(world)
    assert world.gang.phase is Phase.STORING
    world.drain()
    return world


def replacing(play: Play) -> Play:
    """A launched gang that has lost its first task."""
    first, *others = play.asks()
    play.silent(first)
    for ask in others:
        play.exited(ask, stopped())
    assert play.gang.phase is Phase.REPLACING
    return play


def before_the_start() -> None:
    Play().restart_am()
    play = Play()
    play.start()
    sick = Exclusion(NodeId("n1"), T0, T0 + 9.0, "sick")
    play.gang = replace(play.gang, nodes=replace(play.gang.nodes, exclusions=(sick,)))
    play.refuse(is_never=True)
    play = Play(job(gang=GangSpec(ask_timeout_s=60.0, wait_timeout_s=30.0))).to_acquiring()
    play.fire(TimerKind.WAIT)


def another_place_is_searched() -> None:
    play = Play(job(workers=2, exclude=("n2",)))
    play.start()
    play.plan(LocalityLevel.NODE)
    one, two = play.asks()
    play.gang = replace(play.gang, members=tuple(_only_on_n2(m, two) for m in play.gang.members))
    play.grant(one, "n1")
    play.grant(two, "n2")
    assert play.gang.search is not None
    play.refuse()
    play.jitter(0.5)
    play.fire(TimerKind.BACKOFF)
    play.fill(LocalityLevel.NODE)
    (again,) = play.waiting()
    play.gang = replace(play.gang, members=tuple(_only_on_n2(m, again) for m in play.gang.members))
    play.grant(again, "n2")
    play.refuse(is_never=True)
    assert play.gang.phase is Phase.BACKING_OFF


def _only_on_n2(member: Member, ask: AskId) -> Member:
    target = replace(member.target, nodes=(NodeId("n2"),))
    return replace(member, target=target) if member.ask == ask else member


def troubles_while_replacing() -> None:
    def ready(play: Play) -> AskId:
        return next(m.ask for m in play.gang.members if m.state is MemberState.READY)

    def misfit(play: Play) -> None:
        play.fill()
        play.grant(play.waiting()[0], "n5")
        play.register(play.gang.members[-1].ask, "n6")

    def localizes_for_too_long(play: Play) -> None:
        play.fill()
        play.grant(play.waiting()[0], "n5")
        play.fire(TimerKind.LOCALIZE)

    def blamed(play: Play) -> None:
        for _ in range(2):
            play.unable(ready(play), "no such file", is_user=True)

    for trouble in (
        misfit,
        localizes_for_too_long,
        blamed,
        lambda play: play.silent(ready(play)),
        lambda play: play.unable(ready(play), "no lease"),
        lambda play: play.send(BrokerFailed(0, "gone")),
        lambda play: play.cancel(),
        lambda play: play.send(InputsRefused(0, "corrupt")),
    ):
        trouble(replacing(Play(job(workers=3)).to_running()))
    play = replacing(Play(job(workers=3, gang=GangSpec(wait_timeout_s=30.0))).to_launching())
    play.fire(TimerKind.WAIT)


def troubles_while_staging() -> None:
    inputs = (DataInput("d", "/d", mode=InputMode.CACHE),)
    play = Play(replace(job(workers=3), inputs=inputs)).to_launching()
    assert play.gang.phase is Phase.STAGING
    play.gang = replace(play.gang, acquisition=replace(play.gang.acquisition, user_faults=1))
    play.unable(play.asks()[0], "/d was changed", is_user=True)
    elastic = Elastic(replace(elastic_workers(), inputs=inputs))
    elastic.start()
    elastic.after(31.0).room_for(2)
    elastic.grant_all().register_all()
    elastic.ask_size(3)
    assert elastic.gang.phase is Phase.STAGING


def troubles_while_checking() -> None:
    def checking() -> Play:
        spec = job(workers=3)
        play = Play(replace(spec, placement=replace(spec.placement, check=NodeCheck.QUICK)))
        return play.to_launching()

    for trouble in (
        lambda play: play.end(play.asks()[0], ContainerEnd.FAILED),
        lambda play: play.unable(play.asks()[0], "no lease"),
        lambda play: play.silent(play.asks()[0]),
        lambda play: play.send(NodesSuspected(0, (NodeId("n9"),))),
        lambda play: play.send(BrokerFailed(0, "gone")),
        lambda play: play.send(InputsRefused(0, "corrupt")),
        lambda play: play.restart_am(),
        lambda play: play.cancel(),
        lambda play: play.fire(TimerKind.CHECK),
    ):
        play = checking()
        assert play.gang.phase is Phase.CHECKING
        trouble(play)
    play = checking()
    play.gang = replace(play.gang, acquisition=replace(play.gang.acquisition, user_faults=1))
    play.unable(play.asks()[0], "a bad file", is_user=True)
    play = checking()
    for ask in play.asks():
        play.send(NodeChecked(0, ask, 1, 1, NodeMeasures()))
    assert play.gang.phase is Phase.LAUNCHING
    spec = elastic_workers()
    spec = replace(spec, placement=replace(spec.placement, check=NodeCheck.QUICK))
    elastic = Elastic(spec)
    elastic.start()
    elastic.after(31.0).room_for(2)
    elastic.grant_all().register_all()
    elastic.ask_size(3)
    assert elastic.gang.phase is Phase.CHECKING


def troubles_while_growing() -> None:
    def growing(count: int = 2) -> tuple[Elastic, list[AskId]]:
        play = Elastic(elastic_workers()).running(2).after(300.0)
        play.probed(spare=2)
        return play, play.further(count)

    play, (one, two) = growing()
    play.register(one, "n5")
    play.grant(one, "n5")
    play.grant(two, "n6")
    play.register(two, "n7")
    play, (one, two) = growing()
    play.end(one, ContainerEnd.FAILED)
    play, _ = growing()
    play.fire(TimerKind.GROWTH)
    growing(1)
    play, (one, _) = growing()
    bad = Exclusion(NodeId("n5"), play.now_s, play.now_s + 60.0, "broken")
    play.gang = replace(play.gang, nodes=replace(play.gang.nodes, exclusions=(bad,)))
    play.grant(one, "n5")
    for harm in ("loss", "am"):
        play, asks = growing()
        play.come(asks)
        assert play.gang.phase is Phase.STOPPING
        play.end(asks[0], ContainerEnd.FAILED) if harm == "loss" else play.restart_am()


def failures_that_pass() -> None:
    retry = RetrySpec(more_memory=MoreMemorySpec())
    for action in (RetryAction.FREE, RetryAction.RETRY, RetryAction.MORE_MEMORY):
        play = Play(job(workers=1, retry=retry)).to_running()
        (ask,) = play.asks()
        play.exited(ask, replace(failing(), finding=replace(UNKNOWN, action=action)))
    found = GangHung(0, 1, (0,), UNKNOWN), LossFlat(0, 1, "flat"), NotebookIdle(0, 1, "unused")
    for event in found:
        play = Play().to_running()
        play.send(event)
        assert play.gang.phase is Phase.STOPPING
    for is_kept in (True, False):
        spec = replace(job(workers=3), stragglers=StragglerSpec(replace=is_kept))
        play = Play(spec).to_running()
        play.send(StragglersFound(0, 1, (Straggler(1, "n2", 0.8, 0.4, 1.5),)))
        play.send(IdleGpusFound(0, 1, None))
        play.send(ConditionChanged(0, 1, "memory", "close to its limit"))
        if is_kept:
            for ask in play.asks():
                play.exited(ask, stopped())
            assert play.gang.phase is Phase.REPLACING
    for play in (Play().to_running(), Play().to_launching()):
        play.send(TaskFailing(0, play.asks()[0], 1, (failing(),)))
        assert play.gang.phase is Phase.STOPPING


def containers_that_no_replacement_helps() -> None:
    def fails(play: Play, action: RetryAction) -> None:
        finding = replace(UNKNOWN, action=action)
        end = ContainerEnd.FAILED
        play.send(ContainerEnded(0, play.asks()[0], end, "why", finding))

    inputs = (DataInput("d", "/d", mode=InputMode.CACHE),)
    for action, phase in (
        (RetryAction.NEVER, Phase.FAILED),
        (RetryAction.MORE_MEMORY, Phase.BACKING_OFF),
    ):
        spec = job(workers=3, retry=RetrySpec(more_memory=MoreMemorySpec()))
        check = replace(spec.placement, check=NodeCheck.QUICK)
        for play in (
            Play(spec).to_acquiring().grant_all(),
            Play(replace(spec, placement=check)).to_launching(),
            Play(replace(spec, inputs=inputs)).to_launching(),
            replacing(Play(spec).to_running()),
        ):
            fails(play, action)
            assert play.gang.phase is phase


def leaves_when_yarn_announces_it() -> None:
    def stopped_all(play: Play) -> None:
        for ask in play.asks():
            play.exited(ask, stopped(0), stopped(1))

    for play in (Play().to_running(), Play().to_launching()):
        play.send(ContainersMarked(0, (play.asks()[0],)))
        stopped_all(play)
        assert play.gang.phase is Phase.BACKING_OFF
    for play in (Play().to_running(), Play().to_launching()):
        play.send(NodeLeaving(0, NodeId("n1"), 5.0))
        play.fire(TimerKind.LEAVE)
        stopped_all(play)
    elastic = Elastic(elastic_workers()).running(4)
    elastic.send(ContainersMarked(0, (elastic.asks()[0],)))
    elastic.all_stop()
    assert elastic.gang.phase is Phase.LAUNCHING


def suspensions() -> None:
    """In each phase, and what comes to a job that is suspended."""

    def suspend(play: Play) -> Play:
        play.send(SuspendRequested(0, "ann", 60.0))
        for ask in play.asks():
            play.exited(ask, stopped(0), stopped(1))
        assert play.gang.phase is Phase.SUSPENDED
        return play

    checked = replace(job(), placement=replace(job().placement, check=NodeCheck.QUICK))
    staged = replace(job(), inputs=(DataInput("d", "/d", mode=InputMode.CACHE),))
    waiting = Play()
    waiting.start()
    backing_off = Play()
    backing_off.start()
    backing_off.refuse()
    marked = Play().to_running()
    marked.send(ContainersMarked(0, (marked.asks()[0],)))
    for play in (
        waiting,
        backing_off,
        Play().to_acquiring(),
        Play(checked).to_launching(),
        Play(staged).to_launching(),
        Play().to_launching(),
        Play().to_running(),
        marked,
        replacing(Play(job(workers=3)).to_running()),
    ):
        suspend(play)
    for what in (
        lambda play: play.send(ResumeRequested(0, "ann")),
        lambda play: play.fire(TimerKind.SUSPENSION),
        lambda play: play.restart_am(),
        lambda play: play.cancel(),
        lambda play: play.send(InputsRefused(0, "corrupt")),
        lambda play: play.send(BrokerFailed(0, "gone")),
        lambda play: play.suspect("n1"),
    ):
        what(suspend(Play().to_running()))
    yielding = Play().to_running()
    yielding.send(SuspendRequested(0, "the policy", 60.0, is_policy=True))
    for ask in yielding.asks():
        yielding.exited(ask, stopped(0), stopped(1))
    yielding.send(SuspendRequested(0, "ann", 60.0))
    elastic = suspend(Elastic(elastic_workers()).running(2))
    assert isinstance(elastic, Elastic)
    elastic.ask_size(3)


def waits_for_other_jobs() -> None:
    """In each of its phases, and every answer."""
    spec = replace(job(), depends_on=(Dependency("prep", applications=("application_1_0001",)),))
    for is_suspended in (False, True):
        for state in (JobState.RUNNING, JobState.SUCCEEDED, JobState.FAILED):
            play = Play(spec)
            play.start()
            if is_suspended:
                play.send(SuspendRequested(0, "ann", 60.0))
            seen = tuple(replace(one, state=state) for one in play.gang.awaited)
            play.send(AwaitedJobsSeen(0, seen))


def cordons() -> None:
    """In every phase."""
    waiting = Play()
    waiting.start()
    backing_off = Play()
    backing_off.start()
    backing_off.refuse()
    suspended = Play()
    suspended.start()
    suspended.send(SuspendRequested(0, "ann", 60.0))
    stopping = Play().to_running()
    stopping.cancel()
    checked = replace(job(), placement=replace(job().placement, check=NodeCheck.QUICK))
    staged = replace(job(), inputs=(DataInput("d", "/d", mode=InputMode.CACHE),))
    for play in (
        waiting, backing_off, suspended, stopping, Play().to_acquiring(), Play().to_launching(),
        Play(checked).to_launching(), Play(staged).to_launching(), Play().to_running(),
        replacing(Play(job(workers=3)).to_running()),
    ):  # fmt: skip
        play.send(NodesCordoned(0, (CordonedNode(NodeId("n1"), "cordoned", T0 + 60.0),)))


def time_limits() -> None:
    spec = replace(job(), time_limit_s=60.0)
    play = Play(spec).to_running()
    play.fire(TimerKind.TIME_LIMIT)
    for ask in play.asks():
        play.exited(ask, stopped(0), stopped(1))
    assert play.gang.phase is Phase.FAILED
    after = role("late", after=(After("first", StartCondition.ENDED),))
    launching = Play(replace(roles_job(after, role("first"), role("other")), time_limit_s=60.0))
    launching.to_launching()
    for name in ("first", "other"):
        launching.started(launching.ask_of(name))
    assert launching.gang.phase is Phase.RUNNING
    launching.ok(launching.ask_of("first"))
    assert launching.gang.phase is Phase.LAUNCHING
    launching.fire(TimerKind.TIME_LIMIT)
    assert launching.gang.phase is Phase.STOPPING


def ends_of_roles() -> None:
    """What is lost without the gang; and a service that ends too early."""
    strict = role("worker", service=True, early_exit=EarlyExit.FAIL)
    for begin in (Play.to_running, Play.to_launching):
        board = role("board", service=True, optional=True)
        play = begin(Play(roles_job(role("worker"), board)))
        play.end(play.ask_of("board"), ContainerEnd.LOST)
        play = begin(Play(roles_job(strict, role("chief"))))
        play.ok(play.ask_of("worker"))
        play.exited(play.ask_of("chief"), stopped())
        assert play.gang.phase is Phase.FAILED
        play = begin(Play(roles_job(role("worker", optional=True), role("chief"))))
        play.ok(play.ask_of("chief"))
        play.end(play.ask_of("worker"), ContainerEnd.FAILED)
        assert play.gang.phase is Phase.SUCCEEDED
    play = Play(roles_job(role("worker"), board)).to_launching()
    play.started(play.ask_of("worker"))
    play.end(play.ask_of("board"), ContainerEnd.LOST)
    assert play.gang.phase is Phase.RUNNING


def roles_in_order() -> None:
    """Who waits for whom, and what ends that."""
    late = role("late", optional=True, after=(After("ps", StartCondition.READY),))
    for end in ("ready", "exit", "loss", "limit"):
        play = Play(roles_job(late, role("worker"), role("ps"))).to_launching()
        play.started(play.ask_of("worker"))
        play.started(play.ask_of("ps"))
        if end == "limit":
            play.fire(TimerKind.READY)
        elif end == "exit":
            play.ok(play.ask_of("ps"))
        elif end == "loss":
            play.end(play.ask_of("late"), ContainerEnd.LOST)
        if end in {"ready", "loss"}:
            play.send(TaskReady(0, play.ask_of("ps"), 1))
        if play.gang.phase is Phase.LAUNCHING:
            play.started(play.ask_of("late"))
        play.send(TaskReady(0, play.ask_of("worker"), 1))


def roles_after_the_end_of_others() -> None:
    reads = role("worker", after=(After("first", StartCondition.ENDED),))
    for end in ("start", "ready", "exit", "loss"):
        first, other = role("first", optional=True), role("other", optional=True)
        waits = role("waits", optional=True, after=(After("other", StartCondition.READY),))
        roles = (reads, first, other, waits) if end == "ready" else (reads, first, other)
        play = Play(roles_job(*roles)).to_launching()
        play.started(play.ask_of("first"))
        if end == "ready":
            play.started(play.ask_of("other"))
            play.send(TaskReady(0, play.ask_of("other"), 1))
            play.started(play.ask_of("waits"))
        elif end == "start":
            play.started(play.ask_of("other"))
        elif end == "exit":
            play.ok(play.ask_of("other"))
        else:
            play.end(play.ask_of("other"), ContainerEnd.LOST)
        assert play.gang.phase is Phase.RUNNING
        if end == "loss":
            play.end(play.ask_of("first"), ContainerEnd.LOST)
        else:
            play.ok(play.ask_of("first"))
        assert play.gang.phase is Phase.LAUNCHING


def tasks_come_and_go() -> None:
    """Of an in-place elastic gang: what walks meet too seldom."""
    for end in ("failing", "exit", "loss", "limit"):
        play = InPlace(in_place_workers()).running(3)
        play.ask_size(2)
        (leaving,) = play.gang.resizing.leaving
        if end == "failing":
            play.send(TaskFailing(0, leaving.ask, 1, (failing(),)))
        elif end == "exit":
            play.exited(leaving.ask, stopped())
        elif end == "loss":
            play.end(leaving.ask, ContainerEnd.LOST)
        else:
            play.fire(TimerKind.STOP)
    for end in ("failing", "exit"):
        play = InPlace(in_place_workers()).running(2)
        (joining,) = play.grows(1)
        if end == "failing":
            play.send(TaskFailing(0, joining, 1, (failing(),)))
        else:
            play.exited(joining, failing())
    play = InPlace(in_place_workers()).running(3)
    play.send(ContainersMarked(0, (play.asks()[1],)))
    play = InPlace(in_place_workers()).running(3)
    grant = play.gang.members[1].grant
    assert grant is not None
    play.send(NodeLeaving(0, grant.node, 60.0))
    play.fire(TimerKind.LEAVE)
    play = InPlace(in_place_workers(framework="horovod")).running(4)
    play.formed(1, 4)
    play.ask_size(2)
    play.fire(TimerKind.NOTICE)
    play.fire(TimerKind.STOP)
    play.fire(TimerKind.REFORM)
    play.stop_rest()
    play.formed(1, 2)
    play.start_all()


def directed(with_ps: bool, output: str = "", *, is_staged: bool = False) -> set[Edge]:
    """Trouble in every phase, and in every phase of stopping: what walks meet too seldom."""
    edges: set[Edge] = set()
    troubles = (
        lambda w: w.container_ends(0, ContainerEnd.LOST),
        lambda w: w.container_ends(0, ContainerEnd.PREEMPTED),
        lambda w: w.container_ends(0, ContainerEnd.FAILED),
        lambda w: w.agent_reports(0, "silent"),
        lambda w: w.agent_reports(0, "user"),
        lambda w: w.task_exits(0, ExitKind.NON_ZERO),
        lambda w: w.user_cancels(),
        lambda w: w.broker_fails(),
        lambda w: w.inputs_are_refused(),
        lambda w: w.am_restarts(),
        lambda w: w.timer_fires(),
    )
    for phase in (
        Phase.PENDING,
        Phase.ACQUIRING,
        *([Phase.STAGING] if is_staged else []),
        Phase.LAUNCHING,
        Phase.RUNNING,
    ):
        for first in troubles:
            for second in troubles:
                job = small_job(with_ps=with_ps, output=output, is_staged=is_staged)
                world = fair_until(World(job), phase)
                for trouble in (first, second):
                    trouble(world)
                    all_messages(world)
                world.drain()
                edges |= world.edges
    return edges


@dataclass
class Observed:
    """What walks have met: changes as seen from outside, and the rows that were taken."""

    edges: set[Edge]
    rows: set[str]


@contextmanager
def watched_rows() -> Iterator[set[str]]:
    """The rows that the machine takes in the meantime."""
    taken: set[str] = set()

    def watched(phase: Phase, row: Row) -> Row:
        def do(ctx: StepContext, event: Event | AllEnded) -> None:
            taken.add(_row_name(phase, row))
            row.do(ctx, event)

        return replace(row, do=do)

    plain = dict(HANDLERS)
    for phase, handlers in plain.items():
        seen = {key: tuple(watched(phase, row) for row in rows) for key, rows in handlers.items()}
        HANDLERS[phase] = seen
    try:
        yield taken
    finally:
        HANDLERS.update(plain)


@pytest.fixture(scope="module")
def observed() -> Observed:
    with watched_rows() as rows:
        return Observed(walked(), rows)


def walked() -> set[Edge]:
    for play in (
        before_the_start,
        another_place_is_searched,
        troubles_while_replacing,
        troubles_while_checking,
        troubles_while_staging,
        troubles_while_growing,
        failures_that_pass,
        containers_that_no_replacement_helps,
        leaves_when_yarn_announces_it,
    ):
        play()
    edges = directed(False) | directed(True)
    for play in (refused_for_ever, planned_short, replaced_too_often, blamed_twice_by_agents):
        world = play()
        assert world.gang.phase is Phase.FAILED, play.__name__
        edges |= world.edges
    for seed in range(150):
        world = World(small_job(with_ps=seed % 2 == 1))
        random_walk(world, seed, moves=120)
        for late in range(4):
            world.old_message_comes(late)
        world.am_restarts()
        edges |= world.edges
    for seed in range(150):
        world = World(small_job(with_ps=seed % 2 == 1, output="/results/job"))
        stored_run(world, seed)
        edges |= world.edges
    edges |= directed(True, output="/results/job") | directed(False, is_staged=True)
    for seed in range(60):
        world = World(small_job(attempts=1 + seed % 2, is_staged=True))
        random_walk(world, seed, moves=120)
        edges |= world.edges
    for seed in range(60):
        world = World(small_job(has_pre_run=True))
        random_walk(world, seed, moves=120)
        edges |= world.edges
    for seed in range(120):
        output = "/results/job" if seed % 3 == 0 else ""
        world = World(small_job(with_ps=seed % 2 == 1, has_rules=True, output=output))
        (random_walk if seed % 4 < 2 else troubled_run)(world, seed, moves=120)
        edges |= world.edges
    ends_of_roles()
    roles_in_order()
    roles_after_the_end_of_others()
    suspensions()
    waits_for_other_jobs()
    time_limits()
    cordons()
    edges |= over_before_it_began().edges
    for seed in range(60):
        elastic = ElasticWorld(elastic_job(recovery_timeout_s=60.0 * (seed % 2)))
        elastic_walk(elastic, seed, 300)
        edges |= elastic.edges
    for seed in range(60):
        in_place = InPlaceWorld(in_place_job(recovery_timeout_s=60.0 * (seed % 2)))
        (elastic_walk if seed % 3 else troubled_run)(in_place, seed, 300)
        edges |= in_place.edges
    tasks_come_and_go()
    return edges


@pytest.mark.long
def test_every_change_of_phase_is_in_the_table(observed: Observed) -> None:
    """As the world sees the gang from outside: nobody trusts the machine's own check alone."""
    assert {edge for edge in observed.edges if edge[0] is not edge[2]} - in_table() == set()


@pytest.mark.long
def test_every_row_is_taken(observed: Observed) -> None:
    rows = {_row_name(phase, row) for phase, rows in ROWS.items() for row in rows}
    assert sorted(rows - observed.rows) == []


def test_every_event_is_in_the_table() -> None:
    named = {event for rows in ROWS.values() for row in rows for event in row.events}
    assert {event for event in named if isinstance(event, type)} == {
        *get_args(Event),
        AllEnded,
    } - {TimerFired, TrainingReported, CheckpointMirrored, SessionBegun, SessionClosed}
    assert {event for event in named if not isinstance(event, type)} == set(TimerKind)


def test_final_phases_are_left_by_nothing() -> None:
    assert [row for phase in FINAL_PHASES for row in ROWS[phase] if row.to] == []


def test_every_phase_is_entered_by_some_row() -> None:
    entered = {to for rows in ROWS.values() for row in rows for to in row.to}
    assert set(Phase) - entered == set()


@pytest.mark.parametrize("phase", Phase)
def test_of_the_rows_of_an_event_only_the_last_may_lack_a_guard(phase: Phase) -> None:
    """A row behind one without a guard could never be taken."""
    for rows in HANDLERS[phase].values():
        assert all(row.when is not None for row in rows[:-1])


def test_every_row_says_what_it_does() -> None:
    for rows in ROWS.values():
        for row in rows:
            assert row.do.__doc__, row.do
            assert row.when is None or row.when.__doc__, row.when


def test_a_transition_that_is_not_in_the_table_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    play = Play().to_launching()
    rows = HANDLERS[Phase.LAUNCHING][TimerKind.LAUNCH]
    (row,) = rows
    broken = {**HANDLERS[Phase.LAUNCHING], TimerKind.LAUNCH: (replace(row, to=(Phase.RUNNING,)),)}
    monkeypatch.setitem(HANDLERS, Phase.LAUNCHING, broken)
    timer = play.gang.timer(TimerKind.LAUNCH)
    assert timer is not None
    with pytest.raises(InternalError) as failure:
        step(play.gang, TimerFired(play.now_s + 60, timer.timer), play.policy, play.events[-2:])
    assert failure.value.exit_code == ExitCode.INTERNAL
    first, second, *before = failure.value.message.splitlines()
    assert first.startswith(
        "the gang machine has no transition from LAUNCHING to STOPPING on TimerFired"
    )
    assert second == "the events before it:"
    assert [line.split("(")[0].strip() for line in before] == ["AgentRegistered"] * 2


def test_the_page_is_current() -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "tools/generate_state_chart.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
