"""The stories that the golden journals tell: scripted lives of a gang."""

from __future__ import annotations

from collections.abc import Callable

from tests.unit.gang.play import Play, failing, job, stopped
from yarnam.model.events import TimerKind
from yarnam.model.job import GangSpec
from yarnam.model.outcomes import ContainerEnd
from yarnam.model.placement import LocalityLevel


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


def cancelled_while_running() -> Play:
    """A user has seen enough; one task stops, the other one does not."""
    play = Play(job()).to_running()
    play.after(30).cancel("the loss is NaN")
    play.after(1).exited(play.asks()[0], stopped(0), stopped(1))
    play.fire(TimerKind.STOP)
    play.after(1).grant(play.asks()[1], "n2")
    return play


def lost_node() -> Play:
    """Peers of a lost node fail first; it is the platform's fault, and the gang starts again."""
    play = Play(job()).to_running()
    one, two = play.asks()
    play.after(100).exited(one, failing(1, play.now_s, 0, "Connection reset by peer"), stopped(1))
    play.after(7.5).silent(two, 8.0)
    play.jitter(0.5)
    play.fire(TimerKind.BACKOFF)
    play.plan()
    play.grant_all().register_all()
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


STORIES: tuple[Callable[[], Play], ...] = (
    happy_path,
    hold_timeout_and_retry,
    cancelled_while_running,
    lost_node,
    am_restart,
    attempts_exhausted,
)
