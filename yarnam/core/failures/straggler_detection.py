"""Find the ranks that slow a gang, and by how much.

In synchronous training all ranks take as long for a step as the slowest: the others wait for it in
the collective. So the time that each rank computes on its own (``yarnam.train.compute``) is
compared. If some ranks do not report it, the time of a whole step is compared, which shows the slow
ranks only in a gang that does not synchronize.

How much a rank matters is a what-if: the gang's step with that rank at the median of all, as in Lin
et al., "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025). A
rank that computes twice as long as the others but only for a hundredth of a step is not a
straggler.

A single slow step does not count: each rank sends the median of its last steps, and a rank counts
when it was slow in several windows in a row that do not overlap.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from yarnam.core.model.job_spec import StragglerSpec
from yarnam.core.model.outcomes import SlownessCause, Straggler

WINDOW_STEPS = 16
"""The median that a rank reports covers this many steps (``yarnam.train``)."""

WINDOWS = 4
"""A rank must be slow, or not slow any more, in this many windows in a row before it is reported.
With three, noise of 30 % in each step was reported some times in 1,000 windows; with four, never in
4,000 (``tests/property/test_stragglers.py``)."""

MAX_STRAGGLERS = 8
"""How many of the slowest ranks are reported: more would be the rule, not the exception."""

QUIET_S = 60.0
"""The least time between two reports of one attempt: a flapping result must not fill the
journal."""


@dataclass(frozen=True, slots=True)
class RankPace:
    """The pace of one rank over its last steps, as it reports it. Times in seconds."""

    rank: int
    node: str
    steps: int
    """Steps measured so far."""
    step_s: float
    compute_s: float | None = None
    """``None`` if the rank does not report it."""


@dataclass(frozen=True, slots=True)
class StragglerWatch:
    """The state of one attempt between two observations."""

    judged_steps: int = 0
    """The fewest steps of any rank at the last window."""
    windows: int = 0
    slow: tuple[tuple[int, int], ...] = ()
    """Ranks that were slow in the last window, with the number of slow windows in a row."""
    healthy: tuple[tuple[int, int], ...] = ()
    """Reported ranks that have not been slow since, with the number of such windows."""
    reported: tuple[int, ...] | None = None
    """The ranks reported last; ``None`` before the first report."""
    reported_at_s: float = 0.0


def find_stragglers(paces: Sequence[RankPace], slowdown: float) -> tuple[Straggler, ...]:
    """Find the ranks without whose slowness the gang would be ``slowdown`` times as fast, slowest
    first.

    Args:
        paces: of all ranks.
        slowdown: at least; above 1.
    """
    if len(paces) < 2:
        return ()
    compute = {one.rank: one.compute_s for one in paces if one.compute_s is not None}
    if len(compute) < len(paces):
        compute = {one.rank: one.step_s for one in paces}
    # The lower of two: of a pair the slower one is compared with the faster one.
    usual_s = statistics.median_low(compute.values())
    longest_s = max(compute.values())
    step_s = max(longest_s, statistics.median(one.step_s for one in paces))
    slow = {
        rank
        for rank, own_s in compute.items()
        if own_s > usual_s and step_s >= slowdown * (step_s - (own_s - usual_s))
    }
    if not slow:
        return ()
    rest_s = max(own_s for rank, own_s in compute.items() if rank not in slow)
    without_s = step_s - (longest_s - rest_s)
    if without_s <= 0 or step_s < slowdown * without_s:
        return ()
    found = [
        Straggler(one.rank, one.node, compute[one.rank], usual_s, step_s / without_s)
        for one in paces
        if one.rank in slow
    ]
    found.sort(key=lambda one: (-one.compute_s, one.rank))
    return tuple(found[:MAX_STRAGGLERS])


def watch_stragglers(
    watch: StragglerWatch,
    paces: Sequence[RankPace],
    spec: StragglerSpec,
    now_s: float,
    *,
    is_none_news: bool = False,
) -> tuple[StragglerWatch, tuple[Straggler, ...] | None]:
    """Add one observation; return the new state, and the stragglers if they are news, else None.

    Args:
        paces: the paces of all ranks of the gang; empty if some have not reported.
        is_none_news: an attempt without stragglers is news too, since the one before had some.
    """
    if not spec.detect or not paces:
        return watch, None
    steps = min(one.steps for one in paces)
    if steps < watch.judged_steps + WINDOW_STEPS:
        return watch, None
    found = find_stragglers(paces, spec.slowdown)
    known, ranks = watch.reported or (), {one.rank for one in found}
    before, well = dict(watch.slow), dict(watch.healthy)
    slow = tuple((rank, before.get(rank, 0) + 1) for rank in sorted(ranks))
    healthy = tuple((rank, well.get(rank, 0) + 1) for rank in known if rank not in ranks)
    watch = replace(
        watch, judged_steps=steps, windows=watch.windows + 1, slow=slow, healthy=healthy
    )
    if watch.windows < WINDOWS or _is_too_soon(watch, now_s):
        return watch, None
    recovered = {rank for rank, windows in healthy if windows >= WINDOWS}
    confirmed = {rank for rank, windows in slow if windows >= WINDOWS}
    current = tuple(sorted((set(known) - recovered) | confirmed))
    is_news = current != known or (watch.reported is None and is_none_news)
    # One that was not slow in this very window would come without figures: at the next one.
    if not is_news or not set(current) <= ranks:
        return watch, None
    watch = replace(watch, reported=current, reported_at_s=now_s)
    return watch, tuple(one for one in found if one.rank in current)


def _is_too_soon(watch: StragglerWatch, now_s: float) -> bool:
    return watch.reported is not None and now_s < watch.reported_at_s + QUIET_S


def with_causes(
    stragglers: Sequence[Straggler],
    earlier: Sequence[Straggler],
    nodes: Mapping[int, str],
) -> tuple[Straggler, ...]:
    """The same, each with its cause where it shows.

    Args:
        earlier: the stragglers of earlier attempts.
        nodes: where each rank runs now.
    """
    slow = {one.rank for one in stragglers}
    return tuple(replace(one, cause=_cause(one, slow, earlier, nodes)) for one in stragglers)


def cleared(
    earlier: Sequence[Straggler], slow: Sequence[Straggler], nodes: Mapping[int, str]
) -> tuple[Straggler, ...]:
    """Update the stragglers of an earlier attempt, now that ``slow`` are the slow ones: if a rank
    now runs on another node and is no longer slow, its former node was the cause."""
    still = {straggler.rank for straggler in slow}
    return tuple(
        replace(one, cause=SlownessCause.NODE)
        if one.rank not in still and nodes.get(one.rank, one.node) != one.node
        else one
        for one in earlier
    )


def _cause(
    one: Straggler, slow: set[int], earlier: Sequence[Straggler], nodes: Mapping[int, str]
) -> SlownessCause:
    of_node = any(old.node == one.node and old.rank != one.rank for old in earlier)
    of_rank = any(old.rank == one.rank and old.node != one.node for old in earlier)
    if of_node != of_rank:
        return SlownessCause.NODE if of_node else SlownessCause.DATA
    # All ranks of one node, each with its own share of the data, and only those.
    mine = {rank for rank, node in nodes.items() if node == one.node}
    if not of_rank and len(mine) > 1 and mine <= slow and len(mine) < len(nodes):
        return SlownessCause.NODE
    return SlownessCause.UNKNOWN
