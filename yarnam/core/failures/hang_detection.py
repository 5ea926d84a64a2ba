"""Whether a running gang hangs, and which of its processes the others wait for.

A hang is not seen in one process: in a collective that never ends all of them wait, some without
any CPU (gloo, gRPC), some busy (NCCL spins). What is certain is that steps stop. So steps are the
sign, and only where a gang reports any; that nothing else happens, or that a process is stopped,
makes it a hang. A process in a pause (``yarnam.train.pause``) is not expected to step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from yarnam.core.failures.first_failure import FailedProcess, in_order_of_cause
from yarnam.core.failures.rank_activity import RankActivity
from yarnam.core.model.job_spec import HangSpec
from yarnam.core.model.outcomes import FailureClass, FailureRole, Finding, RetryAction
from yarnam.errors import Blame

LEAST_S = 4.0
"""Beyond ``hang.steps`` usual steps: the newest step is known, and activity seen, every 2 s, and
short steps vary by more than their length."""

EARLY_S = 2.0
"""So much before the other limit the stacks of a gang with a stopped process are asked for: tools
take their time."""

SHOWN_RANKS = 8
"""Ranks in a text."""


def find_hang(ranks: Sequence[RankActivity], spec: HangSpec) -> str:
    """Explain why the gang seems to hang; empty if it does not. ``ranks`` are all processes of the
    gang."""
    if not spec.detect or not ranks:
        return ""
    if spec.silence_s is not None:
        quiet_s = min(one.idle_s for one in ranks)
        if quiet_s >= spec.silence_s:
            return f"no process has used CPU, read, written or printed for {quiet_s:.0f} s"
    stepped = [one for one in ranks if one.has_stepped or one.step_s is not None]
    if not stepped:
        return ""
    age_s = min(one.step_age_s for one in stepped)
    usual_s = max((one.step_s for one in stepped if one.step_s is not None), default=None)
    text = f"no step for {age_s:.0f} s"
    if usual_s is None:
        # Each of its steps has a pause, a checkpoint for instance: none is a usual one.
        return text if age_s >= spec.timeout_s else ""
    text += f" (usually {usual_s:.2g} s)"
    if age_s >= spec.timeout_s:
        return text
    if age_s < spec.steps * usual_s + LEAST_S or any(one.pause for one in ranks):
        return ""
    if any(one.is_stopped for one in ranks):
        return text
    is_idle = all(one.idle_s >= spec.idle_s for one in ranks)
    return f"{text}, and no process does anything" if is_idle else ""


def find_late_exit(ranks: Sequence[RankActivity], spec: HangSpec) -> str:
    """Explain why the remaining processes seem to hang while others of the gang have ended well (in
    the destructor of a process group, for instance); empty if they do not. ``ranks`` are the
    remaining processes, and those of the others that are known. A process that saves or evaluates
    is active; a gang that reports no steps may wait for something outside."""
    left = [one for one in ranks if not one.has_ended]
    has_trained = any(one.has_stepped or one.step_s is not None for one in ranks)
    if not spec.detect or not left or not has_trained or any(one.pause for one in left):
        return ""
    quiet_s = min(one.idle_s for one in left)
    if quiet_s < spec.idle_s:
        return ""
    shown = _ranks([one.rank for one in left])
    return f"the others have ended, but {shown} did nothing for {quiet_s:.0f} s and did not exit"


def looks_like_hang(ranks: Sequence[RankActivity], spec: HangSpec) -> bool:
    """Whether it is to be expected that the gang is taken to hang soon: a process is stopped, and
    the others make no step any more. It may still continue."""
    if not any(one.is_stopped for one in ranks):
        return False
    early = [replace(one, step_age_s=one.step_age_s + EARLY_S) for one in ranks]
    return bool(find_hang(early, spec))


RAISED_SLACK_S = 5.0
"""A traceback also counts if it was written this long before the others' last step, or before the
last process of the gang fell silent: its time is known only to the seconds between two polls."""


def raised_first(ranks: Sequence[RankActivity]) -> RankActivity | None:
    """The rank that failed, though its process lives: a traceback of its own, written since the
    gang's last step. Of several the first cause."""
    stepped = [one.step_age_s for one in ranks if one.has_stepped or one.step_s is not None]
    quiet_s = min(stepped) if stepped else min(one.idle_s for one in ranks)
    failed = [
        FailedProcess(number, one.rank, -one.raised_age_s, one.raised)
        for number, one in enumerate(ranks)
        if one.raised is not None
        and one.raised.role is FailureRole.ROOT
        and one.raised_age_s <= quiet_s + RAISED_SLACK_S
    ]
    first = next(iter(in_order_of_cause(failed)), None)
    return None if first is None else ranks[first.key]


def missing_ranks(ranks: Sequence[RankActivity]) -> tuple[tuple[int, ...], str]:
    """The ranks that the others wait for, as far as it shows, and how it shows."""
    stopped = tuple(one.rank for one in ranks if one.is_stopped)
    if stopped:
        return stopped, "stopped by a signal"
    steps = [one.step for one in ranks if one.step is not None]
    if steps and len(steps) == len(ranks) and min(steps) < max(steps):
        late = tuple(one.rank for one in ranks if one.step == min(steps))
        return late, f"at step {min(steps)}, the others at {max(steps)}"
    behind = _behind(ranks)
    if behind is not None:
        return behind
    places = Counter(one.stack[0] for one in ranks if one.stack)
    if len(places) > 1:
        usual, count = places.most_common(1)[0]
        others = tuple(one.rank for one in ranks if one.stack and one.stack[0] != usual)
        if count > len(others):
            return others, f"not where the others are ({usual})"
    return (), ""


def _behind(ranks: Sequence[RankActivity]) -> tuple[tuple[int, ...], str] | None:
    """The ranks that have not begun the collective in which the others wait. All have to have told
    of the same group: of others the numbers say nothing."""
    last = [(one.rank, one.collective) for one in ranks if one.collective is not None]
    if len(last) < len(ranks) or len({of.group for _, of in last}) != 1:
        return None
    newest = max((of for _, of in last), key=lambda of: of.number)
    late = tuple(rank for rank, of in last if of.number < newest.number)
    return (late, f"not in {newest.words}") if late else None


def hang_finding(ranks: Sequence[RankActivity], why: str) -> tuple[tuple[int, ...], Finding]:
    """The ranks to blame, lowest first (empty if unknown), and the class with its evidence:
    ``hang``, or that of a failure in a rank's output."""
    is_stopped = any(one.is_stopped for one in ranks)
    left = [one for one in ranks if not one.has_ended]
    first = None if is_stopped or not left else raised_first(left)
    if first is not None and first.raised is not None:
        # It waits for the others while it exits, or one of its threads has failed.
        return (first.rank,), first.raised
    if any(one.has_ended for one in ranks):
        return tuple(one.rank for one in ranks if not one.has_ended), _hang(why)
    missing, how = missing_ranks(ranks)
    line = f"{why}; {_ranks(missing)} did not arrive: {how}" if missing else why
    return missing, _hang(line)


def _hang(line: str) -> Finding:
    return Finding(
        rule="hang",
        failure=FailureClass.HANG,
        role=FailureRole.ROOT,
        action=RetryAction.RETRY,
        blame=Blame.INFRA,
        line=line,
        explanation="The gang made no progress any more: its processes waited for each other.",
        hint="The stacks of all ranks are in their logs. Mark long pauses with "
        "yarnam.train.pause; the limits are in the section hang of the spec.",
    )


def where_text(rank: RankActivity) -> str:
    """``rank 2: all_reduce (distributed.py:12) < train (train.py:40)``."""
    words = ["stopped by a signal"] if rank.is_stopped else []
    words += [" < ".join(rank.stack)] if rank.stack else []
    words += [f"last collective {rank.collective.words}"] if rank.collective else []
    return f"rank {rank.rank}: {', '.join(words) or 'its stack could not be read'}"


def _ranks(ranks: Sequence[int]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:SHOWN_RANKS])
    more = f" and {len(ranks) - SHOWN_RANKS} more" if len(ranks) > SHOWN_RANKS else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"
