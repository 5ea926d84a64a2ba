"""Match failure rules. ``yarnam/spec/failure_rules.yaml`` holds the shipped ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from yarnam.core.failures.line_pattern import is_match
from yarnam.core.model.outcomes import (
    FailureClass,
    FailureRole,
    FailureRule,
    Finding,
    RetryAction,
    Source,
)
from yarnam.core.model.printable import printable
from yarnam.errors import Blame

SHELL_SIGNAL_BASE = 128
"""A shell's exit code for a command that a signal ended: 128 + its number (POSIX sh)."""

PASSED_ON_BASE = 256
"""The exit code of a Python program that ends with the ``returncode`` of its child, which is -n for
signal n: the kernel keeps its lowest eight bits."""

PASSED_ON_SIGNALS = frozenset({4, 6, 7, 8, 9, 11, 15})
"""Signals that exit code 256 - n is taken for; the codes of other signals have other meanings too
(255 is -1)."""

MAX_LINE = 300
"""The longest line of evidence that is kept, in characters."""


def rules_of(plain: Iterable[Mapping[str, Any]]) -> tuple[FailureRule, ...]:
    """Rules from plain values, as ``wire.codec`` writes them: an agent does without it. Raises
    LookupError, TypeError or ValueError."""
    return tuple(
        FailureRule(
            id=str(one["id"]),
            failure=FailureClass(one["failure"]),
            action=RetryAction(one["action"]),
            blame=Blame(one["blame"]),
            role=FailureRole(one["role"]),
            source=Source(one["source"]),
            patterns=tuple(one["patterns"]),
            exit_codes=tuple(one["exit_codes"]),
            signals=tuple(one["signals"]),
            raised_in=tuple(one["raised_in"]),
            is_weak=bool(one["is_weak"]),
            explanation=str(one["explanation"]),
            hint=str(one["hint"]),
        )
        for one in plain
    )


def fits_status(rule: FailureRule, code: int, signal: int) -> bool:
    """Whether the process ended in one of the ways that the rule is about, if it is about any."""
    if not rule.exit_codes and not rule.signals:
        return True
    number = signal or code - SHELL_SIGNAL_BASE
    if not signal and PASSED_ON_BASE - code in PASSED_ON_SIGNALS:
        number = PASSED_ON_BASE - code
    return number in rule.signals or (not signal and code in rule.exit_codes)


def matches(rule: FailureRule, line: str) -> bool:
    """Whether one of the rule's patterns matches the line."""
    return any(is_match(pattern, line) for pattern in rule.patterns)


def is_raised_in(rule: FailureRule, frames: Sequence[str]) -> bool:
    """Whether one of the frames (lines ``File "...", line n``) is of a file that the rule names, if
    it names any."""
    if not rule.raised_in:
        return True
    return any(place in frame for frame in frames for place in rule.raised_in)


def shown(line: str) -> str:
    """A line of evidence as it is kept."""
    return printable(line.strip(), max_length=MAX_LINE)


def finding_of(rule: FailureRule, line: str = "", at_s: float | None = None) -> Finding:
    """Build the rule's finding with its evidence."""
    return Finding(
        rule=rule.id,
        failure=rule.failure,
        role=rule.role,
        action=rule.action,
        blame=rule.blame,
        line=shown(line),
        explanation=rule.explanation,
        hint=rule.hint,
        is_weak=rule.is_weak,
        at_s=at_s,
    )
