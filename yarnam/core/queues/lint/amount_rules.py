"""Minimums, maximums, AM shares and limits on jobs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from yarnam.core.model.resources import Resources
from yarnam.core.queues.allocations import Element, QueueConfig
from yarnam.core.queues.amounts import UNLIMITED
from yarnam.core.queues.fair_share import Shares, am_limit, bounds_of, steady_shares
from yarnam.core.queues.lint.lint_values import (
    AM,
    Finding,
    LintInput,
    about_gpus,
    error,
    warning,
    xml,
)
from yarnam.core.queues.lint.mended_amounts import LEAST, is_closed, is_old, mended_amounts

_LIMITS = ("maxResources", "maxContainerAllocation", "queueMaxResourcesDefault")
FEW_JOBS = 4
"""An AM share that lets fewer jobs run together is small for per-job ApplicationMasters. Ours."""


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


def maximum_without_gpus(given: LintInput) -> Iterator[Finding]:
    """The older notations cannot say GPUs."""
    mended = mended_amounts(given)
    for name, found in _limits(given):
        if is_old(found.text) and not is_closed(found):
            yield about_gpus(
                error(
                    found,
                    f"<{found.tag}> of {name} names memory and cores only",
                    "in this notation every other resource is 0: the queue gets no GPU",
                    mended.of(found),
                )
            )


def maximum_without_vcores(given: LintInput) -> Iterator[Finding]:
    """Seen on a real ResourceManager (3.4.1)."""
    mended = mended_amounts(given)
    for name, found in _limits(given):
        text = found.text
        if "=" in text and "%" not in text and "vcores" not in text and not is_closed(found):
            yield error(
                found,
                f"<{found.tag}> of {name} leaves out vcores",
                "YARN reads 0 cores there, not no limit: the queue runs nothing",
                mended.of(found),
            )


def minimum_without_gpus(given: LintInput) -> Iterator[Finding]:
    """A minimum that guarantees memory and no GPU."""
    mended = mended_amounts(given)
    for queue in given.queues():
        found = queue.element.child("minResources")
        if found is None or is_closed(queue.element.child("maxResources")):
            continue
        if "%" in found.text:
            yield error(
                found,
                f"the minimum of {queue.name} is in percent",
                "YARN takes percentages for maximums only: there is no minimum at all",
                mended.of(found),
            )
        elif queue.minimum == Resources():
            continue  # Nothing is guaranteed, or YARN refuses the text.
        elif not queue.minimum.gpus:
            yield about_gpus(
                warning(
                    found,
                    f"the minimum of {queue.name} has no GPUs",
                    "what is not named is 0: memory alone starts no gang",
                    mended.of(found),
                )
            )


def minimum_above_maximum(given: LintInput) -> Iterator[Finding]:
    """FSQueue.getMaxShare raises the maximum."""
    whole = given.cluster if given.nodes else Resources(UNLIMITED, UNLIMITED, UNLIMITED)
    mended = mended_amounts(given)
    for queue in given.queues():
        most = queue.maximum.of(whole)
        found = queue.element.child("minResources")
        limit = queue.element.child("maxResources")
        if found is not None and not queue.minimum.fits_in(most):
            yield error(
                found,
                f"the minimum of {queue.name} is above its maximum",
                "YARN raises the maximum to the minimum, and the limit does not hold",
                # A queue that is shut has no minimum.
                mended.of(found if limit is None or is_closed(limit) else limit),
            )


def minimums_above_capacity(given: LintInput) -> Iterator[Finding]:
    """The queues below one cannot together have more than it has."""
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
    """A maximum of nothing shuts a queue on purpose."""
    whole = given.cluster if given.nodes else Resources(UNLIMITED, UNLIMITED, UNLIMITED)
    mended = mended_amounts(given)
    for queue in given.queues():
        found = queue.element.child("maxResources")
        if found is not None and is_closed(found):
            yield warning(found, f"{queue.name} is closed by its maximum", "no job ever starts")
        elif found is not None and not LEAST.fits_in(bounds_of(queue, whole)[1]):
            if is_old(found.text) or "vcores" not in found.text:
                continue  # another rule's
            yield about_gpus(
                error(
                    found,
                    f"the maximum of {queue.name} holds no gang at all",
                    f"the smallest is an ApplicationMaster and one task with one GPU: {LEAST}",
                    mended.of(found),
                )
            )


def container_below_node(given: LintInput) -> Iterator[Finding]:
    """Packing wants containers as large as a node's GPUs."""
    largest = max((node.total.gpus for node in given.nodes), default=1)
    mended = mended_amounts(given)
    for queue in given.queues():
        found = queue.element.child("maxContainerAllocation")
        most = queue.max_container.gpus
        if found is None or not isinstance(most, int) or most >= largest or is_old(found.text):
            continue
        yield about_gpus(
            warning(
                found,
                f"containers of {queue.name} have at most {most} GPUs",
                f"a node has {largest}: no task can have a whole one"
                if given.nodes
                else "no task can have a GPU",
                mended.of(found),
            )
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
