"""Advice on a gang's size as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from yarnam.cli.rendering.console import Line, table
from yarnam.core.advice import Advice, Plan
from yarnam.core.advice.predictions import Span
from yarnam.core.advice.size_plans import size_words
from yarnam.core.model.printable import duration

UNKNOWN = "unknown"


def as_text(found: Advice) -> Iterator[Line]:
    if found.is_advised:
        yield f"Advised: {found.plans[0].reason}"
    else:
        yield "No advice: too little is known of this program."
    if found.basis:
        yield f"By {found.basis}."
    if not found.basis:
        yield from found.notes
        return
    yield ""
    yield from table(
        ("", "SIZE", "STEP", "SPEEDUP", "EFFICIENCY", "NETWORK", "WAIT", "ENDS IN", "GPU-HOURS"),
        [_row(found, plan) for plan in sorted(found.plans, key=_by_size)],
    )
    yield ""
    known = [plan for plan in found.plans if plan.step_s is None or plan.step_s.likely is not None]
    yield from (plan.reason for plan in known[1 if found.is_advised else 0 :])
    yield from _unknown(found)
    yield from found.notes


def _unknown(found: Advice) -> Iterator[str]:
    """One line for each reason why plans have a lower bound only."""
    sizes: dict[str, list[str]] = {}
    for plan in found.plans:
        if plan.why_unknown:
            sizes.setdefault(plan.why_unknown, []).append(size_words(plan.option))
    for why, names in sizes.items():
        yield f"Not known for {', '.join(names)}: {why}."


def _by_size(plan: Plan) -> tuple[int, int, int]:
    return plan.option.gpus, plan.option.processes, plan.option.nodes


def _row(found: Advice, plan: Plan) -> tuple[str, ...]:
    option = plan.option
    is_advised = found.is_advised and plan is found.plans[0]
    mark = "advised" if is_advised else "spec" if option.is_own else ""
    if option.no_fit:
        return (mark, size_words(option).partition(" in ")[0], "never fits", *("-",) * 6)
    return (
        mark,
        size_words(option),
        _span(plan.step_s, _seconds),
        "-" if plan.speedup is None else f"{plan.speedup:.1f}",
        "-" if plan.efficiency is None else f"{plan.efficiency:.0%}",
        "-" if plan.network_share is None else f"{plan.network_share:.0%}",
        UNKNOWN if option.wait_s is None else duration(option.wait_s),
        _span(plan.finish_s, duration),
        _span(plan.gpu_hours, lambda hours: f"{hours:.3g}"),
    )


def _seconds(value: float) -> str:
    return f"{value:.3g} s"


def _span(span: Span | None, words: Callable[[float], str]) -> str:
    """The likely value with its range; what is unknown is said to be."""
    if span is None:
        return UNKNOWN
    if span.likely is None:
        return f"at least {words(span.low)}"
    if span.high is None:
        return f"{words(span.likely)} or more"
    if span.high - span.low < 0.02 * span.high:
        return words(span.likely)
    return f"{words(span.likely)} ({words(span.low)} to {words(span.high)})"
