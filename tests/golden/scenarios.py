"""The stories that the golden journals tell: scripted lives of a gang."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.unit.gang.elastic_play import Elastic, InPlace, elastic_job, in_place_job
from tests.unit.gang.play import ANEW, Play, failing, job, role, roles_job, stopped
from tests.unit.gang.test_pre_run import PreRunPlay
from yarnam.core.failures.hang_detection import hang_finding, where_text
from yarnam.core.failures.rank_activity import RankActivity
from yarnam.core.model.events import (
    AwaitedJobsSeen,
    ConditionChanged,
    ContainersMarked,
    GangHung,
    IdleGpusFound,
    NodeChecked,
    NodeLeaving,
    OutputsStored,
    ResumeRequested,
    StoringFailed,
    StoringTroubled,
    StragglersFound,
    SuspendRequested,
    TaskFailing,
    TaskReady,
    TimerKind,
)
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_spec import (
    After,
    Completion,
    CompletionRule,
    Dependency,
    GangSpec,
    NodeCheck,
    ReadySpec,
    RetrySpec,
    StartCondition,
    StragglerSpec,
)
from yarnam.core.model.job_status import JobState
from yarnam.core.model.outcomes import (
    ContainerEnd,
    IdleCause,
    IdleGpus,
    LinkMeasure,
    NodeMeasures,
    Straggler,
)
from yarnam.core.model.plans import LocalityLevel


def happy_path() -> Play:
    """Two workers of two processes train and end well."""
    play = Play(job())
    play.start()
    play.after(0.2).plan(LocalityLevel.RACK, same_rack=True)
    one, two = play.asks()
    play.after(1.0).grant(one, "n1")
    play.after(0.1).register(two, "n2", ("2", "3"))
    play.after(0.9).grant(two, "n2")
    play.after(1.1).register(one, "n1", ("0", "1"))
    for ask in play.asks():
        play.after(0.3).started(ask)
    for ask in play.asks():
        play.after(60).ok(ask)
    return play


def hold_timeout_and_retry() -> Play:
    """The cluster has room for two of three; all is released, a late grant too; the second attempt
    gets a misfit, then everything."""
    play = Play(job(workers=3, exclude=("n9",)))
    play.start()
    play.after(0.2).refuse("2 of 6 GPUs are free")
    play.jitter(0.75)
    play.fire(TimerKind.BACKOFF)
    play.plan(LocalityLevel.NODE)
    one, two, three = play.asks()
    play.after(1).grant(one, "n1")
    play.after(1).grant(two, "n2")
    play.after(1).register(one, "n1")
    play.fire(TimerKind.HOLD)
    play.after(0.1).grant(three, "n1")
    play.jitter(0.5)
    play.fire(TimerKind.BACKOFF)
    play.plan()
    first, *others = play.asks()
    play.after(1).grant(first, "n9")
    for number, ask in enumerate([*others, play.asks()[0]]):
        play.after(0.5).grant(ask, f"n{number + 1}")
    play.after(2).register_all()
    play.after(1).start_all()
    for ask in play.asks():
        play.after(10).ok(ask)
    return play


def roles_end_in_different_ways() -> Play:
    """TensorBoard crashes, one of three workers fails, two are enough; the parameter server is
    stopped."""
    enough = Completion(CompletionRule.AT_LEAST, 2)
    board = role("board", service=True, optional=True)
    play = Play(roles_job(board, role("worker", 3, completion=enough), role("ps"))).to_running()
    play.after(5).exited(play.ask_of("board"), failing(1, play.now_s))
    play.after(5).end(play.ask_of("worker"), ContainerEnd.LOST, "the node is gone")
    for number in (1, 2):
        play.after(60).ok(play.ask_of("worker", number))
    play.after(1).exited(play.ask_of("ps"), stopped())
    return play


def workers_start_when_the_server_is_ready() -> Play:
    """In two attempts: the first server does not get ready after a worker's node was lost."""
    slow = ReadySpec("http", 60.0)
    after = (After("ps", StartCondition.READY),)
    play = Play(roles_job(role("worker", 2, after=after), role("ps", ready=slow))).to_launching()
    play.after(1).started(play.ask_of("ps"))
    play.after(5).send(TaskReady(0, play.ask_of("ps"), 1))
    play.after(1).started(play.ask_of("worker"))
    play.after(1).started(play.ask_of("worker", 1))
    play.after(60).end(play.ask_of("worker"), ContainerEnd.LOST, "the node is gone")
    play.after(1).exited(play.ask_of("worker", 1), stopped())
    play.after(1).exited(play.ask_of("ps"), stopped())
    play.after(1).fill()
    play.after(1).grant_all(("n4",)).register_all()
    play.after(1).started(play.ask_of("ps"))
    play.fire(TimerKind.READY)
    play.after(1).exited(play.ask_of("ps"), stopped())
    return play


def prepares_before_it_trains() -> Play:
    """The workers start when the preparation has ended; one of them fails, and the first is waited
    for."""
    first = Completion(CompletionRule.CHIEF, waits_for_all=True)
    after = (After("prepare", StartCondition.ENDED),)
    worker = role("worker", 2, after=after, completion=first)
    play = Play(roles_job(worker, role("prepare"))).to_launching()
    play.after(1).started(play.ask_of("prepare"))
    play.after(600).ok(play.ask_of("prepare"))
    for number in (0, 1):
        play.after(1).started(play.ask_of("worker", number))
    play.after(60).exited(play.ask_of("worker", 1), failing(1, play.now_s))
    play.after(60).ok(play.ask_of("worker"))
    return play


def cancelled_while_running() -> Play:
    """A user has seen enough; one task stops, the other one does not."""
    play = Play(job()).to_running()
    play.after(30).cancel("the loss is NaN")
    play.after(1).exited(play.asks()[0], stopped(0), stopped(1))
    play.fire(TimerKind.STOP)
    play.after(1).grant(play.asks()[1], "n2")
    return play


def lost_node() -> Play:
    """Peers of a lost node fail first; it is the platform's fault, and the gang starts anew, on
    another node."""
    play = Play(job(gang=ANEW)).to_running()
    one, two = play.asks()
    play.after(100).exited(one, failing(1, play.now_s, 0, "Connection reset by peer"), stopped(1))
    play.after(7.5).silent(two, 8.0)
    play.jitter(0.5)
    play.fire(TimerKind.BACKOFF)
    play.plan()
    play.grant_all(on=("n1", "n3")).register_all()
    play.start_all()
    play.after(5).end(two, ContainerEnd.LOST, "Container released on a *lost* node")
    for ask in play.asks():
        play.after(20).ok(ask)
    return play


def am_restart() -> Play:
    """The ApplicationMaster dies while it acquires, and once more while it backs off."""
    play = Play(job()).to_acquiring()
    old, _ = play.asks()
    play.after(1).grant(old, "n1")
    play.after(20).restart_am()
    play.jitter(0.9)
    play.after(1).restart_am()
    play.after(0.5).register(old, "n1")
    play.fire(TimerKind.BACKOFF)
    play.plan()
    play.grant_all().register_all()
    play.start_all()
    for ask in play.asks():
        play.after(5).ok(ask)
    play.after(1).restart_am()
    return play


def adopted_by_the_next_am() -> Play:
    """The ApplicationMaster dies twice while the gang runs. The second time a container is gone."""
    play = Play(job()).to_running()
    first, second = play.asks()
    play.after(20).restart_am(first, second)
    play.after(20).restart_am(first)
    play.after(5).end(second, ContainerEnd.FAILED)
    play.after(0.5).exited(first, stopped(0), stopped(1))
    play.fire(TimerKind.STOP)
    play.fill(LocalityLevel.RACK)
    (new,) = play.waiting()
    play.after(2).grant(new, "n0")
    play.after(1).register(new, "n0")
    play.after(1).start_all()
    for ask in play.asks():
        play.after(10).ok(ask)
    return play


def attempts_exhausted() -> Play:
    """Nobody ever has room."""
    play = Play(job(gang=GangSpec(attempts=2)))
    play.start()
    play.plan()
    play.fire(TimerKind.ASK)
    play.jitter(0.0)
    play.fire(TimerKind.BACKOFF)
    play.plan()
    play.grant(play.asks()[0])
    play.fire(TimerKind.HOLD)
    return play


def replaced_in_place() -> Play:
    """An agent goes silent; the others write their checkpoint and park; the first look finds no
    room, the second does; ranks follow the new places, and all start again."""
    play = Play(job(workers=3)).to_running()
    play.after(100).silent(play.asks()[1], 8.0)
    for ask in (play.asks()[0], play.asks()[2]):
        play.after(0.5).exited(ask, stopped(0), stopped(1))
    play.after(0.2).refuse("0 of 2 GPUs are free")
    play.jitter(0.5)
    play.fire(TimerKind.BACKOFF)
    play.fill(LocalityLevel.RACK)
    (new,) = play.waiting()
    play.after(2).grant(new, "n0")
    play.after(1).register(new, "n0")
    play.after(0.1).exited(play.asks()[1], failing(1, play.now_s), attempt=1)
    play.after(1).start_all()
    for ask in play.asks():
        play.after(10).ok(ask)
    return play


def not_replaced_in_time() -> Play:
    """The node is lost for good; a grant that never comes is withdrawn and asked for elsewhere; the
    time is over, the whole gang starts anew, without the lost node."""
    play = Play(job()).to_running()
    one, two = play.asks()
    play.after(50).end(two, ContainerEnd.LOST, "Container released on a *lost* node")
    play.after(1).exited(one, stopped(0), stopped(1))
    play.after(0.1).fill(LocalityLevel.NODE)
    play.fire(TimerKind.BACKOFF)
    play.after(0.1).fill()
    (new,) = play.waiting()
    play.after(2).grant(new, "n2")
    play.after(0.5).refuse("0 of 2 GPUs are free")
    play.fire(TimerKind.RECOVERY)
    play.jitter(0.5)
    play.fire(TimerKind.BACKOFF)
    play.plan()
    play.grant_all(on=("n1", "n3")).register_all()
    play.start_all()
    for ask in play.asks():
        play.after(10).ok(ask)
    return play


def preempted() -> Play:
    """YARN takes one container: the gang stops as one, gives all back, and comes back for free."""
    play = Play(job(retry=RetrySpec(max_restarts=0))).to_running()
    one, two = play.asks()
    play.after(700).end(two, ContainerEnd.PREEMPTED, "Container preempted by scheduler")
    play.after(3).exited(one, stopped(0), stopped(1))
    play.jitter(0.5)
    play.fire(TimerKind.BACKOFF)
    play.plan()
    play.grant_all().register_all()
    play.start_all()
    play.after(5).end(play.asks()[0], ContainerEnd.PREEMPTED, "Container preempted by scheduler")
    play.after(1).exited(play.asks()[1], stopped(0), stopped(1))
    play.jitter(0.5)
    play.fire(TimerKind.BACKOFF)
    play.plan()
    play.grant_all().register_all()
    play.start_all()
    for ask in play.asks():
        play.after(10).ok(ask)
    return play


def node_struck_off() -> Play:
    """Two faults of one node exclude it; an AM later it still is; its grants are refused one by
    one; when the cool-down is over it is used again."""
    play = Play(job(gang=GangSpec(attempts=3, hold_timeout_s=120.0)))
    play.start()
    play.plan(nodes=6)
    one, two = play.asks()
    play.after(1).grant(one, "bad")
    play.after(5).unable(one, "2 of the node's 4 GPUs could not be leased within 10 s")
    (again,) = [ask for ask in play.asks() if ask != two]
    play.after(1).grant(again, "bad")
    play.after(0.5).suspect("n5")
    play.after(5).end(again, ContainerEnd.FAILED, "Container launch failed: no space left")
    last = play.asks()[0]
    play.after(1).grant(last, "bad")
    play.after(1).restart_am()
    play.jitter(0.5)
    play.fire(TimerKind.BACKOFF)
    play.plan(nodes=6)
    one, two = play.asks()
    play.after(1).grant(one, "bad")
    play.after(1).grant(two, "n2")
    play.after(3600).grant(play.waiting()[0], "bad")
    play.register_all()
    play.start_all()
    for ask in play.asks():
        play.after(10).ok(ask)
    return play


def grows_and_shrinks() -> Play:
    """An elastic gang starts with two of four, grows while GPUs are idle, and is made smaller."""
    play = Elastic(elastic_job()).running(2)
    play.after(300.0).probed(spare=0)
    play.probed(spare=2)
    play.come(play.further(2))
    play.all_stop()
    play.start_all()
    play.after(30.0).ask_size(3)
    play.all_stop()
    play.start_all()
    for ask in play.asks():
        play.after(20).ok(ask)
    return play


def goes_on_while_tasks_come_and_go() -> Play:
    """An in-place elastic gang loses a task, gets another, shrinks, and loses its first task."""
    play = InPlace(in_place_job()).running(3)
    play.after(10.0).silent(play.asks()[1])
    (new,) = play.grows(1)
    play.after(1.0).started(new)
    play.ask_size(2)
    (leaving,) = play.gang.resizing.leaving
    play.after(1.0).exited(leaving.ask, stopped(0), stopped(1))
    play.after(5.0).end(play.asks()[0], ContainerEnd.LOST, "node lost")
    play.stop_rest()
    play.fill()
    (ask,) = play.waiting()
    play.after(1.0).grant(ask, "n8")
    play.register(ask, "n8")
    play.start_all()
    for ask in play.asks():
        play.after(1.0).ok(ask)
    return play


def leaves_on_notice_and_does_not_re_form() -> Play:
    """Of an in-place elastic gang two tasks leave on their own; later one of them does not, and the
    others never continue together."""
    play = InPlace(in_place_job(framework="horovod")).running(4)
    play.formed(1, 4)
    play.after(10.0).ask_size(3)
    (leaving,) = play.gang.resizing.leaving
    play.after(3.0).formed(2, 3)
    play.after(1.0).exited(leaving.ask, failing(134), stopped(1))
    play.after(10.0).ask_size(2)
    play.fire(TimerKind.NOTICE)
    play.fire(TimerKind.STOP)
    play.fire(TimerKind.REFORM)
    play.stop_rest()
    play.formed(1, 2)
    play.start_all()
    for ask in play.asks():
        play.after(1.0).ok(ask)
    return play


def shrinks_instead_of_dying() -> Play:
    """A task of an elastic gang is lost and nobody has room for another; later there is some,
    which does not come in time; then the queue is over its share."""
    play = Elastic(elastic_job()).running(4)
    play.after(100.0).end(play.asks()[0], ContainerEnd.LOST, "node lost")
    play.stop_rest()
    play.refuse("0 of 2 GPUs are free")
    play.start_all()
    play.after(300.0).probed(spare=1)
    play.come(play.further(1)[:0])
    play.fire(TimerKind.GROWTH)
    for _ in range(3):
        play.probed(excess=2, waiting=1)
    play.all_stop()
    play.start_all()
    for ask in play.asks():
        play.after(20).ok(ask)
    return play


def outputs_stored_by_the_second_am() -> Play:
    """HDFS is in trouble while the outputs are stored, and the ApplicationMaster dies; the next one
    stores them, and runs nothing again."""
    play = Play(replace(job(), output="/results/mnist")).to_running()
    for ask in play.asks():
        play.after(60).ok(ask)
    play.after(2).send(StoringTroubled(0, 1, "the NameNode is in safe mode"))
    play.after(5).grant(play.asks()[0], "n1")
    play.after(20).restart_am()
    play.after(4).send(OutputsStored(0, 1, files=12, size_bytes=3 << 20, renamed=1))
    play.after(1).restart_am()
    return play


def outputs_not_stored_in_time() -> Play:
    """A full quota holds the storing up until its limit; a cancel comes too late to count."""
    play = Play(replace(job(), output="/results/mnist")).to_running()
    for ask in play.asks():
        play.after(60).ok(ask)
    play.after(2).send(StoringTroubled(0, 1, "the quota of names is used up"))
    play.fire(TimerKind.STORE)
    play.after(1).cancel("too late to count")
    play.after(1).send(StoringFailed(0, 1, 69, "it was stopped"))
    return play


def leaves_when_yarn_announces_it() -> Play:
    """A preemption is announced, then the end of a node: each time the gang leaves before."""
    play = Play().to_running().after(30.0)
    play.send(ContainersMarked(0, (play.asks()[0],)))
    for ask in play.asks():
        play.after(1).exited(ask, stopped(0), stopped(1))
    play.to_next_attempt()
    play.grant_all().register_all()
    play.start_all().after(30.0).send(NodeLeaving(0, NodeId("n2"), 600.0))
    play.fire(TimerKind.LEAVE)
    for ask in play.asks():
        play.after(1).exited(ask, stopped(0), stopped(1))
    play.to_next_attempt()
    play.grant_all().register_all()
    play.start_all()
    for ask in play.asks():
        play.after(20).ok(ask)
    return play


def suspended_and_resumed() -> Play:
    """Its ApplicationMaster is started again while the job is suspended."""
    play = Play().to_running().after(30.0)
    play.send(SuspendRequested(0, "ann", 3600.0, "a demo"))
    for ask in play.asks():
        play.after(1).exited(ask, stopped(0), stopped(1))
    play.after(60.0).restart_am()
    play.after(60.0).send(ResumeRequested(0, "bob"))
    play.plan()
    play.grant_all().register_all()
    play.start_all()
    for ask in play.asks():
        play.after(20).ok(ask)
    return play


def fails_while_its_peers_hang() -> Play:
    """One of two processes of a task fails; all others hang until they are killed."""
    play = Play().to_running().after(30.0)
    one, two = play.asks()
    failed = replace(failing(3, play.now_s, 1), step=40)
    play.send(TaskFailing(0, one, 1, (failed,)))
    play.after(2.1).exited(two, stopped(0), stopped(1))
    play.after(0.1).exited(one, stopped(0), failed)
    return play


def hangs_and_goes_on() -> Play:
    """A stopped rank hangs the gang, which starts again in the same containers."""
    play = Play().to_running().after(60.0)
    ranks = [RankActivity(play.asks()[1], 3, is_stopped=True)]
    missing, finding = hang_finding(ranks, "no step for 9 s (usually 1 s)")
    play.send(GangHung(0, 1, missing, finding, tuple(map(where_text, ranks))))
    for ask in play.asks():
        play.after(1).exited(ask, stopped(0), stopped(1))
    play.start_all()
    for ask in play.asks():
        play.after(20).ok(ask)
    return play


def moves_from_a_slow_node() -> Play:
    """A rank slows the gang: its task moves to another node, and the gang is not slowed there."""
    spec = replace(job(workers=3, processes=1), stragglers=StragglerSpec(replace=True))
    play = Play(spec).to_running().after(60.0)
    play.send(StragglersFound(0, 1, (Straggler(1, "n2", 0.8, 0.4, 1.5),)))
    for ask in play.asks():
        play.after(1).exited(ask, stopped(0))
    play.fill()
    (ask,) = play.waiting()
    play.after(1).grant(ask, "n4")
    play.after(1).register(ask, "n4")
    play.start_all().after(60.0).send(StragglersFound(0, 2, ()))
    for ask in play.asks():
        play.after(20).ok(ask)
    return play


def gpus_idle() -> Play:
    """The GPUs of a gang wait for input, and then no longer."""
    play = Play(job(workers=1)).to_running()
    idle = IdleGpus(6.5, 300.0, IdleCause.INPUT, 1.5, 2.0**20)
    play.after(300.0).send(IdleGpusFound(0, 1, idle))
    play.after(300.0).send(IdleGpusFound(0, 1, None))
    play.send(ConditionChanged(0, 1, "memory", "worker-0 uses 3.7 of 4 GiB"))
    play.send(ConditionChanged(0, 1, "memory", ""))
    play.after(20).ok(play.asks()[0])
    return play


def a_slow_node_is_found_by_its_check() -> Play:
    """A slow node is replaced, another one does not answer its check, then all are good."""
    spec = job(workers=3, processes=1)
    spec = replace(spec, placement=replace(spec.placement, check=NodeCheck.QUICK))
    play = Play(spec).to_launching()
    good = NodeMeasures(1000.0, 8000.0, 200.0, links=(LinkMeasure("n1", 500.0, 0.2),))
    for ask in play.asks():
        is_slow = ask == play.asks()[1]
        measures = replace(good, cpu_mib_s=100.0) if is_slow else good
        play.after(0.5).send(NodeChecked(0, ask, 1, 1, measures))
    for node in ("n4", "n5"):
        (ask,) = play.waiting()
        play.after(1).grant(ask, node)
        play.after(1).register(ask, node)
        for member in play.gang.members:
            if member.check == play.gang.checks and (member.ask != ask or node == "n5"):
                play.after(0.2).send(NodeChecked(0, member.ask, 1, play.gang.checks, good))
        if node == "n4":
            play.fire(TimerKind.CHECK)
    play.start_all()
    for ask in play.asks():
        play.after(20).ok(ask)
    return play


def passes_its_pre_run() -> Play:
    """The node of the pre-run is lost; the next one passes by its time limit, and the gang runs."""
    play = PreRunPlay().to_pre_run().after(10.0)
    play.end(play.ask, ContainerEnd.LOST, "node lost")
    play.again(on="n4").fire(TimerKind.PRE_RUN)
    measured = replace(stopped(), step_s=0.25, peak_memory_mib=700)
    play.after(1.0).exited(play.ask, measured)
    play.plan()
    play.grant_all(("n2", "n3")).register_all()
    play.start_all()
    for ask in play.asks():
        play.after(20).ok(ask)
    return play


def waits_for_another_job() -> Play:
    """The other job ends while the second ApplicationMaster lives, and the gang is planned."""
    play = Play(replace(job(), depends_on=(Dependency("prep", applications=("application_1_1",)),)))
    play.start()
    for state in (JobState.QUEUED, JobState.RUNNING):
        seen = tuple(replace(one, state=state) for one in play.gang.awaited)
        play.after(10).send(AwaitedJobsSeen(0, seen))
    play.after(60).restart_am()
    seen = tuple(replace(one, state=JobState.SUCCEEDED) for one in play.gang.awaited)
    play.after(10).send(AwaitedJobsSeen(0, seen))
    play.plan()
    play.grant_all(("n2", "n3")).register_all()
    play.start_all()
    for ask in play.asks():
        play.after(20).ok(ask)
    return play


def runs_for_its_time_limit() -> Play:
    """Preempted once, and stopped in the second run, by what the first has left of the limit."""
    play = Play(replace(job(), time_limit_s=600.0)).to_running()
    play.after(200).send(ContainersMarked(0, (play.asks()[0],)))
    for ask in play.asks():
        play.after(1).exited(ask, stopped(0), stopped(1))
    play.after(30).to_next_attempt().grant_all().register_all()
    play.start_all()
    play.fire(TimerKind.TIME_LIMIT)
    for ask in play.asks():
        play.after(1).exited(ask, stopped(0), stopped(1))
    return play


SCENARIOS: tuple[Callable[[], Play], ...] = (
    grows_and_shrinks,
    goes_on_while_tasks_come_and_go,
    leaves_on_notice_and_does_not_re_form,
    shrinks_instead_of_dying,
    happy_path,
    workers_start_when_the_server_is_ready,
    prepares_before_it_trains,
    roles_end_in_different_ways,
    hold_timeout_and_retry,
    cancelled_while_running,
    lost_node,
    am_restart,
    adopted_by_the_next_am,
    attempts_exhausted,
    replaced_in_place,
    not_replaced_in_time,
    preempted,
    leaves_when_yarn_announces_it,
    suspended_and_resumed,
    fails_while_its_peers_hang,
    hangs_and_goes_on,
    moves_from_a_slow_node,
    gpus_idle,
    a_slow_node_is_found_by_its_check,
    node_struck_off,
    outputs_stored_by_the_second_am,
    outputs_not_stored_in_time,
    passes_its_pre_run,
    waits_for_another_job,
    runs_for_its_time_limit,
)
