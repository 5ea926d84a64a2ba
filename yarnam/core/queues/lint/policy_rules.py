"""Policies and weights: how shares are divided."""

from __future__ import annotations

from collections.abc import Iterator

from yarnam.core.queues.allocation_reading import POLICY_TAGS
from yarnam.core.queues.allocations import Policy, QueueConfig
from yarnam.core.queues.lint.lint_values import Finding, LintInput, about_gpus, error, warning, xml


def _where(queue: QueueConfig) -> str:
    return "inherited" if queue.element.child(*POLICY_TAGS) is None else "set here"


def parent_policy_not_drf(given: LintInput) -> Iterator[Finding]:
    """Of queues with queues below them."""
    for queue in given.queues():
        if queue.is_parent and queue.policy is not Policy.DRF:
            yield about_gpus(
                error(
                    queue.element.child(*POLICY_TAGS) or queue.element,
                    f"{queue.name} divides by the policy {queue.policy.value} ({_where(queue)})",
                    "only drf divides GPUs: under fair every queue below has a fair share of 0 "
                    "GPUs, and preemption does not see them",
                    xml("schedulingPolicy", "drf"),
                )
            )


def leaf_policy_fair(given: LintInput) -> Iterator[Finding]:
    """Of queues that take jobs. fifo is fine: gangs are admitted in their order anyway."""
    for queue in given.queues():
        if queue.is_leaf and queue.policy is Policy.FAIR:
            yield warning(
                queue.element.child(*POLICY_TAGS) or queue.element,
                f"{queue.name} orders its jobs by the policy fair ({_where(queue)})",
                "it compares memory only, and a job that waits for its ApplicationMaster can "
                "starve (YARN-11907)",
                xml("schedulingPolicy", "drf"),
            )


def drf_below_fair(given: LintInput) -> Iterator[Finding]:
    """FairSharePolicy.isChildPolicyAllowed."""
    for queue in given.queues():
        for child in queue.children:
            if queue.policy is Policy.FAIR and child.policy is Policy.DRF:
                yield error(
                    child.element.child(*POLICY_TAGS) or child.element,
                    f"{child.name} has the policy drf below {queue.name} with fair",
                    "the Fair Scheduler does not allow it: it logs an error and goes on without "
                    "the policies of the file",
                    xml("schedulingPolicy", "drf") + f" in {queue.name}",
                )


def weight_not_positive(given: LintInput) -> Iterator[Finding]:
    """A weight of zero is sometimes meant: a queue that has its minimum and no more."""
    for queue in given.queues():
        found = queue.element.child("weight")
        if queue.weight < 0 and found is not None:
            yield error(
                found,
                f"{queue.name} has a negative weight",
                "its share is its minimum, and the others' shares are wrong",
                xml("weight", "1.0"),
            )
        elif queue.weight == 0 and found is not None and not queue.minimum.gpus:
            yield warning(
                found,
                f"{queue.name} has a weight of 0 and no minimum of GPUs",
                "its fair share is 0: its jobs run only on what all others leave, and are "
                "preempted first",
                xml("weight", "0.1"),
            )


RULES = (parent_policy_not_drf, leaf_policy_fair, drf_below_fair, weight_not_positive)
