"""Why a process failed, from what it left on this node. Loaded when the first one fails."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from yarnam.agent.launch.log_evidence import error_file_evidence, log_evidence
from yarnam.agent.launch.output_streams import OutputStreams
from yarnam.core.failures.evidence_zones import (
    ChildStatus,
    ProcessEvidence,
    child_status,
    own_traceback,
    zones_of,
)
from yarnam.core.failures.process_failure import process_finding
from yarnam.core.failures.rule_matching import rules_of
from yarnam.core.failures.shipped_rules import SHIPPED_RULES
from yarnam.core.model.outcomes import FailureRule, Finding

_LOG = logging.getLogger("yarnam.agent")


@dataclass(frozen=True, slots=True)
class FailedRun:
    """One process that failed. ``output``: where in its log this run of it began, and which part
    came from which stream."""

    log: Path
    output: OutputStreams
    code: int
    signal: int
    facts: Sequence[str] = ()
    error_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Raised:
    """A failure of a process that lives. ``at_s``: seconds since the epoch."""

    finding: Finding
    at_s: float


@dataclass(frozen=True, slots=True)
class Examination:
    """``child`` is the process of a launcher that failed first, if the process is a launcher."""

    finding: Finding
    child: ChildStatus | None


def examine(
    run: FailedRun, own_rules: Iterable[Mapping[str, object]], secrets: Collection[str]
) -> Examination:
    """Read what the process left and try the rules on it. ``own_rules``: the job's, as its record
    holds them."""
    evidence = _evidence(run, secrets)
    finding = process_finding(evidence, SHIPPED_RULES, _own(own_rules))
    return Examination(finding, child_status(evidence, zones_of(evidence)))


def raised(
    run: FailedRun, own_rules: Iterable[Mapping[str, object]], secrets: Collection[str]
) -> Raised | None:
    """The failure that a living process describes: by its last traceback, or by its
    framework's error file; ``None`` if it describes none, or nobody knows when it did."""
    evidence = _evidence(run, secrets)
    found = own_traceback(evidence)
    if found is None:
        return None
    own, origin = found
    at_s = origin.at_s if origin is not None else evidence.error_at_s
    if at_s is None:
        return None
    return Raised(process_finding(own, SHIPPED_RULES, _own(own_rules)), at_s)


def _evidence(run: FailedRun, secrets: Collection[str]) -> ProcessEvidence:
    message: tuple[str, ...] = ()
    at_s = None
    if run.error_file is not None:
        message, at_s = error_file_evidence(run.error_file)
    lines = log_evidence(run.log, run.output.start, secrets)
    return ProcessEvidence(
        code=run.code,
        signal=run.signal,
        log=tuple(line.text for line in lines),
        origins=tuple(run.output.origin(line.at) for line in lines),
        facts=tuple(run.facts),
        error_file=message,
        error_at_s=at_s,
    )


def _own(own_rules: Iterable[Mapping[str, object]]) -> tuple[FailureRule, ...]:
    try:
        return rules_of(own_rules)
    except (LookupError, TypeError, ValueError) as error:
        _LOG.warning("the job's own rules cannot be read: %r", error)
        return ()
