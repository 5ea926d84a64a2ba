"""Why one process failed: the most specific rule that fits what it left.

In this order, and within each by the order of the rules:

1. the job's own rules (``retry.rules``);
2. rules with an exit status, first those with patterns too: the kernel's word, or the program's;
3. rules with patterns alone, on the evidence from the nearest to the failure to the farthest: what
   the agent saw, the framework's error file, the last traceback (or the last lines), all the rest;
4. weak rules: general signs, such as that there is a traceback at all.

A rule may name files of libraries (``raised_in``): an exception that comes out of a decoder says
that the input is wrong, whatever its words are.

Far evidence is not looked at where a traceback ends the log: it names the reason itself, and what
was printed long before has been survived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
    Stream,
)
from yarnam.errors import Blame

TRACEBACK = "Traceback (most recent call last)"

NEAR_LINES = 40
"""The last lines of a log that are near to its end: a screen."""

TRACEBACK_LINES = 250
"""A last traceback that began farther from the end than this was survived."""

INNERMOST_FRAMES = 8
"""Frames of a traceback that say where an exception comes from; the others led there."""

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


@dataclass(frozen=True, slots=True)
class ProcessEvidence:
    """What a failed process left. Texts are bounded by whoever collects them."""

    code: int = 0
    signal: int = 0
    log: tuple[str, ...] = ()
    """Of its output: lines of the start and of the end, in order."""
    origins: tuple[Origin | None, ...] = ()
    """Of each line of ``log``; empty: of none."""
    facts: tuple[str, ...] = ()
    """What the agent saw itself: a full disk, a kill by the kernel for want of memory."""
    error_file: tuple[str, ...] = ()
    """The message in the framework's error file (``TORCHELASTIC_ERROR_FILE``)."""
    error_at_s: float | None = None
    """The time in it."""


@dataclass(frozen=True, slots=True)
class _Zone:
    """Some of the evidence. ``name`` is for people."""

    name: str
    lines: Sequence[str]
    frames: Sequence[str] = ()
    """Of a traceback, the innermost ones."""
    is_log: bool = False


def process_finding(
    evidence: ProcessEvidence, shipped: Sequence[FailureRule], own: Sequence[FailureRule] = ()
) -> Finding:
    """Why the process failed; ``UNKNOWN`` if no rule fits. ``own``: the job's."""
    zones = _zones(evidence)
    found = [match for rules in (own, shipped) for match in _matches(rules, zones, evidence)]
    if not found:
        return replace(UNKNOWN, at_s=evidence.error_at_s)
    (rule, zone, line), *others = found
    return replace(
        finding_of(rule, line, evidence.error_at_s),
        origin=_origin(evidence, line) if zone.is_log else None,
        ruled_out=tuple(
            f"{other.id} ({at.name}): {shown(text)}" if text else other.id
            for other, at, text in others[:MAX_RULED_OUT]
            if not other.is_weak and (other.id, text) != (rule.id, line)
        ),
    )


def container_finding(diagnostics: str, rules: Sequence[FailureRule]) -> Finding | None:
    """What YARN's text says of a container that ended; None: nothing that a rule knows."""
    for line in diagnostics.splitlines():
        for rule in rules:
            if rule.source is Source.YARN and matches(rule, line):
                return finding_of(rule, line)
    return None


def _matches(
    rules: Sequence[FailureRule], zones: Sequence[_Zone], evidence: ProcessEvidence
) -> list[tuple[FailureRule, _Zone, str]]:
    """All that match, the one that counts first; each rule once for each zone."""
    found: list[tuple[tuple[bool, bool, int, int], FailureRule, _Zone, str]] = []
    whole = _Zone("exit status", ())
    for number, rule in enumerate(rules):
        is_fit = fits_status(rule, evidence.code, evidence.signal)
        if rule.source is not Source.PROCESS or not is_fit:
            continue
        is_other = rule.is_weak, not (rule.exit_codes or rule.signals)
        if not rule.patterns and not rule.raised_in:
            found.append(((*is_other, len(zones), number), rule, whole, ""))
            continue
        pieces = [longest_piece(pattern) for pattern in rule.patterns]
        for depth, zone in enumerate(zones):
            if not is_raised_in(rule, zone.frames):
                continue
            line = _last_match(rule, pieces, zone.lines)
            if line is not None:
                found.append(((*is_other, depth, number), rule, zone, line))
    found.sort(key=lambda match: match[0])
    return [(rule, zone, line) for _, rule, zone, line in found]


def _last_match(rule: FailureRule, pieces: Sequence[str], lines: Sequence[str]) -> str | None:
    """Of a rule without patterns: the last line that says anything."""
    for line in reversed(lines):
        if not pieces:
            if line.strip():
                return line
            continue
        small = line.lower()
        if any(piece in small for piece in pieces) and matches(rule, line):
            return line
    return None


def _zones(evidence: ProcessEvidence) -> list[_Zone]:
    """The evidence, nearest to the failure first."""
    log = [_without_prefix(line) for line in evidence.log]
    begin = _last_traceback(log)
    has_traceback = begin >= 0 and begin >= len(log) - TRACEBACK_LINES
    zones = [
        _Zone("seen by the agent", evidence.facts),
        _Zone("error file", [line for line in evidence.error_file if not _is_frame(line)]),
    ]
    if has_traceback:
        zones.append(_traceback_zone(evidence, log, begin))
        return zones
    begin = max(0, len(log) - NEAR_LINES)
    streams = _streams(evidence, len(log))
    on_stderr = [
        line
        for line, stream in zip(log[begin:], streams[begin:], strict=True)
        if stream is Stream.STDERR
    ]
    zones.append(_Zone("last lines on stderr", on_stderr, is_log=True))
    zones.append(_Zone("last lines", log[begin:], is_log=True))
    if not evidence.error_file:
        zones.append(_Zone("earlier lines", log[:begin], is_log=True))
    return zones


def _traceback_zone(evidence: ProcessEvidence, log: Sequence[str], begin: int) -> _Zone:
    """What follows the last traceback on stderr comes from stdout where its buffer was written at
    the end: that was said long before."""
    streams = _streams(evidence, len(log))
    is_on_stderr = streams[begin] is Stream.STDERR
    begin = _chain_begin(log, begin)
    lines = [
        line
        for line, stream in zip(log[begin:], streams[begin:], strict=True)
        if not (is_on_stderr and stream is Stream.STDOUT)
    ]
    frames = [line for line in lines if line.startswith('  File "')][-INNERMOST_FRAMES:]
    near = [line for line in lines if not _is_frame(line)]
    return _Zone("last traceback", near, frames, is_log=True)


def _streams(evidence: ProcessEvidence, count: int) -> Sequence[Stream | None]:
    """Of each line of the log."""
    if not evidence.origins:
        return [None] * count
    return [origin.stream if origin else None for origin in evidence.origins]


def _origin(evidence: ProcessEvidence, line: str) -> Origin | None:
    """Of the last line that reads so."""
    for text, origin in zip(reversed(evidence.log), reversed(evidence.origins), strict=False):
        if _without_prefix(text) == line:
            return origin
    return None


_BYSTANDERS = ("Exception calling application", "Exception ignored in", "was never retrieved")
"""What a server, the interpreter or an event loop prints before a traceback that it has caught."""


def _last_traceback(log: Sequence[str]) -> int:
    """Where the last traceback begins that ended the process, as far as one sees; -1: none. A
    server's thread may print one of its own after that."""
    begins = [number for number, line in enumerate(log) if TRACEBACK in line]
    for number in reversed(begins):
        before = log[number - 1] if number else ""
        if not any(text in before for text in _BYSTANDERS):
            return number
    return begins[-1] if begins else -1


_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)


def _chain_begin(log: Sequence[str], begin: int) -> int:
    """Where the first traceback of a chain begins whose last one begins at ``begin``."""
    while True:
        before = begin - 1
        while before >= 0 and not log[before].strip():
            before -= 1
        if before < 0 or log[before].strip() not in _CHAINED:
            return begin
        earlier = max((n for n in range(before) if TRACEBACK in log[n]), default=-1)
        if earlier < 0:
            return begin
        begin = earlier


def _without_prefix(line: str) -> str:
    """Without the rank that torch and torchrun put before a line: ``[rank0]: ``,
    ``[default0]:``."""
    if not line.startswith("["):
        return line
    for word in ("[rank", "[default"):
        number, bracket, rest = line.removeprefix(word).partition("]:")
        if line.startswith(word) and bracket and number.isdigit():
            return rest.removeprefix(" ")
    return line


def _is_frame(line: str) -> bool:
    """A line of a traceback that quotes the program: whatever it says has not happened there."""
    return line.startswith(("    ", '  File "'))
