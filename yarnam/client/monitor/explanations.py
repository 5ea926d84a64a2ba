"""Why processes failed, from logs or exit codes at hand: as an agent would say it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from yarnam.agent.launch.failure_examination import FailedRun, examine
from yarnam.agent.launch.output_streams import OutputStreams
from yarnam.core.failures.first_failure import FailedProcess, in_order_of_cause
from yarnam.core.model.outcomes import FailureRule, Finding, FirstCause
from yarnam.errors import UsageError
from yarnam.wire.codec import to_plain

FAILED_CODE = 1
"""Assumed of a process whose exit code is not given."""


def explain_logs(
    logs: Sequence[Path], exit_code: int | None = None, rules: Sequence[FailureRule] = ()
) -> FirstCause:
    """The first cause among processes whose logs these are, the first one rank 0. The order of the
    logs stands for times. ``exit_code`` is that of all of them, and ``rules`` are those of the
    site. Raises UsageError if a file cannot be read."""
    for log in logs:
        if not log.is_file():
            raise UsageError(f"{log} is not a readable file")
    found = [_finding(log, exit_code, rules) for log in logs or [Path()]]
    order = in_order_of_cause(
        [FailedProcess(rank, rank, float(rank), finding) for rank, finding in enumerate(found)]
    )
    first, *others = order
    name = logs[first.key].name if logs else "a process that"
    then = tuple(f"{logs[one.key].name}: {_named(found[one.key])}" for one in others)
    ended = f"exited with code {exit_code}" if exit_code is not None else "failed"
    return FirstCause(name, first.rank, "", ended, found[first.key], then)


def _finding(log: Path, exit_code: int | None, rules: Sequence[FailureRule]) -> Finding:
    code = FAILED_CODE if exit_code is None else exit_code
    return examine(FailedRun(log, OutputStreams(), code, 0), map(to_plain, rules), ()).finding


def _named(finding: Finding) -> str:
    return finding.failure.value + (f" ({finding.rule})" if finding.rule else "")
