"""Find why one process failed: the most specific rule that fits its evidence.

Rules are tried in this order, and within each group in the order of the rules:

1. the job's own rules (``retry.rules``);
2. rules with an exit status, first those with patterns too: the verdict of the kernel, or of the
   program;
3. rules with patterns alone, on the evidence from the nearest to the failure to the farthest: what
   the agent saw, the framework's error file, the last traceback (or the last lines), all the rest;
4. weak rules: general signs, such as that there is a traceback at all.

Where the last traceback says only that another process has ended, one that a child process printed
before it says why. The exit status of a process that a launcher (torchrun, horovodrun) names as
failed counts beside the launcher's own.

A rule may name files of libraries (``raised_in``): an exception that comes out of a decoder says
that the input is wrong, whatever its words are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from yarnam.core.failures.evidence_zones import (
    ProcessEvidence,
    Zone,
    child_status,
    exception_line,
    without_prefix,
    zones_of,
)
from yarnam.core.failures.line_pattern import longest_piece
from yarnam.core.failures.rule_matching import (
    finding_of,
    fits_status,
    is_raised_in,
    matches,
    shown,
)
from yarnam.core.model.outcomes import (
    FailureClass,
    FailureRole,
    FailureRule,
    Finding,
    Origin,
    RetryAction,
    Source,
)
from yarnam.errors import Blame

MAX_RULED_OUT = 5

UNKNOWN = Finding(
    rule="",
    failure=FailureClass.UNKNOWN,
    role=FailureRole.ROOT,
    action=RetryAction.ALLOWED,
    blame=Blame.USER,
    explanation="No rule knows this failure.",
    hint="Read the log; name the failure in retry.rules if it comes again.",
    is_weak=True,
)


_Match: TypeAlias = "tuple[FailureRule, Zone, str]"
"""A rule, where it matches, and the line that does; no line: by the exit status alone."""


def process_finding(
    evidence: ProcessEvidence, shipped: Sequence[FailureRule], own: Sequence[FailureRule] = ()
) -> Finding:
    """Why the process failed; ``UNKNOWN`` if no rule fits. ``own``: the job's."""
    zones = zones_of(evidence)
    of_shipped = _hardware_first(_child_first(_matches(shipped, zones, evidence)))
    found = _matches(own, zones, evidence) + of_shipped
    if not found:
        return replace(UNKNOWN, at_s=evidence.error_at_s)
    (rule, zone, line), *others = found
    said = exception_line(line, zone) if line else "".join(zone.lines[:1])
    return replace(
        finding_of(rule, said, evidence.error_at_s),
        origin=_origin(evidence, said) if zone.is_log else None,
        ruled_out=tuple(
            f"{other.id} ({at.name}): {shown(text)}" if text else other.id
            for other, at, text in others[:MAX_RULED_OUT]
            if not other.is_weak and (other.id, text) != (rule.id, line)
        ),
    )


_OF_A_BROKEN_GPU = frozenset({FailureClass.CUDA_FAILURE, FailureClass.CUDA_INIT_FAILED})


def _hardware_first(found: list[_Match]) -> list[_Match]:
    """A call of CUDA fails on a broken GPU, whatever its words are: the driver's come first."""
    if not found or found[0][0].failure not in _OF_A_BROKEN_GPU:
        return found
    broken = [match for match in found if match[0].failure is FailureClass.GPU_ECC_ERROR]
    return [*broken[:1], *(match for match in found if match not in broken[:1])]


_CHILD_GONE = (
    "BrokenProcessPool",
    "TerminatedWorkerError",
    "exited unexpectedly",
    "terminated abruptly",
)
"""Messages that a parent raises when its child is gone, whatever the child died of."""


def _child_first(found: list[_Match]) -> list[_Match]:
    """Put a child's traceback first if its parent only found the child gone."""
    if found and found[0][0].role is FailureRole.CONFIRMATION:
        return _launched_first(found)
    child = next((m for m in found if m[1].is_child and m[0].role is FailureRole.ROOT), None)
    if child is None or child[0].is_weak or not found[0][2]:
        return found
    rule, zone, _ = found[0]
    is_gone = any(name in line for line in zone.lines for name in _CHILD_GONE)
    if rule.role is FailureRole.ROOT and not is_gone:
        return found
    return [child, *(match for match in found if match is not child)]


def _launched_first(found: list[_Match]) -> list[_Match]:
    """A launcher that names its failed process gives no reason itself. Among its processes' output,
    a reason comes before a sign of one, and that before a peer that was gone."""
    best: dict[int, _Match] = {}
    for match in found:
        if match[1].is_child and match[0].role is not FailureRole.CONFIRMATION:
            best.setdefault(id(match[1]), match)

    def order(match: _Match) -> tuple[bool, bool]:
        return match[0].role is not FailureRole.ROOT, match[0].is_weak

    told = min(best.values(), key=order, default=None)
    return found if told is None else [told, *(one for one in found if one is not told)]


def container_finding(diagnostics: str, rules: Sequence[FailureRule]) -> Finding | None:
    """Match YARN's text about an ended container; ``None`` if no rule knows it."""
    for line in diagnostics.splitlines():
        for rule in rules:
            if rule.source is Source.YARN and matches(rule, line):
                return finding_of(rule, line)
    return None


def _matches(
    rules: Sequence[FailureRule], zones: Sequence[Zone], evidence: ProcessEvidence
) -> list[_Match]:
    """All that match, the one that counts first; each rule once for each zone."""
    found: list[tuple[tuple[bool, bool, int, int], FailureRule, Zone, str]] = []
    whole = Zone("exit status", ())
    child = child_status(evidence, zones)
    whole_of_child = Zone("exit status of a child process", (child.line,) if child else ())
    for number, rule in enumerate(rules):
        is_fit = fits_status(rule, evidence.code, evidence.signal)
        is_of_child = not is_fit and child and fits_status(rule, child.code, child.signal)
        if not (is_fit or is_of_child):
            continue
        # YARN's words in a program's log are those of containers of its own (Spark, Dask).
        is_repeated = rule.source is Source.YARN
        rule = _repeated(rule) if is_repeated else rule
        is_other = rule.is_weak, not (rule.exit_codes or rule.signals)
        if not rule.patterns and not rule.raised_in:
            at = whole_of_child if is_of_child else whole
            found.append(((*is_other, len(zones), number), rule, at, ""))
            continue
        pieces = [longest_piece(pattern) for pattern in rule.patterns]
        for depth, zone in enumerate(zones):
            if not is_raised_in(rule, zone.frames) or (zone.is_before and not _counts_early(rule)):
                continue
            line = _last_match(rule, pieces, zone.lines)
            if line is not None:
                found.append(((*is_other, depth, number), rule, zone, line))
    found.sort(key=lambda match: match[0])
    return [(rule, zone, line) for _, rule, zone, line in found]


def _counts_early(rule: FailureRule) -> bool:
    """Whether a line long before the last traceback counts: the driver's words on a broken GPU."""
    return rule.failure is FailureClass.GPU_ECC_ERROR


def _repeated(rule: FailureRule) -> FailureRule:
    """A rule on YARN's own text, for the same words in a log: a sign, and nothing about the node on
    which the log was written."""
    costs_nothing = rule.action in {RetryAction.ELSEWHERE, RetryAction.FREE}
    action = RetryAction.RETRY if costs_nothing else rule.action
    return replace(rule, is_weak=True, action=action)


def _last_match(rule: FailureRule, pieces: Sequence[str], lines: Sequence[str]) -> str | None:
    """Return the last line that matches; for a rule without patterns, the last line with any
    text."""
    for line in reversed(lines):
        if not pieces:
            if line.strip():
                return line
            continue
        small = line.lower()
        if any(piece in small for piece in pieces) and matches(rule, line):
            return line
    return None


def _origin(evidence: ProcessEvidence, line: str) -> Origin | None:
    """The origin of the last line with this text."""
    for text, origin in zip(reversed(evidence.log), reversed(evidence.origins), strict=False):
        if without_prefix(text) == line:
            return origin
    return None
