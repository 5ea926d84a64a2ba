"""The first cause of a failure, with the reasoning."""

from __future__ import annotations

from collections.abc import Iterator

from yarnam.cli.rendering.console import Line, Styled
from yarnam.core.model.outcomes import FirstCause


def cause_lines(cause: FirstCause, *, indent: str = "") -> Iterator[Line]:
    """What was first, by which line and rule, what followed, and what was ruled out."""
    finding = cause.finding
    node = f" on {cause.node}" if cause.node else ""
    yield f"{indent}{cause.task}{node} {cause.ended}: ", Styled(finding.failure.value, is_bold=True)
    if finding.explanation:
        yield f"{indent}  {finding.explanation}"
    rows = [
        ("evidence", finding.line or "the exit status alone"),
        ("rule", f"{finding.rule or 'none'} ({finding.role.value})"),
        ("retry", finding.action.value),
        ("to act", finding.blame.value),
        ("next", finding.hint),
    ]
    for name, text in rows:
        if text:
            yield f"{indent}  {name:<10}{text}"
    yield from _listed(f"{indent}  ", "after it", cause.then)
    yield from _listed(f"{indent}  ", "ruled out", finding.ruled_out)


def _listed(indent: str, name: str, lines: tuple[str, ...]) -> Iterator[Line]:
    for number, line in enumerate(lines):
        yield f"{indent}{'' if number else name:<10}{line}"
