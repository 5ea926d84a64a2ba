"""What in an allocation file, or in the site's settings, hurts gangs and GPUs.

A rule is a function from ``LintInput`` to findings; its name, with hyphens, is the rule's.
``RULES`` has all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from yarnam.core.queues.allocations import Refusal
from yarnam.core.queues.lint import (
    amount_rules,
    element_rules,
    placement_rules,
    policy_rules,
    preemption_rules,
    site_rules,
)
from yarnam.core.queues.lint.lint_values import Finding, LintInput, Severity, findings_by

Rule = Callable[[LintInput], Iterator[Finding]]

RULES: dict[str, Rule] = {
    rule.__name__.replace("_", "-"): rule
    for module in (
        element_rules,
        policy_rules,
        amount_rules,
        preemption_rules,
        placement_rules,
        site_rules,
    )
    for rule in module.RULES
}

__all__ = ["RULES", "Finding", "LintInput", "Severity", "lint"]


def lint(given: LintInput, refusals: Sequence[Refusal] = ()) -> tuple[Finding, ...]:
    """All findings in the order of their lines, the site's last. ``refusals``: why YARN would not
    take the file."""
    found = [
        Finding(
            Severity.ERROR,
            refusal.line,
            refusal.message,
            "YARN refuses the file and keeps its last queues",
            rule="refused",
        )
        for refusal in refusals
    ]
    return findings_by(RULES, given, found)
