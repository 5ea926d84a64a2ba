"""The state of each role, for people: ``JobStatus.roles``."""

from __future__ import annotations

from yarnam.core.gang.policy import GangPolicy, RolePolicy
from yarnam.core.gang.roles.completion import has_to_end
from yarnam.core.gang.roles.start_order import waits_for
from yarnam.core.gang.state import Gang, Member, MemberState
from yarnam.core.model.job_spec import After, CompletionRule, JobSpec, StartCondition
from yarnam.core.model.job_status import RoleStatus
from yarnam.core.model.outcomes import ExitKind


def role_states(gang: Gang, job: JobSpec, policy: GangPolicy) -> tuple[RoleStatus, ...]:
    """List the roles of a job in which some role does not end, fail or start in the usual way;
    empty for any other job, and for a pre-run."""
    if not policy.rules or gang.is_pre_run:
        return ()
    members = gang.members
    served = _listed([role.name for role in job.roles if role.name not in job.services])
    return tuple(
        RoleStatus(
            role=role.name,
            rules=_rules_text(policy.rules_of(role.name), role.tasks, served),
            tasks=role.tasks,
            succeeded=sum(m.is_ok for m in _of(members, role.name)),
            failed=sum(m.is_tolerated for m in _of(members, role.name)),
            state=_state(role.name, members, policy),
        )
        for role in job.roles
    )


def _of(members: tuple[Member, ...], role: str) -> tuple[Member, ...]:
    return tuple(member for member in members if member.target.role == role)


def _rules_text(rules: RolePolicy, tasks: int, served: str) -> str:
    """``service, optional``; ``at least 3 tasks of 4 must succeed``."""
    parts: list[str] = []
    if rules.is_service:
        parts.append(f"service, stopped when {served} complete")
    elif rules.completion.rule is not CompletionRule.ALL:
        of = f" of {tasks}" if rules.completion.rule is not CompletionRule.CHIEF else ""
        rest = ", all others must end" if rules.completion.waits_for_all else ""
        parts.append(f"{rules.completion.words}{of} must succeed{rest}")
    if rules.is_optional:
        parts.append("optional")
    if rules.after:
        parts.append(f"starts when {_after_text(rules.after)}")
    return ", ".join(parts)


def _state(role: str, members: tuple[Member, ...], policy: GangPolicy) -> str:
    """``2 running, 1 succeeded, 1 failed (the job continues)``."""
    launched = [member for member in _of(members, role) if member.task is not None]
    if not launched:
        return "not started"
    if any(member.is_to_start for member in launched) and (
        first := waits_for(role, members, policy)
    ):
        return f"waits until {_after_text(first)}"
    is_waited_for = has_to_end(role, members, policy)
    counts = (
        (sum(m.state is MemberState.READY for m in launched), "not started yet"),
        (sum(m.state is MemberState.STARTED for m in launched), "running"),
        (sum(m.is_ok for m in launched), "succeeded"),
        (sum(_was_stopped(m) for m in launched), "ended" if is_waited_for else "stopped"),
        (sum(_has_failed(m) and not m.is_tolerated for m in launched), "failed"),
        (sum(m.is_tolerated for m in launched), "failed (the job goes on)"),
        (sum(m.loss is not None and not m.is_tolerated for m in launched), "lost"),
    )
    return ", ".join(f"{count} {words}" for count, words in counts if count)


def _after_text(after: tuple[After, ...]) -> str:
    """``ps is ready and chief has started``."""
    words = {
        StartCondition.READY: "is ready",
        StartCondition.STARTED: "has started",
        StartCondition.ENDED: "has ended",
    }
    return " and ".join(f"{one.role} {words[one.until]}" for one in after)


def _was_stopped(member: Member) -> bool:
    has_exited = member.state is MemberState.EXITED and not member.is_ok
    return has_exited and not member.is_tolerated and not _has_failed(member)


def _has_failed(member: Member) -> bool:
    harmless = (ExitKind.OK, ExitKind.STOPPED)
    return member.state is MemberState.EXITED and any(p.kind not in harmless for p in member.exits)


def _listed(names: list[str]) -> str:
    """``worker is``; ``chief and worker are``."""
    if len(names) == 1:
        return f"{names[0]} is"
    return f"{', '.join(names[:-1])} and {names[-1]} are"
