"""Why a process failed, from what it left on this node. Loaded when the first one fails."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yarnam.agent.launch.log_evidence import error_file_evidence, log_evidence
from yarnam.agent.launch.output_streams import OutputStreams
from yarnam.core.failures.evidence_zones import ProcessEvidence
from yarnam.core.failures.process_failure import process_finding
from yarnam.core.failures.rule_matching import rules_of
from yarnam.core.failures.shipped_rules import SHIPPED_RULES
from yarnam.core.model.outcomes import Finding

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


def examine(
    run: FailedRun, own_rules: Iterable[Mapping[str, Any]], secrets: Collection[str]
) -> Finding:
    """Read what the process left and try the rules on it. ``own_rules``: the job's, as its record
    holds them."""
    message: tuple[str, ...] = ()
    at_s = None
    if run.error_file is not None:
        message, at_s = error_file_evidence(run.error_file)
    lines = log_evidence(run.log, run.output.start, secrets)
    evidence = ProcessEvidence(
        code=run.code,
        signal=run.signal,
        log=tuple(line.text for line in lines),
        origins=tuple(run.output.origin(line.at) for line in lines),
        facts=tuple(run.facts),
        error_file=message,
        error_at_s=at_s,
    )
    try:
        own = rules_of(own_rules)
    except (LookupError, TypeError, ValueError) as error:
        _LOG.warning("the job's own rules cannot be read: %r", error)
        own = ()
    return process_finding(evidence, SHIPPED_RULES, own)
