"""The gang has succeeded: what its tasks wrote becomes the job's output.

No container is held any more: storing is a matter of renames, and GPUs must not wait for it. The
shell does it (``StoreOutputs``), as often as it is told, and says in the end that the output is
there or that it will not be. Two things end it early: its limit (STORE) and a user's cancel. Then
the shell is told to stop and has ``store_margin_s`` to say which of the two it was in the end
(STOP), for a rename under way may still have happened. Nothing is ever run again from here.

A new ApplicationMaster goes on where the last one stopped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from yarnam.errors import ExitCode
from yarnam.gang.ending import OF_AN_ATTEMPT, close_attempt, finish
from yarnam.gang.state import Storing
from yarnam.gang.turn import Turn
from yarnam.model.actions import ReleaseContainer, StopStoring, StoreOutputs
from yarnam.model.events import (
    AgentRegistered,
    AmRestarted,
    CancelRequested,
    ContainerGranted,
    Event,
    OutputsStored,
    StoringFailed,
    StoringTroubled,
    TimerFired,
    TimerKind,
)
from yarnam.model.outcomes import VerdictKind
from yarnam.model.status import Phase, byte_words

if TYPE_CHECKING:
    from yarnam.model.ids import TaskId


def begin(turn: Turn, text: str) -> None:
    """``text``: how the gang has succeeded. Gives all containers back, then stores."""
    limit_s = turn.policy.store_timeout_s
    assert limit_s is not None
    close_attempt(turn, text)
    turn.release_all("its processes have ended")
    turn.disarm(TimerKind.WAIT, *OF_AN_ATTEMPT)
    turn.enter(Phase.STORING)
    turn.gang = replace(turn.gang, storing=Storing(text), stopping=None, recovery=None)
    turn.arm(TimerKind.STORE, limit_s)
    turn.do(StoreOutputs(turn.gang.attempt, _tasks(turn)))


def apply(turn: Turn, event: Event) -> None:
    """One event while the outputs are being stored."""
    match event:
        case OutputsStored() | StoringTroubled() | StoringFailed():
            if event.attempt == turn.gang.attempt:
                _told(turn, event)
        case TimerFired():
            _on_timer(turn, event)
        case CancelRequested():
            text = f"cancelled by {event.by}" + (f": {event.reason}" if event.reason else "")
            _stop(turn, VerdictKind.CANCELLED, text)
        case AmRestarted():
            turn.gang = replace(turn.gang, am_attempt=event.am_attempt)
            _go_on(turn)
        case ContainerGranted() | AgentRegistered():
            turn.do(ReleaseContainer(event.ask, "its job only stores its outputs by now"))
        case _:
            pass  # of containers that were given back, or of no meaning without a gang


def _told(turn: Turn, event: OutputsStored | StoringTroubled | StoringFailed) -> None:
    storing = turn.gang.storing
    assert storing is not None
    match event:
        case OutputsStored():
            turn.gang = replace(turn.gang, stored=event)
            files = f"{event.files} file{'' if event.files == 1 else 's'}"
            what = f"{files} of output ({byte_words(event.size_bytes)}) stored"
            if event.renamed:
                what += f", {event.renamed} under another name"
            finish(turn, VerdictKind.SUCCEEDED, ExitCode.OK, f"{storing.text}; {what}")
        case StoringTroubled():
            if storing.ending is None:
                turn.gang = replace(turn.gang, reason=event.message)
        case StoringFailed():
            if storing.ending is None:
                code = ExitCode(event.exit_code)
                text = f"{storing.text}, but the outputs could not be stored: {event.message}"
                finish(turn, VerdictKind.FAILED, code, text, event.hint)
            else:
                _end(turn, storing, event.hint)


def _on_timer(turn: Turn, event: TimerFired) -> None:
    kind, storing = turn.fired(event), turn.gang.storing
    if kind is None or storing is None:
        return
    turn.forget(kind)
    if kind is TimerKind.STORE:
        trouble = f": {turn.gang.reason}" if turn.gang.reason else ""
        text = f"not within {turn.policy.store_timeout_s:.0f} s{trouble}"
        _stop(turn, VerdictKind.FAILED, text)
    elif kind is TimerKind.STOP:
        _end(turn, storing, "Look at the output's directory: it is there whole, or not at all.")


def _stop(turn: Turn, ending: VerdictKind, why: str) -> None:
    """The first reason to stop is the one that counts."""
    gang, storing = turn.gang, turn.gang.storing
    if storing is None or storing.ending is not None:
        return
    turn.disarm(TimerKind.STORE)
    turn.gang = replace(
        turn.gang, storing=replace(storing, ending=ending, why=why), reason=f"stopping: {why}"
    )
    turn.arm(TimerKind.STOP, turn.policy.store_margin_s)
    turn.do(StopStoring(gang.attempt, why))


def _end(turn: Turn, storing: Storing, hint: str) -> None:
    if storing.ending is VerdictKind.CANCELLED:
        text = f"{storing.why}, while the outputs were being stored"
        finish(turn, VerdictKind.CANCELLED, ExitCode.CANCELLED, text)
        return
    text = f"{storing.text}, but the outputs were not stored: {storing.why}"
    finish(turn, VerdictKind.FAILED, ExitCode.UNAVAILABLE, text, hint)


def _go_on(turn: Turn) -> None:
    """In a new ApplicationMaster: whoever stored died with the last one."""
    gang, storing = turn.gang, turn.gang.storing
    turn.rearm()
    if storing is not None and storing.ending is not None:
        turn.do(StopStoring(gang.attempt, storing.why))
    else:
        turn.do(StoreOutputs(gang.attempt, _tasks(turn)))


def _tasks(turn: Turn) -> tuple[TaskId, ...]:
    """In rank order: that of the launch."""
    return tuple(member.task for member in turn.gang.members if member.task is not None)
