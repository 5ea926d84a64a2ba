"""The first cause of a failure, with the reasoning."""

from __future__ import annotations

from collections.abc import Iterator

from yarnam.cli.rendering.console import Line, Styled, clock_time
from yarnam.core.model.outcomes import FirstCause, Origin, RetryAction
from yarnam.errors import Blame

_ACTION_WORDS = {
    RetryAction.NEVER: "the same would happen again",
    RetryAction.ALLOWED: "started again as often as retry.on_user_failure says",
    RetryAction.RETRY: "started again, for one of retry.max_restarts",
    RetryAction.ELSEWHERE: "started again on other nodes, for one of retry.max_restarts",
    RetryAction.FREE: "started again for free, after a wait",
    RetryAction.MORE_MEMORY: "started again with more memory, where retry.more_memory is set",
    RetryAction.WITHOUT_INPUT: "started again without corrupt inputs, where on_corrupt says so",
}

_BLAME_WORDS = {
    Blame.USER: "user: the job's code, inputs or spec have to change",
    Blame.PLATFORM: "platform: yarnam itself",
    Blame.INFRA: "infra: the cluster, or what the job has no power over",
}


def cause_lines(cause: FirstCause, *, indent: str = "") -> Iterator[Line]:
    """The first cause with its line and rule, its consequences, and the causes ruled out."""
    finding = cause.finding
    node = f" on {cause.node}" if cause.node else ""
    yield f"{indent}{cause.task}{node} {cause.ended}: ", Styled(finding.failure.value, is_bold=True)
    if finding.explanation:
        yield f"{indent}  {finding.explanation}"
    rows = [
        ("evidence", finding.line or "the exit status alone"),
        ("written", written(finding.origin)),
        ("rule", f"{finding.rule or 'none'} ({finding.role.value})"),
        ("action", f"{finding.action.value}: {_ACTION_WORDS[finding.action]}"),
        ("to act", _BLAME_WORDS[finding.blame]),
        ("next", finding.hint),
    ]
    for name, text in rows:
        if text:
            yield f"{indent}  {name:<10}{text}"
    yield from _listed(f"{indent}  ", "after it", cause.then)
    yield from _listed(f"{indent}  ", "ruled out", finding.ruled_out)


def written(origin: Origin | None) -> str:
    """``to stderr, by 14:03:07``; empty means not known."""
    if origin is None:
        return ""
    stream = f"to {origin.stream.value}, " if origin.stream else ""
    return f"{stream}by {clock_time(origin.at_s)}"


def _listed(indent: str, name: str, lines: tuple[str, ...]) -> Iterator[Line]:
    for number, line in enumerate(lines):
        yield f"{indent}{'' if number else name:<10}{line}"
