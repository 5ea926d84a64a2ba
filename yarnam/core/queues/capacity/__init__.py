"""The Capacity Scheduler's settings, and what in them hurts gangs and GPUs.

A rule is a function from ``CapacityInput`` to findings; its name, with hyphens, is the rule's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from yarnam.core.queues.capacity import (
    capacity_access_rules,
    capacity_key_rules,
    capacity_limit_rules,
    capacity_reading_rules,
    capacity_site_rules,
    capacity_tree_rules,
)
from yarnam.core.queues.capacity.capacity_values import CapacityInput
from yarnam.core.queues.lint.lint_values import Finding, findings_by

CapacityRule = Callable[[CapacityInput], Iterator[Finding]]

CAPACITY_RULES: dict[str, CapacityRule] = {
    rule.__name__.replace("_", "-"): rule
    for module in (
        capacity_key_rules,
        capacity_reading_rules,
        capacity_access_rules,
        capacity_tree_rules,
        capacity_limit_rules,
        capacity_site_rules,
    )
    for rule in module.RULES
}

__all__ = ["CAPACITY_RULES", "CapacityInput", "lint_capacity"]


def lint_capacity(given: CapacityInput) -> tuple[Finding, ...]:
    """All findings in the order of their lines, the site's last."""
    return findings_by(CAPACITY_RULES, given)
