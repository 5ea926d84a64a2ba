"""STAGING: the whole gang is held, and its members fetch the inputs that their processes will read.

No process runs yet, so a member that is lost meanwhile is replaced as in ACQUIRING, and the others
keep what they have fetched.
"""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.gang import node_blacklist
from yarnam.core.gang.attempts import fail_attempt
from yarnam.core.gang.context import StepContext
from yarnam.core.gang.phases import acquiring
from yarnam.core.gang.phases.barrier import members_text, order_launch
from yarnam.core.model.events import (
    AgentSilent,
    AgentUnable,
    ContainerEnded,
    NodesSuspected,
    TaskStaged,
    TimerFired,
    TimerKind,
)
from yarnam.core.model.job_status import Phase
from yarnam.errors import ExitCode

# ---- guards --------------------------------------------------------------------------------------


def is_last_staged(ctx: StepContext, event: TaskStaged) -> bool:
    """All the others have their inputs."""
    return all(member.is_staged for member in ctx.gang.members if member is not ctx.member)


# ---- operations ----------------------------------------------------------------------------------


def note_staged(ctx: StepContext, event: TaskStaged) -> None:
    """The member has its inputs."""
    ctx.put(ctx.member, replace(ctx.member, is_staged=True))


def launch(ctx: StepContext, event: TaskStaged) -> None:
    """LaunchGang; cancel STAGING, start LAUNCH."""
    ctx.put(ctx.member, replace(ctx.member, is_staged=True))
    ctx.disarm(TimerKind.STAGING)
    ctx.enter(Phase.LAUNCHING, ctx.gang.reason)
    order_launch(ctx)


def replace_unable(ctx: StepContext, event: AgentUnable) -> None:
    """Acquire again: replace the member; cancel STAGING or CHECK, start HOLD."""
    step_back(ctx)
    acquiring.replace_unable(ctx, event)


def replace_silent(ctx: StepContext, event: AgentSilent) -> None:
    """Acquire again: replace the member; cancel STAGING or CHECK, start HOLD."""
    step_back(ctx)
    acquiring.replace_silent(ctx, event)


def replace_ended(ctx: StepContext, event: ContainerEnded) -> None:
    """Acquire again: replace the member; cancel STAGING or CHECK, start HOLD."""
    step_back(ctx)
    acquiring.replace_ended(ctx, event)


def take_hints(ctx: StepContext, event: NodesSuspected) -> None:
    """With a strike of this job's own, a hint excludes the node: the tasks there are replaced."""
    node_blacklist.take_hints(ctx, event)
    if node_blacklist.members_on_excluded(ctx.gang, ctx.policy, ctx.at_s):
        step_back(ctx)
        acquiring.leave_excluded(ctx)


def time_out(ctx: StepContext, event: TimerFired) -> None:
    """Release all; the attempt has failed."""
    late = [member for member in ctx.gang.members if not member.is_staged]
    text = (
        f"the inputs of {members_text(late)} were not on the node within "
        f"{ctx.policy.staging_timeout_s:.0f} s (data.staging_timeout)"
    )
    fail_attempt(ctx, text, ExitCode.ATTEMPTS_EXHAUSTED)


def step_back(ctx: StepContext) -> None:
    """No process runs: the gang is being acquired again. What the members have fetched stays."""
    ctx.disarm(TimerKind.STAGING, TimerKind.CHECK)
    ctx.enter(Phase.ACQUIRING)
    ctx.arm(TimerKind.HOLD, ctx.policy.gang.hold_timeout_s)
    if ctx.gang.timer(TimerKind.WAIT) is None:
        # It had run before: from here on it waits as one that has not.
        ctx.arm(TimerKind.WAIT, ctx.policy.gang.wait_timeout_s)
