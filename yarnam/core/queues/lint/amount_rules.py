"""Minimums, maximums, AM shares and limits on jobs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from yarnam.core.model.resources import Resources
from yarnam.core.queues.allocations import Element, QueueConfig
from yarnam.core.queues.amounts import UNLIMITED, BadAmount, parse_amounts
from yarnam.core.queues.fair_share import Shares, am_limit, bounds_of, steady_shares
from yarnam.core.queues.lint.lint_values import (
    AM,
    Finding,
    LintInput,
    amounts_text,
    error,
    warning,
    xml,
)

_LIMITS = ("maxResources", "maxContainerAllocation", "queueMaxResourcesDefault")
FEW_JOBS = 4
"""An AM share that lets fewer jobs run at once is small for per-job ApplicationMasters. Ours."""


def _limits(given: LintInput) -> Iterator[tuple[str, Element]]:
    """Written limits, with whose they are."""
    for queue in given.queues():
        for tag in _LIMITS:
            found = queue.element.child(tag)
            if found is not None:
                yield queue.name, found
    default = given.allocations.document.child("queueMaxResourcesDefault")
    if default is not None:
        yield "every queue", default


def _is_old(text: str) -> bool:
    """``1024 mb, 4 vcores`` or ``50% memory, 50% cpu``; a single percentage is of everything."""
    return "=" not in text and "," in text


def maximum_without_gpus(given: LintInput) -> Iterator[Finding]:
    """The older notations cannot say GPUs."""
    for name, found in _limits(given):
        if _is_old(found.text):
            yield error(
                found,
                f"<{found.tag}> of {name} names memory and cores only",
                "in this notation every other resource is 0: the queue gets no GPU",
                xml(found.tag, _with_gpus(found.text)),
            )


def _with_gpus(text: str) -> str:
    """The same limits by names, and no limit on GPUs."""
    try:
        limit = parse_amounts(text, missing=None)
    except BadAmount:
        return "memory-mb=100%, vcores=100%, yarn.io/gpu=100%"
    if isinstance(limit.memory_mib, float) and isinstance(limit.vcores, float):
        memory, vcores = 100 * limit.memory_mib, 100 * limit.vcores
        return f"memory-mb={memory:g}%, vcores={vcores:g}%, yarn.io/gpu=100%"
    return f"memory-mb={limit.memory_mib}, vcores={limit.vcores}, yarn.io/gpu=2147483647"


def maximum_without_vcores(given: LintInput) -> Iterator[Finding]:
    """Seen on a real ResourceManager (3.4.1)."""
    for name, found in _limits(given):
        text = found.text
        if "=" in text and "%" not in text and "vcores" not in text:
            yield error(
                found,
                f"<{found.tag}> of {name} leaves out vcores",
                "YARN reads 0 cores there, not no limit: the queue runs nothing",
                xml(found.tag, f"{text.strip()}, vcores=2147483647"),
            )


def minimum_without_gpus(given: LintInput) -> Iterator[Finding]:
    """A minimum that guarantees memory and no GPU."""
    for queue in given.queues():
        found = queue.element.child("minResources")
        if found is None:
            continue
        if "%" in found.text:
            yield error(
                found,
                f"the minimum of {queue.name} is in percent",
                "YARN takes percentages for maximums only: there is no minimum at all",
                _of_cluster(found.text, given),
            )
        elif not queue.minimum.gpus:
            yield warning(
                found,
                f"the minimum of {queue.name} has no GPUs",
                "what is not named is 0: memory alone starts no gang",
                xml("minResources", f"{amounts_text(queue.minimum)[:-1]}8"),
            )


def _of_cluster(text: str, given: LintInput) -> str:
    """The minimum that the percentages mean; empty where the cluster is not known."""
    try:
        limit = parse_amounts(text, missing=0)
    except BadAmount:
        return ""
    return xml("minResources", amounts_text(limit.of(given.cluster))) if given.nodes else ""


def minimum_above_maximum(given: LintInput) -> Iterator[Finding]:
    """FSQueue.getMaxShare raises the maximum."""
    whole = given.cluster if given.nodes else Resources(UNLIMITED, UNLIMITED, UNLIMITED)
    for queue in given.queues():
        most = queue.maximum.of(whole)
        found = queue.element.child("minResources")
        if found is not None and not queue.minimum.fits_in(most):
            yield error(
                found,
                f"the minimum of {queue.name} is above its maximum",
                "YARN raises the maximum to the minimum, and the limit does not hold",
                xml("maxResources", amounts_text(queue.minimum)),
            )


def minimums_above_capacity(given: LintInput) -> Iterator[Finding]:
    """Of the queues below one: together they cannot have more than it has."""
    for queue in given.queues():
        if not queue.children:
            continue
        together = reduce(Resources.plus, (one.minimum for one in queue.children), Resources())
        bound = queue.maximum.of(given.cluster) if given.nodes else queue.maximum.of(Resources())
        if given.nodes:
            bound = Resources(
                min(bound.memory_mib, given.cluster.memory_mib),
                min(bound.vcores, given.cluster.vcores),
                min(bound.gpus, given.cluster.gpus),
            )
        elif any(isinstance(part, float) for part in (queue.maximum.gpus, queue.maximum.vcores)):
            continue
        if not together.fits_in(bound):
            yield error(
                queue.element,
                f"the minimums below {queue.name} add up to {together}; it has {_bounded(bound)}",
                "not all of them can be kept: queues preempt each other's guarantee for ever",
            )


def _bounded(bound: Resources) -> str:
    """Without the amounts that have no limit."""
    parts = (
        (bound.memory_mib, "MiB"),
        (bound.vcores, "vcores"),
        (bound.gpus, "GPUs"),
    )
    return ", ".join(f"{amount} {word}" for amount, word in parts if amount < UNLIMITED)


def maximum_below_one_task(given: LintInput) -> Iterator[Finding]:
    """The smallest gang: an ApplicationMaster and one task with one GPU."""
    least = AM.plus(Resources(1, 1, 1))
    whole = given.cluster if given.nodes else Resources(UNLIMITED, UNLIMITED, UNLIMITED)
    for queue in given.queues():
        found = queue.element.child("maxResources")
        if found is not None and not least.fits_in(bounds_of(queue, whole)[1]):
            if _is_old(found.text) or "vcores" not in found.text:
                continue  # another rule's
            yield error(
                found,
                f"the maximum of {queue.name} holds no gang at all",
                f"the smallest is an ApplicationMaster and one task with one GPU: {least}",
                xml("maxResources", amounts_text(least)),
            )


def container_below_node(given: LintInput) -> Iterator[Finding]:
    """Packing wants containers as large as a node's GPUs."""
    largest = max((node.total.gpus for node in given.nodes), default=1)
    for queue in given.queues():
        found = queue.element.child("maxContainerAllocation")
        most = queue.max_container.gpus
        if found is None or not isinstance(most, int) or most >= largest or _is_old(found.text):
            continue
        yield warning(
            found,
            f"containers of {queue.name} have at most {most} GPUs",
            f"a node has {largest}: no task can have a whole one"
            if given.nodes
            else "no task can have a GPU",
            xml(
                "maxContainerAllocation",
                f"{found.text.partition('yarn.io')[0]}yarn.io/gpu={largest}",
            ),
        )


def am_share_too_small(given: LintInput) -> Iterator[Finding]:
    """Each job of yarnam has an ApplicationMaster of its own."""
    shares: Shares = steady_shares(given.root, given.cluster) if given.nodes else {}
    for queue in given.queues():
        if queue.is_parent or queue.max_am_share < 0:
            continue
        found = queue.element.child("maxAMShare") or queue.element
        if queue.max_am_share == 0:
            yield error(
                found,
                f"the AM share of {queue.name} is 0",
                "no ApplicationMaster ever starts: no job runs",
                xml("maxAMShare", "0.5"),
            )
            continue
        if not given.nodes:
            continue
        jobs = _jobs_of(queue, shares[queue.name], given.cluster)
        if jobs < min(FEW_JOBS, shares[queue.name].gpus):
            yield warning(
                found,
                f"the AM share of {queue.name}, {queue.max_am_share:g}, lets {jobs} jobs run",
                f"with all queues in use its share is {shares[queue.name]}, and each job has an "
                f"ApplicationMaster of {AM.memory_mib} MiB; the others wait with free GPUs",
                xml("maxAMShare", f"{min(1.0, queue.max_am_share * FEW_JOBS / max(1, jobs)):.2g}"),
            )


def _jobs_of(queue: QueueConfig, share: Resources, cluster: Resources) -> int:
    limit = am_limit(share, bounds_of(queue, cluster)[1], cluster, queue.max_am_share)
    return min(limit.memory_mib // AM.memory_mib, limit.vcores // AM.vcores)


def no_running_jobs(given: LintInput) -> Iterator[Finding]:
    """maxRunningApps and its defaults."""
    for queue in given.queues():
        found = queue.element.child("maxRunningApps")
        if found is not None and queue.max_apps is not None and queue.max_apps <= 0:
            yield error(
                found,
                f"{queue.name} runs {queue.max_apps} jobs at most",
                "no job ever starts there",
                xml("maxRunningApps", "10"),
            )
    default = given.allocations.document.child("userMaxAppsDefault", "queueMaxAppsDefault")
    if default is not None and default.text.strip() == "0":
        yield error(default, f"<{default.tag}> is 0", "no job ever starts", xml(default.tag, "10"))


RULES = (
    maximum_without_gpus,
    maximum_without_vcores,
    minimum_without_gpus,
    minimum_above_maximum,
    minimums_above_capacity,
    maximum_below_one_task,
    container_below_node,
    am_share_too_small,
    no_running_jobs,
)
