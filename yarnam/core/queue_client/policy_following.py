"""A job whose gang runs or is suspended follows the policy of its queue.

Every few seconds it reads the administrator's choice. Where there is one, it reads the other jobs'
tickets and the cluster too, and computes the schedule that all jobs of the queue compute. Of that
it carries out its own row: suspend (only what has a checkpoint), resume, another size. A job that
waits decides by it in ``admission_wait``.

A job acts by a snapshot of its own, never by one that another job has taken. One that the policy
has suspended resumes where nothing is chosen any more, or ZooKeeper stays away.
"""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.admission import QueueSnapshot
from yarnam.core.model.events import Event, ResumeRequested
from yarnam.core.model.job_status import Phase
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.core.model.tickets import RunningGang, Ticket
from yarnam.core.policies.queue_schedule import acts, event_of
from yarnam.core.policies.schedule import JobDecision
from yarnam.core.queue_client.admission_rules import policy_ticketed, with_policy, with_policy_of
from yarnam.core.queue_client.client_actions import ReadPolicy, ReadSnapshot, ReadTickets, Send
from yarnam.core.queue_client.client_context import ClientStep
from yarnam.core.queue_client.client_events import PolicyRead, TicketsRead
from yarnam.core.queue_client.client_state import FollowStage, Running
from yarnam.core.queue_client.gang_view import GangView
from yarnam.core.queue_client.queue_record import show
from yarnam.core.queue_client.ticket_list import TicketList

SHARED_AGE_S = 10.0
"""How old a snapshot of another job may be: so the ResourceManager is asked about once in this time
for all jobs together."""

AWAY_S = 60.0
"""A job that the policy has suspended resumes when ZooKeeper has been away for this long: no
session lives longer, and no election takes as long. Ours."""


def begin_look(ctx: ClientStep, now: GangView) -> None:
    """A look that is still under way has failed: the next one begins."""
    if not (_is_due(ctx, now) and _is_due(ctx, ctx.client.gang)):
        ctx.follow(stage=FollowStage.NONE, awaits=0, away_since_s=None, before=None)
    elif ctx.client.is_connected:
        serial = ctx.next_serial()
        ctx.follow(stage=FollowStage.POLICY, awaits=serial)
        ctx.do(ReadPolicy(serial))
    else:
        _without_queue(ctx)


def policy_read(ctx: ClientStep, event: PolicyRead) -> None:
    ctx.set(trouble="")
    ctx.follow(away_since_s=None)
    ctx.client = with_policy(ctx.client, event.chosen, event.active, ctx.moment)
    view = ctx.client.gang
    if view is not None:
        show(ctx, view)
    if ctx.client.policy is None:
        _end_look(ctx)
        _resume(ctx, "its queue has no policy any more")
    elif not _is_due(ctx, view) or ctx.client.record.shown is None:
        _end_look(ctx)
    else:
        _read(ctx, FollowStage.TICKETS)


def _read(ctx: ClientStep, stage: FollowStage) -> None:
    serial = ctx.next_serial()
    ctx.follow(stage=stage, awaits=serial)
    ctx.do(ReadTickets(serial))


def tickets_read(ctx: ClientStep, event: TicketsRead) -> None:
    if event.listed.unread:
        # A schedule without some of the jobs would suspend others. The next look knows more.
        _end_look(ctx)
        return
    is_own = ctx.client.following.stage is FollowStage.OWN_TICKETS
    serial = ctx.next_serial()
    stage = FollowStage.OWN_SNAPSHOT if is_own else FollowStage.SNAPSHOT
    ctx.follow(stage=stage, awaits=serial, listed=event.listed)
    ctx.do(ReadSnapshot(serial, None if is_own else SHARED_AGE_S))


def snapshot_read(ctx: ClientStep, snapshot: ClusterSnapshot | None) -> None:
    following, listed = ctx.client.following, ctx.client.following.listed
    if snapshot is None or listed is None:
        _end_look(ctx)
        return
    ctx.client = with_policy_of(ctx.client, listed, ctx.moment)
    row, view = _row(ctx, listed, snapshot), ctx.client.gang
    if row is None or view is None or not _is_due(ctx, view):
        _end_look(ctx)
        return
    is_own = following.stage is FollowStage.OWN_SNAPSHOT
    if not is_own and acts(row, is_suspended=view.is_suspended):
        # By another job's snapshot a job may continue as it is, no more.
        _read(ctx, FollowStage.OWN_TICKETS)
        return
    before = following.before
    _end_look(ctx)
    ctx.follow(before=row)
    ctx.set(decision=row)
    _carry_out(ctx, view, row, before)


def failed(ctx: ClientStep) -> None:
    """The queue does not answer."""
    is_first = ctx.client.following.stage is FollowStage.POLICY
    _end_look(ctx)
    if is_first:
        _without_queue(ctx)


# ---- inside --------------------------------------------------------------------------------------


def _end_look(ctx: ClientStep) -> None:
    ctx.follow(stage=FollowStage.NONE, awaits=0, listed=None)


def _is_due(ctx: ClientStep, view: GangView | None) -> bool:
    if view is None or view.is_pre_run or not ctx.client.has_queue:
        return False
    return view.phase is Phase.RUNNING or view.is_suspended


def _row(ctx: ClientStep, listed: TicketList, snapshot: ClusterSnapshot) -> JobDecision | None:
    """The job's own decision. ``None`` if the others cannot see the job now."""
    client = ctx.client
    policy, shown = client.policy, client.record.shown
    if policy is None or shown is None:
        return None
    mine: Ticket | RunningGang
    if isinstance(shown, Running):
        ticket = policy_ticketed(client, client.job.gang_ticket, ctx.moment).policy
        mine = replace(shown.gang, policy=ticket)
    else:
        mine = ctx.wanted()
    if mine.policy is None:
        return None
    seen = QueueSnapshot(snapshot, listed.tickets, listed.running, ctx.now_s)
    schedule, _ = listed.schedule(mine, seen, policy)
    return schedule.row(mine.job)


def _carry_out(
    ctx: ClientStep, view: GangView, row: JobDecision, before: JobDecision | None
) -> None:
    policy = ctx.client.policy
    assert policy is not None
    resizes = policy.policy is not None and policy.policy.resizes
    event = event_of(
        row,
        _by(ctx),
        ctx.now_s,
        is_suspended=view.is_suspended,
        before=before,
        tasks_for=None if ctx.client.job.size is None else lambda gpus: _tasks_for(ctx, view, gpus),
        has_made_way=view.is_sized_by_policy and not resizes,
    )
    if event is None:
        return
    ctx.follow(before=None)
    _send(ctx, event)


def _tasks_for(ctx: ClientStep, view: GangView, gpus: int) -> int:
    """Tasks of the elastic role with which the gang has at most this many GPUs."""
    job = ctx.client.job
    size, each = job.size, view.gpus_per_task
    assert size is not None
    return size.bounded((gpus - job.gpus_of_other_roles) // each) if each else size.least


def _by(ctx: ClientStep) -> str:
    policy = ctx.client.policy
    return f"the queue's policy ({policy.name})" if policy else "the queue's policy"


def _resume(ctx: ClientStep, why: str) -> None:
    view = ctx.client.gang
    if view is not None and view.is_suspended:
        del why  # Shown by the shell's log of the event.
        _send(ctx, ResumeRequested(ctx.now_s, _by(ctx), is_policy=True))


def _without_queue(ctx: ClientStep) -> None:
    since_s = ctx.client.following.away_since_s
    since_s = ctx.now_s if since_s is None else since_s
    ctx.follow(away_since_s=since_s)
    if ctx.now_s - since_s >= AWAY_S:
        _resume(ctx, f"ZooKeeper has been away for {AWAY_S:.0f} s")


def _send(ctx: ClientStep, event: Event) -> None:
    ctx.do(Send(event))
