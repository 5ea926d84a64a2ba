"""Why a job waits, in one sentence with figures, and the smallest change that would start it.

The Fair Scheduler has no ``activities`` API; what follows is what it would have to say. The order
of the checks is its own, and the Capacity Scheduler's: first what keeps an ApplicationMaster from
starting (``FSLeafQueue``: maxRunningApps, maxAMShare; ``FSQueue``: the maximum of the queue and of
those above it; nodes), then what keeps the gang from being complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from yarnam.core.model.printable import duration
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import (
    Node,
    Scheduler,
    cordoned_nodes,
    cordons_text,
    without_cordons,
)
from yarnam.core.model.tickets import SUSPENDED, Demand, MustWait
from yarnam.core.queues.queue_state import QueueState
from yarnam.core.queues.queues_now import QueueJob, QueuesNow, Stage


@dataclass(frozen=True, slots=True)
class _Terms:
    """A scheduler's terms for its settings, and for a queue's part."""

    max_jobs: str
    am_share: str
    maximum: str
    container: str
    preemption: str
    share: str


_TERMS = _Terms(
    "maxRunningApps", "maxAMShare", "maxResources", "maxContainerAllocation",
    "yarn.scheduler.fair.preemption = true", "fair share",
)  # fmt: skip
_CAPACITY_TERMS = _Terms(
    "max-parallel-apps", "maximum-am-resource-percent", "maximum-capacity", "maximum-allocation",
    "yarn.resourcemanager.scheduler.monitor.enable = true", "capacity",
)  # fmt: skip


def _terms(now: QueuesNow) -> _Terms:
    return _CAPACITY_TERMS if now.scheduler is Scheduler.CAPACITY else _TERMS


RESOURCES = (("GPUs", "gpus"), ("MiB", "memory_mib"), ("vcores", "vcores"))
"""Names for people and of the fields; the scarcest first."""


OPEN = frozenset({"fits", "unknown"})
"""Causes after which a gang's own ApplicationMaster may know more."""


@dataclass(frozen=True, slots=True)
class Wait:
    """``cause`` is one of a few words, for programs; ``change`` is empty where none is known."""

    cause: str
    reason: str
    change: str = ""


def why_waiting(job: QueueJob, now: QueuesNow) -> Wait:
    """Explain why the job waits."""
    path = now.path(job.queue)
    if not path:
        return Wait("no-queue", f"there is no queue {job.queue}", "name a queue that exists")
    if job.stage is Stage.RUNNING:
        return Wait("running", "it does not wait: its gang runs")
    if job.stage is Stage.WAITS_FOR_AM:
        return _without_am(job, path, now)
    stopped = now.closures.of_queue(job.queue) if job.is_gang else None
    if stopped is not None:
        queue, closure = stopped
        return Wait(
            "queue-stopped",
            f"queue {queue} is stopped {closure.words}, so no gang of it begins",
            f"yarnam queues resume {queue}",
        )
    if job.awaited:
        others = [one.words for one in job.awaited]
        more = f", and {_count(len(others) - 1, 'more job')}" if others[1:] else ""
        return Wait(
            "earlier-jobs",
            f"it waits for {others[0]}{more} (depends_on), and requests no GPU before",
            f"the end of {job.awaited[0].application}",
        )
    if not job.demands:
        return Wait(
            "unknown",
            "what its gang needs is not known: it has no ticket in ZooKeeper, as while it waits "
            "for other jobs (depends_on) or its ApplicationMaster starts",
            f"see yarnam status {job.application}",
        )
    return _without_gang(job, path, now)


# ---- the ApplicationMaster ---------------------------------------------------------------------


def _without_am(job: QueueJob, path: Sequence[QueueState], now: QueuesNow) -> Wait:
    terms = _terms(now)
    for queue in path:
        earlier = _earlier_jobs(job, queue, now)
        if queue.max_jobs is not None and earlier >= queue.max_jobs:
            return Wait(
                "max-jobs",
                f"{queue.name} runs at most {_count(queue.max_jobs, 'job')} at a time "
                f"({terms.max_jobs}), and {earlier} came before this one",
                f"{terms.max_jobs} of {queue.name} at {earlier + 1}, or the end of one of its jobs",
            )
    return (
        _beyond_am_share(job, path[0], now)
        or _beyond_maximum(job.am, "its ApplicationMaster", path, now)
        or _no_node_for_am(job, now)
        or Wait(
            "next-heartbeat",
            "nothing holds it up: YARN starts its ApplicationMaster at a node's next heartbeat",
        )
    )


def _earlier_jobs(job: QueueJob, queue: QueueState, now: QueuesNow) -> int:
    below = f"{queue.name}."
    return sum(
        (other.queue == queue.name or other.queue.startswith(below))
        and (other.submitted_at_s, other.application) < (job.submitted_at_s, job.application)
        for other in now.jobs
    )


def _beyond_am_share(job: QueueJob, leaf: QueueState, now: QueuesNow) -> Wait | None:
    configured = now.am_shares.get(leaf.name)
    if configured is not None and configured < 0:
        return None
    limit, used, terms = leaf.am_limit, leaf.am_used, _terms(now)
    if configured is None and limit == Resources():
        return None  # not computed yet, or no limit: the report shows both as zero
    is_capacity = now.scheduler is Scheduler.CAPACITY
    if is_capacity and not leaf.running_jobs:
        return None  # it lets the first one run whatever it needs
    for word, name in RESOURCES:
        need, most, taken = getattr(job.am, name), getattr(limit, name), getattr(used, name)
        if need and taken + need > most:
            share = getattr(leaf.fair_share, name) or getattr(leaf.maximum, name)
            if is_capacity and configured:
                share = int(most / configured)
            of_what = "" if is_capacity else " of its fair share"
            return Wait(
                "am-share",
                f"ApplicationMasters may use {most} {word} in {leaf.name} ({terms.am_share}"
                + (f" {configured:g}{of_what}" if configured is not None else "")
                + f"): {taken} are used, and this one needs {need}",
                f"{terms.am_share} of {leaf.name} at {_am_share_for(taken + need, share)}"
                if 0 < taken + need <= share
                else f"a larger {terms.share} for {leaf.name}"
                + ("" if is_capacity else ": a higher weight or minResources"),
            )
    return None


def _am_share_for(need: int, share: int) -> str:
    """The smallest AM share with two digits that allows this much."""
    return f"{ceil(100 * need / share) / 100:g}"


def _no_node_for_am(job: QueueJob, now: QueuesNow) -> Wait | None:
    usable = [node for node in now.nodes if node.is_usable]
    if any(job.am.fits_in(node.free) for node in usable):
        return None
    need = f"{job.am.memory_mib} MiB and {_count(job.am.vcores, 'vcore')}"
    return Wait(
        "no-node-for-am",
        f"none of {_count(len(usable), 'node')} has the {need} free that its ApplicationMaster "
        "needs",
        f"{need} free on one node: the end of any task that has them",
    )


# ---- the gang ----------------------------------------------------------------------------------


def _without_gang(job: QueueJob, path: Sequence[QueueState], now: QueuesNow) -> Wait:
    usable = [node for node in now.nodes if node.is_usable]
    allowed = _allowed(job, usable)
    need = _total(job.demands)
    return (
        _blocked(job, now)
        or _cordoned(job, allowed, now)
        or _never_on_a_node(job, path[0], usable, allowed, _terms(now))
        or _beyond_maximum(need, f"its gang of {_gang(job.demands)}", path, now)
        or _beyond_user_limit(job, need, path[0])
        or _asked(job, need, allowed, now)
        or _other_nodes_would_do(job, usable, allowed)
        or _not_enough(job, need, path[0], allowed, now)
        or _in_pieces(job, allowed)
        or _behind_others(job, now)
        or Wait("fits", "nothing holds it up: its gang fits now, and it asks at its next poll")
    )


def _allowed(job: QueueJob, usable: Sequence[Node]) -> Sequence[Node]:
    """Those that its tasks may use."""
    if job.ticket is None or not job.ticket.is_choosy:
        return usable
    names = job.ticket.nodes_of(usable)
    return [node for node in usable if node.node_id in names]


def _blocked(job: QueueJob, now: QueuesNow) -> Wait | None:
    """No free GPU would help it."""
    blocked_reason = job.ticket.blocked_reason if job.ticket is not None else ""
    if not blocked_reason:
        return None
    since = duration(now.taken_at_s - job.since_s)
    if job.ticket is not None and job.ticket.policy is not None:
        reason = f"the policy of its queue has others go first; it took its ticket {since} ago"
        change = f"its turn: yarnam policy explain {job.application} tells why not now"
        return Wait("policy", reason, change)
    if blocked_reason == SUSPENDED:
        change = f"yarnam resume {job.application}"
        return Wait("suspended", f"{blocked_reason}; it took its ticket {since} ago", change)
    return Wait(
        "back-off",
        f"{blocked_reason}: no free GPU would help it now; it took its ticket {since} ago",
        f"time; yarnam status {job.application} says how its attempt ended and until when it waits",
    )


def _asked(job: QueueJob, need: Resources, allowed: Sequence[Node], now: QueuesNow) -> Wait | None:
    """It is its turn: its containers have been asked for."""
    if job.ticket is None or not job.ticket.is_acquiring:
        return None
    free = sum(node.free.gpus for node in allowed)
    placed, wanted = _packed(job.demands, allowed)
    gpus = _count(need.gpus, "GPU")
    reason = f"it has asked YARN for {_gang(job.demands)} with {gpus}; {free} are free"
    if need.gpus <= free and placed < wanted:
        reason += f", but in pieces: {placed} of them find a node"
    reserved = [queue for queue in _leaves(now) if queue.reserved_containers]
    if reserved:
        first = reserved[0]
        reason += (
            f", and YARN keeps nodes reserved for {_count(first.reserved_containers, 'container')} "
            f"of {first.name}"
        )
    if placed == wanted:
        return Wait("asked", reason, "nothing: YARN grants at the nodes' next heartbeats")
    takes = f"YARN takes them from queues above their {_terms(now).share}" if now.preempts else ""
    return Wait("asked", reason, takes or "the end of jobs on nodes that it may use")


def _other_nodes_would_do(
    job: QueueJob, usable: Sequence[Node], allowed: Sequence[Node]
) -> Wait | None:
    """It would fit, were it not for the nodes that its spec leaves out."""
    if len(allowed) == len(usable):
        return None
    placed, wanted = _packed(job.demands, allowed)
    if placed == wanted or _packed(job.demands, usable)[0] < wanted:
        return None
    assert job.ticket is not None
    ticket = job.ticket
    limits = (
        ("placement.include_nodes", bool(ticket.included)),
        ("placement.exclude_nodes", bool(ticket.excluded)),
        (f"placement.gpu_model {ticket.gpu_model}", bool(ticket.gpu_model)),
    )
    keys = " and ".join(key for key, is_set in limits if is_set)
    return Wait(
        "own-nodes",
        f"its spec leaves it {len(allowed)} of {_count(len(usable), 'node')} ({keys}), where "
        f"{placed} of {_count(wanted, 'task')} find room; on all nodes it would fit",
        f"other nodes allowed by its spec ({keys}), or the end of jobs on those that it may use",
    )


def _never_on_a_node(
    job: QueueJob,
    leaf: QueueState,
    usable: Sequence[Node],
    allowed: Sequence[Node],
    terms: _Terms,
) -> Wait | None:
    for demand in job.demands:
        task = demand.resources
        if leaf.max_container is not None and not task.fits_in(leaf.max_container):
            return Wait(
                "max-container",
                f"{leaf.name} grants containers of at most {leaf.max_container} "
                f"({terms.container}), and a task needs {task}",
                f"{terms.container} of {leaf.name} at {task}, or smaller tasks",
            )
        if not any(task.fits_in(node.total) for node in allowed):
            may = "" if len(allowed) == len(usable) else " that its spec allows"
            largest = f" (the largest by GPUs has {_largest(allowed)})" if allowed else ""
            return Wait(
                "no-such-node",
                f"a task needs {task}, and none of {_count(len(allowed), 'running node')}{may} is "
                f"so large{largest}",
                "smaller tasks, or a larger node" + (", or other nodes in its spec" * bool(may)),
            )
    return None


def _beyond_maximum(
    need: Resources, what: str, path: Sequence[QueueState], now: QueuesNow
) -> Wait | None:
    for queue in path:
        most = now.own_maximum(queue)
        for word, name in RESOURCES:
            wanted, limit = getattr(need, name), getattr(most, name)
            used = getattr(queue.used, name)
            if wanted and used + wanted > limit:
                return Wait(
                    "max-resources",
                    f"{what} needs {wanted} {word}, and {queue.name} has {max(0, limit - used)} "
                    f"left of its maximum of {limit} ({_terms(now).maximum})",
                    f"{_terms(now).maximum} of {queue.name} at {used + wanted} {word} instead of "
                    f"{limit}"
                    + (
                        f", or the end of jobs there that use {used + wanted - limit}"
                        if wanted <= limit
                        else ""
                    ),
                )
    return None


def _beyond_user_limit(job: QueueJob, need: Resources, leaf: QueueState) -> Wait | None:
    """The last container may pass the limit (``AbstractLeafQueue.canAssignToUser``)."""
    limit, used = leaf.user_limit, leaf.used_by.get(job.user, Resources())
    if limit is None:
        return None
    last = max((one.resources for one in job.demands), key=lambda one: one.gpus)
    for word, name in RESOURCES:
        wanted, most, taken = getattr(need, name), getattr(limit, name), getattr(used, name)
        least = wanted - getattr(last, name)
        if wanted and taken + least > most:
            return Wait(
                "user-limit",
                f"its gang needs {wanted} {word}; {job.user} uses {taken} in {leaf.name}, where "
                f"one user may have {most} (user-limit-factor)",
                f"a larger user-limit-factor of {leaf.name}"
                + (f", or the end of other jobs of {job.user}" if least <= most else ""),
            )
    return None


def _cordoned(job: QueueJob, allowed: Sequence[Node], now: QueuesNow) -> Wait | None:
    """It would fit, were it not for nodes that an administrator has cordoned."""
    cordoned = cordoned_nodes(now.nodes)
    if not cordoned or not job.is_gang:
        return None
    opened = _allowed(job, [node for node in without_cordons(now.nodes) if node.is_usable])
    placed, wanted = _packed(job.demands, allowed)
    if placed == wanted or _packed(job.demands, opened)[0] < wanted:
        return None
    return Wait(
        "cordoned-nodes",
        f"its gang would fit, were it not for {cordons_text(now.nodes)}",
        f"yarnam nodes uncordon {cordoned[0].node_id}",
    )


def _not_enough(
    job: QueueJob, need: Resources, leaf: QueueState, usable: Sequence[Node], now: QueuesNow
) -> Wait | None:
    free = sum(node.free.gpus for node in usable)
    if need.gpus <= free:
        return None
    above = [
        f"{queue.name} uses {queue.used.gpus} of a {_terms(now).share} of {queue.fair_share.gpus}"
        for queue in _leaves(now)
        if queue is not leaf and queue.used.gpus > queue.fair_share.gpus
    ]
    reason = f"its gang needs {need.gpus} GPUs and {free} are free"
    if above:
        reason += f"; {above[0]}" + (
            f", and {len(above) - 1} more are above theirs" * (above[1:] != [])
        )
    short = need.gpus - free
    share = max(leaf.minimum.gpus, leaf.fair_share.gpus)
    if above and leaf.used.gpus + need.gpus <= share and not now.preempts:
        change = (
            f"preemption ({_terms(now).preemption}): {leaf.name} may have {share} "
            "GPUs, and others hold them"
        )
    elif (smallest := _smallest_that_frees(short, job, now)) is not None:
        change = f"the end of {smallest.application} ({smallest.name}), which has {smallest.gpus}"
    else:
        change = f"{_count(short, 'GPU')} more: jobs that end, or nodes"
    return Wait("not-enough-gpus", reason, change)


def _smallest_that_frees(gpus: int, job: QueueJob, now: QueuesNow) -> QueueJob | None:
    running = [
        other
        for other in now.jobs
        if other.stage is Stage.RUNNING
        and other.application != job.application
        and (other.gpus or 0) >= gpus
    ]
    return min(running, key=lambda other: (other.gpus or 0, other.application), default=None)


def _in_pieces(job: QueueJob, usable: Sequence[Node]) -> Wait | None:
    placed, wanted = _packed(job.demands, usable)
    if placed == wanted:
        return None
    free = _total([Demand(node.free, 1) for node in usable])
    largest = max(job.demands, key=lambda demand: demand.resources.gpus)
    smaller = _smaller_tasks(job.demands, usable)
    return Wait(
        "fragmented",
        f"{free.gpus} GPUs are free, but in pieces: {placed} of {_count(wanted, 'task')} of "
        f"{largest.resources} find a node",
        f"tasks of {smaller}"
        if smaller
        else f"{_count(wanted - placed, 'node')} more with {largest.resources} free",
    )


def _smaller_tasks(demands: Sequence[Demand], usable: Sequence[Node]) -> str:
    """The same gang in halves, quarters, ... of its tasks, if that would fit."""
    parts = 2
    while all(demand.resources.gpus % parts == 0 for demand in demands) and parts <= 8:
        halves = [
            Demand(
                Resources(
                    -(-demand.resources.memory_mib // parts),
                    -(-demand.resources.vcores // parts),
                    demand.resources.gpus // parts,
                ),
                demand.count * parts,
            )
            for demand in demands
        ]
        placed, wanted = _packed(halves, usable)
        if placed == wanted:
            return f"{halves[0].resources} ({halves[0].count} of them)"
        parts *= 2
    return ""


def _packed(demands: Sequence[Demand], usable: Sequence[Node]) -> tuple[int, int]:
    """How many tasks find a node, largest first, and how many there are."""
    free = [node.free for node in usable]
    placed = 0
    ordered = sorted(demands, key=lambda one: (one.resources.gpus, one.resources.memory_mib))
    for demand in reversed(ordered):
        left = demand.count
        for number, amount in enumerate(free):
            count = min(left, demand.resources.count_in(amount))
            if count > 0:
                free[number] = amount.minus(demand.resources.times(count))
                left -= count
        placed += demand.count - left
    return placed, sum(demand.count for demand in demands)


def _behind_others(job: QueueJob, now: QueuesNow) -> Wait | None:
    """Explain it by the decision that its ApplicationMaster makes."""
    if job.ticket is None or now.admission is None:
        return None
    decision = now.admission(job.ticket)
    if not isinstance(decision, MustWait):
        return None
    head = decision.head
    own = head.job == job.application
    reason = f"its gang would fit, but {decision.reason}"
    if not own:
        reason += (
            f"; {_count(decision.ahead, 'gang')} {'is' if decision.ahead == 1 else 'are'} ahead "
            f"of it, next {head.job} ({head.name}, {_count(head.gpus, 'GPU')})"
        )
    start = "the grants of the jobs that have asked" if own else f"the start of {head.job}"
    if decision.is_reserved:
        return Wait("reserved", reason, f"{start}, or a declared `duration` that ends before it")
    is_of_one_queue = not own and head.queue == job.queue
    higher = ", or a higher gang.priority" if is_of_one_queue else ""
    return Wait("wait-queue", reason, f"{start}{higher}")


# ---- text --------------------------------------------------------------------------------------


def _leaves(now: QueuesNow) -> Iterator[QueueState]:
    return (queue for queue in now.root.walk() if queue.is_leaf)


def _total(demands: Sequence[Demand]) -> Resources:
    whole = Resources()
    for demand in demands:
        whole = whole.plus(demand.resources.times(demand.count))
    return whole


def _gang(demands: Sequence[Demand]) -> str:
    return _count(sum(demand.count for demand in demands), "task")


def _largest(usable: Sequence[Node]) -> Resources:
    return max((node.total for node in usable), key=lambda one: one.gpus, default=Resources())


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
