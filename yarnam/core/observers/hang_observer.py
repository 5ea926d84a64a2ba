"""Finds a gang that hangs. When it seems to hang, all agents dump the stacks of their processes
first, so that the event says where they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from yarnam.core.failures.hang_detection import (
    find_hang,
    find_late_exit,
    hang_finding,
    looks_like_hang,
    where_text,
)
from yarnam.core.failures.rank_activity import RankActivity
from yarnam.core.gang.state import Member
from yarnam.core.model.events import GangHung
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_status import Phase
from yarnam.core.observers.observer import NOTHING, Observation, Observer, View

DUMP_LIMIT_S = 8.0
"""For all agents to answer: a call takes 2 s at most to reach them, and the slowest tool takes 3 s,
once or twice."""

MAX_STACKS = 16
"""Ranks whose stacks are in the event; the logs have all of them."""


@dataclass(frozen=True, slots=True)
class HangWatch:
    asked_at_s: float | None = None
    """When the agents were asked for the stacks. ``None`` while nothing seems to hang."""
    reported: int = 0
    """The attempt that was reported."""


def observe(state: HangWatch, view: View) -> tuple[HangWatch, Observation]:
    """While some tasks have ended well, the others may save or evaluate: then only a process that
    does nothing at all counts. Roles that may idle or end on their own are left out."""
    gang, spec = view.gang, view.job.hang
    unwatched = view.job.auxiliary_roles
    if preparing := view.job.preparing_roles:
        # Those that have prepared what the others read are not missed.
        unwatched = unwatched | _done(gang.members, preparing)
    members = [
        member
        for member in gang.members
        if member.target.role not in unwatched and not member.is_to_start
    ]
    running = [member for member in view.started if member.target.role not in unwatched]
    done = [member for member in members if member.is_ok]
    is_whole = len(running) + len(done) == len(members)
    if gang.phase is not Phase.RUNNING or not is_whole or state.reported == gang.attempt:
        return replace(state, asked_at_s=None), NOTHING
    ended = {member.ask for member in done}
    asks = tuple(member.ask for member in running)
    ranks = _with_ends(view.activity, asks, ended)
    known = sum(rank.ask not in ended for rank in ranks)
    if known < sum(member.target.processes_per_task for member in running):
        return state, NOTHING  # Not every process has reported.
    has_some_ended = bool(ended) or any(rank.has_ended for rank in ranks)
    why = (find_late_exit if has_some_ended else find_hang)(ranks, spec)
    is_early = not has_some_ended and looks_like_hang(ranks, spec)
    if not why and not is_early:
        return replace(state, asked_at_s=None), NOTHING
    if state.asked_at_s is None:
        text = why or "a process is stopped"
        warning = f"the gang seems to hang ({text}): dumping the stacks of all processes"
        return replace(state, asked_at_s=view.now_s), Observation((), (warning,), asks)
    # A stopped process is to blame wherever it is, so nobody waits for its stack.
    living = [rank for rank in ranks if not rank.has_ended]
    has_all = all(rank.stack is not None or rank.is_stopped for rank in living)
    if not why or (not has_all and view.now_s < state.asked_at_s + DUMP_LIMIT_S):
        return state, NOTHING
    missing, finding = hang_finding(ranks, why)
    # Those to blame first, then the others.
    shown = sorted(living, key=lambda rank: rank.rank not in missing)[:MAX_STACKS]
    where = tuple(where_text(rank) for rank in shown)
    finding = replace(finding, at_s=view.now_s)
    event = GangHung(view.now_s, gang.attempt, missing, finding, where)
    return replace(state, reported=gang.attempt), Observation((event,))


def _done(members: Iterable[Member], roles: Iterable[str]) -> frozenset[str]:
    running = {member.target.role for member in members if not member.has_ended}
    return frozenset(roles) - running


def _with_ends(
    ranks: Iterable[RankActivity], running: Collection[AskId], ended: Collection[AskId]
) -> list[RankActivity]:
    """The activity of these tasks. Of a task that has ended the last report before it stays."""
    known = (rank for rank in ranks if rank.ask in running or rank.ask in ended)
    return [replace(rank, has_ended=True) if rank.ask in ended else rank for rank in known]


def _event_text(event: GangHung) -> str:
    return f"the gang hangs: {event.finding.line}"


HANG = Observer("hang", "hang", HangWatch(), observe, GangHung, _event_text)
"""The verdict and the attempt's outcome name a hang; it needs no line of its own."""
